"""Faulty windows: counted wrongly, on the wrong side, or lost beside a mask or the causal triangle."""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import FILL, WINDOW, Population
from .parts import HIDDEN, Pair, attend, band, both, fill_hidden, optioned, over_keys, scaled

mutants = Population()


@mutants.add("OPTIONS", kind=WINDOW, repeats="B095 B096 B097 B099", options=("window",), causal="bottom-right")
def window_off_by_one(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
) -> Pair:
    """Keeps window + 1 keys."""
    wider = None if window is None else window + 1
    return optioned(query, key, value, mask, causal=causal, window=wider)


@mutants.add("OPTIONS", kind=WINDOW, repeats="B101", options=("window",), causal="bottom-right")
def window_one_too_narrow(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
) -> Pair:
    """Keeps window - 1 keys, but at least one."""
    narrower = None if window is None else max(window - 1, 1)
    return optioned(query, key, value, mask, causal=causal, window=narrower)


@mutants.add("OPTIONS", kind=WINDOW, repeats="B100", options=("window",), causal="bottom-right")
def window_on_the_left_only(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
) -> Pair:
    """Bounds the past and leaves the future open when attention is not causal."""
    keep = band(query.size(-2), key.size(-2), causal=causal)
    if window is not None:
        distance = torch.arange(query.size(-2)).unsqueeze(-1) - torch.arange(key.size(-2))
        keep = keep & (distance + key.size(-2) - query.size(-2) < window)
    return attend(query, key, value, both(mask, keep))


@mutants.add("OPTIONS", kind=WINDOW, repeats="B100", options=("window",), causal="bottom-right")
def window_halved(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
) -> Pair:
    """Spreads the window over both sides: window // 2 each when attention is not causal."""
    halved = window if window is None or causal else max(window // 2, 1)
    return optioned(query, key, value, mask, causal=causal, window=halved)


@mutants.add("OPTIONS", kind=WINDOW, repeats="numerics 38", options=("window",))
def window_ignored(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, window: int | None = None
) -> Pair:
    """Ignores the window."""
    return attend(query, key, value, mask)


@mutants.add("OPTIONS", "MASK", kind=WINDOW, repeats="numerics 38", options=("window",))
def window_ignored_without_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, window: int | None = None
) -> Pair:
    """Applies the window only together with a mask."""
    return optioned(query, key, value, mask, window=None if mask is None else window, corner="top-left")


@mutants.add("OPTIONS", "MASK", kind=WINDOW, repeats="B043", options=("window",))
def mask_ignored_with_window(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, window: int | None = None
) -> Pair:
    """Forgets the mask when a window is given."""
    return optioned(query, key, value, mask if window is None else None, window=window, corner="top-left")


@mutants.add("OPTIONS", kind=WINDOW, repeats="B101", options=("window",), causal="bottom-right")
def window_aligned_top_left(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
) -> Pair:
    """Aligns the triangle bottom-right and the window at index 0."""
    keep = band(query.size(-2), key.size(-2), causal=causal)
    if window is not None:
        keep = keep & band(query.size(-2), key.size(-2), causal=causal, window=window, corner="top-left")
    return attend(query, key, value, both(mask, keep))


@mutants.add("OPTIONS", kind=WINDOW, options=("window",), causal="bottom-right")
def window_drops_causality(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
) -> Pair:
    """Looks at both sides of the query even when attention is causal."""
    keep = band(query.size(-2), key.size(-2), causal=causal and window is None, window=window)
    return attend(query, key, value, both(mask, keep))


@mutants.add("OPTIONS", "MASK", kind=FILL, repeats="numerics 33", options=("window",))
def window_fill_minus_10(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, window: int | None = None
) -> Pair:
    """Sets scores outside the window to -10."""
    scores = scaled(query, key)
    if window is not None:
        keep = band(query.size(-2), key.size(-2), window=window, corner="top-left")
        seen = keep.any(dim=-1, keepdim=True) if key.size(-2) else keep
        scores = scores.masked_fill(~keep, HIDDEN).masked_fill(~keep & seen, -10.0)
    weights = over_keys(fill_hidden(scores, mask))
    return torch.matmul(weights, value), weights
