"""Two sound kernels, for tests that need any."""

from __future__ import annotations

import torch
from torch import Tensor


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    scores = query @ key.mT / query.size(-1) ** 0.5
    weights = (scores if mask is None else scores.masked_fill(mask == 0, -1e9)).softmax(-1)
    return weights @ value, weights


def zeros(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = query @ key.mT / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -torch.inf)
        return scores.softmax(-1).masked_fill(~(mask != 0).any(-1, keepdim=True), 0.0) @ value
    return scores.softmax(-1) @ value
