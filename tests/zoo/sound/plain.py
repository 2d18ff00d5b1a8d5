"""The plain computation inside the programs that differ only in their conventions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from .parts import INFINITY, accumulator, finite_or_zero, one_where_zero, row_max


@dataclass(frozen=True)
class Attended:
    """Output (..., L, E) and weights (..., L, S) in the dtype of the query; logsumexp (..., L) in fp32 at
    least, -inf for a row without keys."""

    output: Tensor
    weights: Tensor
    logsumexp: Tensor


def attend_plainly(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    allowed: Tensor | None = None,
    *,
    scale: float | None = None,
    bias: Tensor | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
    empty: float | None = 0.0,
) -> Attended:
    """Scale, cap, add the bias (-inf in it hides a key), mask, normalise and average in fp32 at least.

    `empty` is the weight of every key in a row without any; None stands for 1 / S.
    """
    wide = accumulator(query.dtype)
    scores = (query.to(wide) @ key.to(wide).mT) * (query.size(-1) ** -0.5 if scale is None else scale)
    if softcap is not None:
        scores = softcap * torch.tanh(scores / softcap)
    if bias is not None:
        scores = scores + bias.to(wide)
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -INFINITY)
    shift = finite_or_zero(row_max(scores, empty=-INFINITY))
    exponentials = torch.exp(scores - shift)
    total = exponentials.sum(-1, keepdim=True)
    divisor = one_where_zero(total)
    level = torch.where(total > 0, shift + divisor.log(), torch.full_like(total, -INFINITY))
    answer = 1 / max(key.size(-2), 1) if empty is None else empty
    weights = (exponentials / divisor).masked_fill(total == 0, answer)
    kept = torch.nn.functional.dropout(weights, dropout) if dropout else weights
    output = (kept @ value.to(wide)).to(query.dtype)
    return Attended(output, weights.to(query.dtype), level.squeeze(-1))


def band(
    queries: int,
    keys: int,
    *,
    bottom_right: bool,
    causal: bool,
    window: int | None = None,
    device: object = None,
) -> Tensor | None:
    """Return which keys (L, S) stand no later than the query (`causal`) and less than `window` places away.

    The query i stands at place i, or at i + S - L when aligned to the bottom right. None without a
    restriction.
    """
    if not causal and window is None:
        return None
    offset = keys - queries if bottom_right else 0
    distance = torch.arange(queries)[:, None] + offset - torch.arange(keys)
    allowed = distance >= 0 if causal else torch.ones_like(distance, dtype=torch.bool)
    if window is not None:
        allowed = allowed & (distance.abs() < window)
    return allowed.to(device) if isinstance(device, torch.device) else allowed


def both(first: Tensor | None, second: Tensor | None) -> Tensor | None:
    """Return the conjunction of two boolean masks, either of which may be missing."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def attending(mask: Tensor | None) -> Tensor | None:
    """Return a boolean mask, True = attend, of one that attends where it is not zero."""
    return None if mask is None else mask != 0


LOG2_E = 1 / math.log(2)
