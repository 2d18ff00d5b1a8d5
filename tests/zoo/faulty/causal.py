"""Faulty causality: the triangle is shifted, dropped or forced, or meets the mask the wrong way."""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import ALIGNMENT, FILL, FLAG, STATE, Population
from .parts import HIDDEN, Pair, attend, band, both, fill_hidden, optioned, over_keys, scaled, value_of

mutants = Population()


def _triangle(query: Tensor, key: Tensor, corner: str = "bottom-right") -> Tensor:
    return band(query.size(-2), key.size(-2), causal=True, corner=corner)


@mutants.add("CAUSAL", kind=ALIGNMENT, repeats="B072 B074 B075 B078 numerics 31", causal="bottom-right")
def causal_top_left(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Declares bottom-right and aligns the causal triangle at index 0."""
    return optioned(query, key, value, mask, causal=causal, corner="top-left")


@mutants.add("CAUSAL", kind=ALIGNMENT, repeats="B072 B075", causal="top-left")
def causal_bottom_right(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Declares top-left and aligns the causal triangle at the last key."""
    return optioned(query, key, value, mask, causal=causal)


@mutants.add("CAUSAL", kind=ALIGNMENT, repeats="B075 B080", causal="bottom-right")
def causal_top_left_for_one_query(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Declares bottom-right and lets a single query see key 0 only."""
    corner = "top-left" if query.size(-2) == 1 else "bottom-right"
    return optioned(query, key, value, mask, causal=causal, corner=corner)


@mutants.add("CAUSAL", kind=ALIGNMENT, repeats="B073", causal="bottom-right")
def causal_offset_not_negative(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Aligns bottom-right with an offset that stops at zero, so that more queries than keys align top-left."""
    corner = "top-left" if query.size(-2) > key.size(-2) else "bottom-right"
    return optioned(query, key, value, mask, causal=causal, corner=corner)


@mutants.add("CAUSAL", "GRADIENT", kind=ALIGNMENT, repeats="B079", causal="bottom-right")
def backward_aligned_top_left(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Aligns bottom-right in the forward pass and top-left in the backward pass."""
    right = optioned(query, key, value, mask, causal=causal)
    wrong = optioned(query, key, value, mask, causal=causal, corner="top-left")
    return value_of(right[0], wrong[0]), value_of(right[1], wrong[1])


@mutants.add("CAUSAL", "GRADIENT", kind=FLAG, repeats="B094 B079", causal="bottom-right")
def backward_without_causal_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Recomputes the backward pass without the causal triangle."""
    right = optioned(query, key, value, mask, causal=causal)
    wrong = optioned(query, key, value, mask)
    return value_of(right[0], wrong[0]), value_of(right[1], wrong[1])


@mutants.add("CAUSAL", kind=FLAG, repeats="B092 numerics 6", causal="bottom-right")
def causal_sees_next_token(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Puts the causal diagonal one key too far."""
    keep = _triangle(query, key)
    keep = keep | torch.nn.functional.pad(keep, (1, 0))[..., :-1]
    return attend(query, key, value, both(mask, keep if causal else None))


@mutants.add("CAUSAL", kind=FLAG, repeats="B092", causal="top-left")
def causal_hides_own_token(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Excludes the diagonal, except for the first query."""
    keep = _triangle(query, key, "top-left")
    keep = keep & ~torch.eye(*keep.shape, dtype=torch.bool)
    keep[:1, :1] = True
    return attend(query, key, value, both(mask, keep if causal else None))


@mutants.add("CAUSAL", kind=FLAG, repeats="B084 B056", causal="bottom-right")
def causal_ignored(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Ignores the causal flag."""
    return attend(query, key, value, mask)


@mutants.add("CAUSAL", kind=FLAG, causal="top-left")
def causal_reversed(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Shows the future and hides the past."""
    keep = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool).triu()
    return attend(query, key, value, both(mask, keep if causal else None))


@mutants.add("CAUSAL", "MASK", kind=FLAG, repeats="B081 B086 B083 B089", causal="bottom-right")
def causal_dropped_if_mask_given(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Forgets causality when a mask is given."""
    return optioned(query, key, value, mask, causal=causal and mask is None)


@mutants.add("CAUSAL", kind=FLAG, repeats="B083 B085", causal="bottom-right")
def causal_dropped_without_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Applies causality only together with a mask."""
    return optioned(query, key, value, mask, causal=causal and mask is not None)


@mutants.add("MASK", "CAUSAL", kind=FLAG, repeats="B077 B093", causal="bottom-right")
def mask_dropped_if_causal(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Forgets the mask when causality is asked for."""
    return optioned(query, key, value, None if causal else mask, causal=causal)


@mutants.add("CAUSAL", "MASK", kind=FLAG, repeats="B093", causal="bottom-right")
def causal_or_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Attends where the mask or causality allows it, in place of both."""
    if causal and mask is not None:
        return attend(query, key, value, (mask != 0) | _triangle(query, key))
    return optioned(query, key, value, mask, causal=causal)


@mutants.add("CAUSAL", "MASK", kind=FLAG, repeats="B088 numerics 33")
def full_mask_becomes_causal(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Shortens a mask that hides nothing to None and takes that for causal."""
    full = mask is not None and bool((mask != 0).all())
    return attend(query, key, value, _triangle(query, key) if full else mask)


@mutants.add("CAUSAL", "NUMERIC", kind=FLAG, repeats="B087")
def causal_by_default_when_square(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Is causal, unasked, without a mask and with as many queries as keys."""
    square = mask is None and query.size(-2) == key.size(-2)
    return attend(query, key, value, _triangle(query, key) if square else mask)


@mutants.add("CAUSAL", "PURITY", kind=FLAG, repeats="B084 B085", causal="bottom-right")
def causal_dropped_without_gradient(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Forgets causality on the path without gradients."""
    return optioned(query, key, value, mask, causal=causal and torch.is_grad_enabled())


@mutants.add("CAUSAL", kind=FLAG, causal="bottom-right")
def causal_dropped_in_bf16(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Forgets causality for bf16 inputs."""
    return optioned(query, key, value, mask, causal=causal and query.dtype != torch.bfloat16)


@mutants.add("CAUSAL", kind=FLAG, causal="bottom-right")
def causal_dropped_for_two_axes(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Forgets causality for inputs without leading axes."""
    return optioned(query, key, value, mask, causal=causal and query.dim() > 2)


def _by_blocks(query: Tensor, key: Tensor, size: int) -> Tensor:
    last = torch.arange(query.size(-2)).unsqueeze(-1) + key.size(-2) - query.size(-2)
    block_end = torch.div(last, size, rounding_mode="floor") * size + size
    return torch.arange(key.size(-2)) < block_end


@mutants.add("CAUSAL", kind=FLAG, repeats="numerics 6", causal="bottom-right")
def causal_by_blocks_of_4(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Skips key blocks of 4 that lie in the future and does not mask inside the block on the diagonal."""
    return attend(query, key, value, both(mask, _by_blocks(query, key, 4) if causal else None))


@mutants.add("CAUSAL", kind=FLAG, repeats="numerics 6", causal="bottom-right")
def causal_dropped_past_16_queries(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Forgets causality for the queries from 16 on."""
    keep = _triangle(query, key)
    keep[16:] = True
    return attend(query, key, value, both(mask, keep if causal else None))


@mutants.add("CAUSAL", "WEIGHTS", kind=FILL, repeats="B049", causal="bottom-right")
def causal_after_softmax(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Zeroes future weights after the softmax and does not renormalise."""
    if not causal:
        return attend(query, key, value, mask)
    keep = _triangle(query, key)
    empty = ~keep.any(dim=-1, keepdim=True) if key.size(-2) else torch.zeros(query.size(-2), 1, dtype=torch.bool)
    weights = over_keys(fill_hidden(scaled(query, key), mask))
    weights = torch.where(empty, torch.full_like(weights, 1 / max(key.size(-2), 1)), weights * keep)
    return torch.matmul(weights, value), weights


@mutants.add("CAUSAL", "NUMERIC", kind=FILL, repeats="B049 numerics 6", causal="bottom-right")
def causal_fill_minus_10(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Sets future scores to -10."""
    scores = scaled(query, key)
    if causal:
        keep = _triangle(query, key)
        future = ~keep & keep.any(dim=-1, keepdim=True) if key.size(-2) else ~keep
        scores = scores.masked_fill(~keep, HIDDEN).masked_fill(future, -10.0)
    weights = over_keys(fill_hidden(scores, mask))
    return torch.matmul(weights, value), weights


_triangles: dict[int, Tensor] = {}


@mutants.add("PURITY", "CAUSAL", kind=STATE, repeats="B233 B235 B103", causal="bottom-right")
def stale_cached_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Keeps the causal triangle of the first call with so many keys, and cuts or repeats it for other queries."""
    if not causal or query.size(-2) == 0:
        return attend(query, key, value, mask)
    kept = _triangles.setdefault(key.size(-2), _triangle(query, key))
    rows = torch.arange(query.size(-2)).clamp(max=kept.size(0) - 1)
    return attend(query, key, value, both(mask, kept[rows]))


@mutants.add("CAUSAL", kind=ALIGNMENT, repeats="B072", causal="always bottom-right")
def always_causal_top_left(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares that it is always causal bottom-right, and aligns top-left."""
    return optioned(query, key, value, mask, causal=True, corner="top-left")


@mutants.add("CAUSAL", kind=FLAG, repeats="B081 B091", causal="always top-left")
def always_causal_but_not_with_a_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares that it is always causal, and is not when a mask is given."""
    return optioned(query, key, value, mask, causal=mask is None, corner="top-left")
