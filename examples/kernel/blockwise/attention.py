"""Attention in blocks of keys, with a softmax that is corrected as larger scores come in.

Memory grows with L times the block, not with L times S.
"""

import torch
from torch import Tensor

BLOCK = 4
"""Keys at a time: small, so that the short rows of a test cross several blocks."""


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return output (..., L, E) and log-sum-exp of the scores (..., L); rows that may attend to nothing are zero.

    `mask` is boolean, broadcasts to (..., L, S), and is true where a query may attend.
    """
    dtype = query.dtype
    query, key, value = (each.to(torch.promote_types(dtype, torch.float32)) for each in (query, key, value))
    leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    leading = leading if mask is None else torch.broadcast_shapes(leading, mask.shape[:-2])
    rows = (*leading, query.shape[-2])
    highest = query.new_full(rows, -torch.inf)
    total = query.new_zeros(rows)
    output = query.new_zeros((*rows, value.shape[-1]))
    for start in range(0, key.shape[-2], BLOCK):
        keys = slice(start, start + BLOCK)
        scores = query @ key[..., keys, :].mT * query.shape[-1] ** -0.5
        if mask is not None:
            scores = scores.masked_fill(~_columns(mask, keys), -torch.inf)
        before, highest = highest, torch.maximum(highest, scores.amax(-1))
        # Nothing has been seen yet where the highest score is still -inf, and -inf minus itself is no number.
        shift = highest.masked_fill(highest == -torch.inf, 0.0)
        weights = torch.exp(scores - shift.unsqueeze(-1))
        kept = torch.exp(before - shift)
        total = total * kept + weights.sum(-1)
        output = output * kept.unsqueeze(-1) + weights @ value[..., keys, :]
    seen = total > 0
    output = torch.where(seen.unsqueeze(-1), output / total.where(seen, 1.0).unsqueeze(-1), 0.0)
    return output.to(dtype), highest + total.log()


def _columns(mask: Tensor, keys: slice) -> Tensor:
    return mask if mask.shape[-1] == 1 else mask[..., keys]
