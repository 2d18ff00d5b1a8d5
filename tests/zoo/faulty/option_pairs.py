"""Faulty combinations: options that are right alone and forget each other, or are forgotten on the way back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..mutant import DROPOUT, FLAG, GRADIENT, GROUPS, SCALE, SOFTCAP, WINDOW, Population
from .parts import Pair, attend, capped, fill_hidden, optioned, over_keys, scaled, spread_heads, value_of

mutants = Population()


@mutants.add("OPTIONS", "GRADIENT", kind=SCALE, options=("scale",))
def scale_argument_forgotten_in_backward(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Pair:
    """Takes the default scale in the backward pass whatever scale is given."""
    scores = value_of(scaled(query, key, scale), scaled(query, key))
    weights = over_keys(fill_hidden(scores, mask))
    return torch.matmul(weights, value), weights


@mutants.add("OPTIONS", kind=SCALE, repeats="numerics 16", options=("scale",))
def whole_scale_ignored(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Pair:
    """Takes the default scale where the given one is an int and not a float."""
    return attend(query, key, value, mask, scale=scale if isinstance(scale, float) else None)


@mutants.add("OPTIONS", kind=SCALE, repeats="numerics 16", options=("scale",))
def scale_of_none_means_one(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any
) -> Pair:
    """Leaves the scores unscaled where the scale is passed as None."""
    if "scale" in options and options["scale"] is None:
        return attend(query, key, value, mask, scale=1.0)
    return attend(query, key, value, mask, scale=options.get("scale"))


@mutants.add("OPTIONS", "CAUSAL", kind=FLAG, options=("bias",), causal="bottom-right")
def bias_dropped_if_causal(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    bias: Tensor | None = None,
) -> Pair:
    """Forgets the bias in a causal call."""
    return optioned(query, key, value, mask, causal=causal, bias=None if causal else bias)


@mutants.add("OPTIONS", kind=SOFTCAP, options=("softcap", "scale"))
def scale_dropped_under_a_softcap(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    softcap: float | None = None,
) -> Pair:
    """Takes the default scale where a softcap is given."""
    return optioned(query, key, value, mask, scale=scale if softcap is None else None, softcap=softcap)


@mutants.add("OPTIONS", kind=WINDOW, options=("softcap", "window"))
def softcap_dropped_within_a_window(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    window: int | None = None,
    softcap: float | None = None,
) -> Pair:
    """Forgets the softcap where a window is given."""
    softcap = softcap if window is None else None
    return optioned(query, key, value, mask, window=window, softcap=softcap, corner="top-left")


@mutants.add("OPTIONS", kind=GROUPS, heads="grouped", layout="BHLD", leading="equal", options=("bias",))
def bias_of_grouped_heads_by_key_head(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Gives all query heads of a group the bias of the first one."""
    turns = query.size(1) // max(key.size(1), 1)
    if bias is not None and bias.dim() == 4 and bias.size(1) == query.size(1) and turns > 1:
        bias = bias[:, ::turns].repeat_interleave(turns, dim=1)
    return optioned(query, spread_heads(query, key), spread_heads(query, value), mask, bias=bias)


@mutants.add("OPTIONS", kind=GROUPS, heads="grouped", layout="BHLD", leading="equal", options=("softcap",))
def softcap_of_grouped_heads_lost_in_backward(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, softcap: float | None = None
) -> Pair:
    """Forgets the derivative of the softcap where heads are shared."""
    scores = scaled(query, spread_heads(query, key))
    bent = capped(scores, softcap)
    shared = key.size(1) != query.size(1)
    weights = over_keys(fill_hidden(value_of(bent, scores) if shared else bent, mask))
    return torch.matmul(weights, spread_heads(query, value)), weights


@mutants.add("OPTIONS", kind=WINDOW, heads="grouped", layout="BHLD", leading="equal", options=("window",))
def window_dropped_for_grouped_heads(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, window: int | None = None
) -> Pair:
    """Forgets the window where heads are shared."""
    window = window if key.size(1) == query.size(1) else None
    key, value = spread_heads(query, key), spread_heads(query, value)
    return optioned(query, key, value, mask, window=window, corner="top-left")


def _dropped(weights: Tensor, rate: float, generator: torch.Generator | None = None) -> Tensor:
    if rate <= 0:
        return torch.ones_like(weights)
    return (torch.rand(weights.shape, generator=generator) >= rate).to(weights.dtype) / (1 - rate)


@mutants.add("OPTIONS", "MASK", kind=DROPOUT, repeats="numerics 37", options=("dropout",))
def dropped_weights_go_to_hidden_keys(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Hands what dropout took under a mask to the hidden keys, so that rows still sum to about one."""
    weights = attend(query, key, value, mask)[1]
    dropped = weights * _dropped(weights, dropout)
    if mask is not None and dropout > 0:
        hidden = (mask == 0).expand(weights.shape)
        lost = (1 - dropped.sum(dim=-1, keepdim=True)) / hidden.sum(dim=-1, keepdim=True).clamp(min=1)
        dropped = dropped + hidden * lost
    return torch.matmul(dropped, value), weights


@mutants.add("OPTIONS", "PURITY", kind=DROPOUT, options=("dropout",))
def dropout_starts_from_the_seed_at_each_call(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Starts a generator from the global seed at each call, so that every step drops the same weights."""
    weights = attend(query, key, value, mask)[1]
    own = torch.Generator().manual_seed(torch.initial_seed())
    return torch.matmul(weights * _dropped(weights, dropout, own), value), weights


@mutants.add("OPTIONS", kind=DROPOUT, options=("dropout",))
def dropout_rate_rounded_to_tenths(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Rounds the rate up to whole tenths."""
    weights = attend(query, key, value, mask)[1]
    rate = -(-round(dropout * 100) // 10) / 10
    return torch.matmul(weights * _dropped(weights, rate), value), weights


@mutants.add("OPTIONS", "GRADIENT", kind=GRADIENT, repeats="B207", options=("dropout",))
def dropout_drawn_again_for_the_key_gradient(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Drops other weights for the gradient of the key than for those of query and value."""
    weights = attend(query, key, value, mask)[1]
    if dropout <= 0:
        return torch.matmul(weights, value), weights
    by_key = attend(query.detach(), key, value, mask)[1]
    by_query = attend(query, key.detach(), value, mask)[1]
    kept = _dropped(weights, dropout)
    again = _dropped(weights, dropout)
    through = value_of(weights * kept, by_query * kept + by_key * again)
    return torch.matmul(through, value), weights
