"""Building blocks of the faulty implementations.

`attend` is sound attention in four stages, each of which a mutant may replace: score, hide, normalise, mix.
`optioned` is the sound kernel with every option. The rest bends one thing: a gradient, a rounding, a stride.
All of them keep any leading axes, zero sizes, fp64, fp32, bf16 and second derivatives intact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

HIDDEN = -1e9
"""The score of a hidden key: finite, so that a row with nothing to attend to is uniform."""

Pair = tuple[Tensor, Tensor]
Score = Callable[[Tensor, Tensor], Tensor]
Hide = Callable[[Tensor, "Tensor | None"], Tensor]
Normalise = Callable[[Tensor], Tensor]
Mix = Callable[[Tensor, Tensor], Tensor]
Change = Callable[[Tensor], Tensor]


def default_scale(query: Tensor) -> float:
    return 1.0 / math.sqrt(query.size(-1))


def scaled(query: Tensor, key: Tensor, scale: float | None = None) -> Tensor:
    return torch.matmul(query, key.transpose(-2, -1)) * (default_scale(query) if scale is None else scale)


def fill_hidden(scores: Tensor, mask: Tensor | None, fill: float = HIDDEN) -> Tensor:
    return scores if mask is None else scores.masked_fill(mask == 0, fill)


def over_keys(scores: Tensor) -> Tensor:
    return torch.softmax(scores, dim=-1)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    score: Score | None = None,
    hide: Hide = fill_hidden,
    normalise: Normalise = over_keys,
    mix: Mix = torch.matmul,
) -> Pair:
    """Scaled dot-product attention: output (..., L, E) and weights (..., L, S); nonzero mask = attend."""
    scores = scaled(query, key, scale) if score is None else score(query, key)
    weights = normalise(hide(scores, mask))
    return mix(weights, value), weights


def band(
    length: int, keys: int, *, causal: bool = False, window: int | None = None, corner: str = "bottom-right"
) -> Tensor:
    """The keys (L, S) that `causal` and `window` leave to each query: |i + offset - j| < window, j <= i + offset."""
    offset = keys - length if corner == "bottom-right" else 0
    distance = torch.arange(length).unsqueeze(-1) + offset - torch.arange(keys)
    keep = torch.ones(length, keys, dtype=torch.bool)
    if causal:
        keep = keep & (distance >= 0)
    if window is not None:
        keep = keep & (distance < window)
        if not causal:
            keep = keep & (distance > -window)
    return keep


def both(mask: Tensor | None, keep: Tensor | None) -> Tensor | None:
    """Attend where both masks do."""
    if mask is None or keep is None:
        return keep if mask is None else mask
    return (mask != 0) & keep.to(mask.device)


def capped(scores: Tensor, softcap: float | None) -> Tensor:
    return scores if softcap is None else softcap * torch.tanh(scores / softcap)


def optioned(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    bias: Tensor | None = None,
    window: int | None = None,
    softcap: float | None = None,
    corner: str = "bottom-right",
) -> Pair:
    """Attention with options, in the order scale, softcap, bias, mask, softmax."""
    scores = capped(scaled(query, key, scale), softcap)
    scores = scores if bias is None else scores + bias.to(scores.dtype)
    if causal or window is not None:
        mask = both(mask, band(query.size(-2), key.size(-2), causal=causal, window=window, corner=corner))
    weights = over_keys(fill_hidden(scores, mask))
    return torch.matmul(weights, value), weights


def spread_heads(query: Tensor, tensor: Tensor) -> Tensor:
    """Give every query head its key or value head: consecutive query heads share one."""
    if query.dim() < 3 or tensor.dim() < 3 or tensor.size(-3) in (1, query.size(-3)):
        return tensor
    return tensor.repeat_interleave(query.size(-3) // tensor.size(-3), dim=-3)


def exponentials(scores: Tensor) -> Tensor:
    """exp(scores - row maximum); no keys give no exponentials."""
    if scores.size(-1) == 0:
        return scores.exp()
    return torch.exp(scores - scores.amax(dim=-1, keepdim=True).detach())


def without_empty_rows(scores: Tensor) -> Tensor:
    """Scores in which a row with nothing to attend to is all zero, so that a fault elsewhere leaves it uniform."""
    if scores.size(-1) == 0:
        return scores
    top = scores.amax(dim=-1, keepdim=True).detach()
    return scores - torch.where(top <= HIDDEN / 2, top, torch.zeros_like(top))


def positions(tensor: Tensor, axis: int) -> Tensor:
    """0, 1, 2 ... along `axis`, shaped to broadcast against `tensor` (axis counted from the end)."""
    steps = torch.arange(tensor.size(axis), device=tensor.device)
    return steps.reshape(-1, *[1] * (-axis - 1))


def value_of(seen: Tensor, gradient: Tensor) -> Tensor:
    """The value of `seen` with the gradient of `gradient`."""
    return seen.detach() + (gradient - gradient.detach())


def altered(tensor: Tensor, change: Change) -> Tensor:
    """`tensor` itself, whose gradient passes through `change` on its way back."""
    result: Tensor = _Altered.apply(tensor, change)  # type: ignore[no-untyped-call]
    return result


class _Altered(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, change: Change) -> Tensor:
        ctx.change = change
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.change(gradients[0]), None


def rounded(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """`tensor` rounded to `dtype` and back; the gradient is not rounded."""
    return value_of(tensor.to(dtype).to(tensor.dtype), tensor)


def read_as_contiguous(tensor: Tensor) -> Tensor:
    """The elements found at `tensor`'s address if its strides are ignored."""
    if tensor.is_contiguous() or tensor.numel() == 0:
        return tensor
    places = torch.arange(tensor.numel(), device=tensor.device) + int(tensor.storage_offset())
    return from_storage(tensor, places).reshape(tensor.shape)


def from_storage(tensor: Tensor, places: Tensor) -> Tensor:
    """The elements at `places` of the storage under `tensor`.

    What lies beyond its end is unknown; the storage is repeated there, shifted by one element each time.
    """
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((size,), (1,), 0)[(places + places // size) % size]


def writable(tensor: Tensor) -> bool:
    """True where no two elements of `tensor` share one address."""
    return all(stride != 0 or size <= 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
