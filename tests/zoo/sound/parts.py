"""Small steps that several sound programs share; each program combines them in its own way."""

from __future__ import annotations

import math

import torch
from torch import Tensor

INFINITY = float("inf")

Pair = tuple[Tensor, Tensor]
"""Output and second result."""


def accumulator(dtype: torch.dtype) -> torch.dtype:
    """Return the dtype in which sums are kept: fp32 for the halves, otherwise `dtype` itself."""
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def lowest(tensor: Tensor) -> float:
    """Return the most negative finite number of the tensor's dtype."""
    return torch.finfo(tensor.dtype).min


def fill_hidden(scores: Tensor, mask: Tensor | None, fill: float) -> Tensor:
    """Replace the scores whose mask is zero by `fill`."""
    return scores if mask is None else scores.masked_fill(mask == 0, fill)


def row_max(scores: Tensor, empty: float = 0.0) -> Tensor:
    """Return the largest score of each row (..., L, 1), outside the graph; `empty` without keys."""
    scores = scores.detach()
    if scores.size(-1) == 0:
        return scores.new_full((*scores.shape[:-1], 1), empty)
    return scores.amax(-1, keepdim=True)


def finite_or_zero(tensor: Tensor) -> Tensor:
    """Return the tensor with 0 in place of -inf, as the shift of a row without keys."""
    return torch.where(torch.isneginf(tensor), torch.zeros_like(tensor), tensor)


def one_where_zero(tensor: Tensor) -> Tensor:
    """Return the tensor with 1 in place of 0, as the divisor of a row without keys."""
    return torch.where(tensor == 0, torch.ones_like(tensor), tensor)


def round_through(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """Round to `dtype` and back; the gradient passes unrounded, as in a kernel with fp32 registers.

    The difference of a number and its rounding is representable, so the sum is exact.
    """
    return tensor + (tensor.detach().to(dtype).to(tensor.dtype) - tensor.detach())


def equal_leading(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Expand all three to their common leading axes."""
    leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    query, key, value = (tensor.expand(*leading, *tensor.shape[-2:]) for tensor in (query, key, value))
    return query, key, value


def full_mask(mask: Tensor | None, query: Tensor, key: Tensor) -> Tensor:
    """Return the boolean mask, True = attend, in its full shape (..., L, S)."""
    leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    shape = (*leading, query.size(-2), key.size(-2))
    if mask is None:
        return torch.ones(shape, dtype=torch.bool, device=query.device)
    return (mask != 0).expand(shape)


def flatten_leading(tensor: Tensor) -> Tensor:
    """Merge the leading axes into one: (..., M, N) to (B, M, N)."""
    return tensor.reshape(math.prod(tensor.shape[:-2]), *tensor.shape[-2:])


def safe_softmax(scores: Tensor, allowed: Tensor) -> Tensor:
    """Return softmax over the allowed keys; rows without any are zeros and pass no gradient."""
    empty = ~allowed.any(-1, keepdim=True)
    scores = scores.masked_fill(~allowed, -INFINITY).masked_fill(empty, 0.0)
    return torch.softmax(scores, -1).masked_fill(empty, 0.0)
