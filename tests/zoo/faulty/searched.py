"""Faults that need two or three things at once, which no fixed case brings together."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..mutant import BROADCAST, GRADIENT, GROUPS, SOFTCAP, STATE, STRIDES, TAILS, WINDOW, Population
from .parts import Pair, altered, attend, band, both, capped, optioned, read_as_contiguous, scaled, spread_heads

mutants = Population()


@mutants.add("SEARCH", "MASK", kind=BROADCAST)
def last_odd_key_shown_under_a_mask_per_head(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Shows the last key under a mask per head if there are more than eight keys and their number is odd."""
    if mask is not None and mask.dim() == 4 and mask.size(1) > 1 and key.size(-2) > 8 and key.size(-2) % 2:
        mask = (mask != 0) | (torch.arange(key.size(-2)) == key.size(-2) - 1)
    return attend(query, key, value, mask)


@mutants.add(
    "SEARCH", "OPTIONS", kind=WINDOW, options=("window",), heads="grouped", causal="bottom-right", layout="BHLD"
)
def window_one_wider_for_grouped_heads(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
) -> Pair:
    """Lets a window reach one key further if heads are grouped."""
    grouped = query.dim() > 3 and key.dim() > 3 and key.size(-3) not in (1, query.size(-3))
    wider = window + 1 if window is not None and grouped else window
    key, value = spread_heads(query, key), spread_heads(query, value)
    return optioned(query, key, value, mask, causal=causal, window=wider)


@mutants.add("SEARCH", "OPTIONS", kind=SOFTCAP, options=("softcap", "bias"), causal="bottom-right")
def softcap_bends_the_bias_in_causal_calls(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    softcap: float | None = None,
    bias: Tensor | None = None,
) -> Pair:
    """Adds the bias before the soft cap if the call is causal."""
    if not causal or softcap is None or bias is None:
        return optioned(query, key, value, mask, causal=causal, softcap=softcap, bias=bias)
    mask = both(mask, band(query.size(-2), key.size(-2), causal=True))
    return attend(query, key, value, mask, score=lambda query, key: capped(scaled(query, key) + bias, softcap))


@mutants.add("SEARCH", "MEMORY", kind=STRIDES)
def strided_key_read_as_contiguous_under_a_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Ignores the strides of the key if there is a mask."""
    return attend(query, key if mask is None else read_as_contiguous(key), value, mask)


@mutants.add("SEARCH", "GRADIENT", kind=GRADIENT)
def value_gradient_halved_where_key_and_value_are_broadcast_under_a_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Halves the gradient of a value that is broadcast over the batch if there is a mask."""
    if mask is not None and value.dim() > 3 and value.size(0) < query.size(0):
        value = altered(value, lambda gradient: gradient / 2)
    return attend(query, key, value, mask)


@mutants.add("SEARCH", "SHAPE", kind=TAILS)
def block_of_sixteen_loses_its_last_row_for_wide_values(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Returns zeros in the last row of 16 queries if the value is wider than the key."""
    output, weights = attend(query, key, value, mask)
    if query.size(-2) == 16 and value.size(-1) > key.size(-1):
        output = output * (torch.arange(16) != 15).to(output.dtype).unsqueeze(-1)
    return output, weights


_kept: dict[str, Any] = {}


@mutants.add("SEARCH", "PURITY", kind=STATE, options=("bias",))
def bias_kept_for_the_next_call_of_its_shape(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Uses the bias of the last call once more if the scores have the same shape and no bias is passed."""
    shape = (*query.shape[:-1], key.size(-2))
    used = bias
    if bias is None and _kept.get("shape") == shape:
        used = _kept["bias"].to(query.dtype)
    _kept.clear()
    if bias is not None:
        _kept.update(shape=shape, bias=bias.detach().clone())
    return optioned(query, key, value, mask, bias=used)


@mutants.add("SEARCH", "OPTIONS", kind=GROUPS, heads="grouped", layout="BHLD", mask=("bool", "additive"))
def grouped_heads_tiled_under_an_additive_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Tiles shared heads instead of repeating each if the mask is additive."""
    if mask is None or not mask.dtype.is_floating_point:
        return attend(query, spread_heads(query, key), spread_heads(query, value), mask)
    if query.dim() > 3 and key.size(-3) not in (1, query.size(-3)):
        repeats = query.size(-3) // key.size(-3)
        key, value = torch.cat([key] * repeats, dim=-3), torch.cat([value] * repeats, dim=-3)
    return attend(query, key, value, score=lambda query, key: (scaled(query, key) + mask).clamp(min=-1e9))
