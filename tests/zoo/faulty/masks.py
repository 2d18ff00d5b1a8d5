"""Faulty readings of a mask: which values hide, in which dtype, and when the mask is looked at at all."""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import BROADCAST, FILL, LEAK, MEANING, STRIDES, Population
from .parts import HIDDEN, Pair, attend, fill_hidden, over_keys, read_as_contiguous, scaled

mutants = Population()


def _is_number(mask: Tensor | None) -> bool:
    return mask is not None and mask.dtype != torch.bool


@mutants.add("MASK", "NUMERIC", kind=MEANING, repeats="B031 B032 numerics 5")
def mask_inverted(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Hides where the mask is nonzero."""
    return attend(query, key, value, None if mask is None else mask == 0)


@mutants.add("MASK", "NUMERIC", kind=MEANING, repeats="B030 B031 B032 numerics 33")
def bool_mask_inverted(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads True as hide; masks of numbers are read rightly."""
    return attend(query, key, value, mask if mask is None or _is_number(mask) else ~mask)


@mutants.add("MASK", "NUMERIC", kind=MEANING, repeats="B041 numerics 33")
def number_mask_inverted(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads a nonzero number as hide; boolean masks are read rightly."""
    return attend(query, key, value, mask == 0 if mask is not None and _is_number(mask) else mask)


@mutants.add("MASK", "NUMERIC", kind=MEANING)
def integer_mask_inverted_bitwise(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Hides where ~mask is nonzero: ~0 and ~1 are -1 and -2, so an integer mask hides every key."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None or mask.is_floating_point():
            return fill_hidden(scores, mask)
        return scores.masked_fill(~mask != 0, HIDDEN)

    return attend(query, key, value, mask, hide=hide)


@mutants.add("MASK", "NUMERIC", kind=FILL, repeats="B044 B051 B056 numerics 5")
def mask_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the mask."""
    return attend(query, key, value)


@mutants.add("MASK", "NUMERIC", kind=MEANING, repeats="B033 numerics 33")
def bool_mask_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Applies masks of numbers and ignores boolean ones."""
    return attend(query, key, value, mask if _is_number(mask) else None)


@mutants.add("MASK", "NUMERIC", kind=MEANING, repeats="numerics 33")
def integer_mask_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores masks of integers."""
    integer = mask is not None and mask.dtype != torch.bool and not mask.is_floating_point()
    return attend(query, key, value, None if integer else mask)


@mutants.add("MASK", "NUMERIC", kind=MEANING, repeats="B035 numerics 33")
def float_mask_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores masks of floating-point numbers."""
    return attend(query, key, value, None if mask is not None and mask.is_floating_point() else mask)


def _add(scores: Tensor, mask: Tensor) -> Tensor:
    return scores + mask.to(scores.dtype)


@mutants.add("MASK", "NUMERIC", kind=MEANING, repeats="B033 B040 B041 numerics 33")
def bool_mask_added_as_0_1(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Casts a boolean mask to 0 and 1 and adds it to the scores."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        return fill_hidden(scores, mask) if mask is None or _is_number(mask) else _add(scores, mask)

    return attend(query, key, value, mask, hide=hide)


@mutants.add("MASK", "NUMERIC", kind=MEANING, repeats="B037 B039 numerics 33")
def number_mask_added(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds a mask of numbers to the scores."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        return _add(scores, mask) if mask is not None and _is_number(mask) else fill_hidden(scores, mask)

    return attend(query, key, value, mask, hide=hide)


@mutants.add("MASK", "NUMERIC", kind=MEANING, repeats="B037")
def float_mask_added(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds a floating-point mask to the scores; boolean and integer masks are read rightly."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        added = mask is not None and mask.is_floating_point()
        return _add(scores, mask) if mask is not None and added else fill_hidden(scores, mask)

    return attend(query, key, value, mask, hide=hide)


def _additive(scores: Tensor, mask: Tensor | None) -> Tensor:
    """A sound reading of the capability `additive`: booleans attend, floats are added, -inf hides."""
    if mask is None or mask.dtype == torch.bool:
        return fill_hidden(scores, mask)
    hidden = mask == -torch.inf
    return (scores + mask.masked_fill(hidden, 0.0).to(scores.dtype)).masked_fill(hidden, HIDDEN)


@mutants.add("MASK", "NUMERIC", kind=MEANING, repeats="B034 B036 numerics 14", mask=("bool", "additive"))
def float_bias_thresholded_to_bool(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares additive masks and keeps the keys whose bias is exactly zero."""
    floating = mask is not None and mask.is_floating_point()
    return attend(query, key, value, mask == 0 if mask is not None and floating else mask, hide=_additive)


@mutants.add("MASK", "NUMERIC", kind=MEANING, repeats="B036 numerics 14", mask=("bool", "additive"))
def negative_bias_hides(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares additive masks, hides where the bias is negative and ignores its size."""
    floating = mask is not None and mask.is_floating_point()
    return attend(query, key, value, mask >= 0 if mask is not None and floating else mask, hide=_additive)


@mutants.add("MASK", "NUMERIC", kind=FILL, repeats="B052 numerics 14", mask=("bool", "additive"))
def scale_also_on_additive_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares additive masks and multiplies them by the scale; 0 and -inf do not show it."""
    if mask is not None and mask.is_floating_point():
        mask = mask / query.size(-1) ** 0.5
    return attend(query, key, value, mask, hide=_additive)


@mutants.add("MASK", "NUMERIC", kind=FILL, repeats="numerics 14", mask=("bool", "additive"))
def additive_mask_clamped_at_minus_10(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares additive masks and clamps them to [-10, 10], so that -inf leaks."""
    if mask is not None and mask.is_floating_point():
        mask = mask.clamp(-10, 10)
    return attend(query, key, value, mask, hide=_additive)


@mutants.add("MASK", kind=MEANING, repeats="B034")
def negative_mask_hides(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Attends where the mask is above zero, so that -1 hides."""
    return attend(query, key, value, None if mask is None else mask > 0)


@mutants.add("MASK", kind=MEANING)
def only_one_attends(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Attends where the mask equals one, so that 2 hides."""
    return attend(query, key, value, None if mask is None else mask == 1)


@mutants.add("MASK", kind=MEANING, repeats="B034")
def fractions_hide(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Cuts a floating-point mask to integers, so that 0.25 hides."""
    return attend(query, key, value, None if mask is None else mask.long())


@mutants.add("MASK", kind=MEANING)
def mask_thresholded_at_half(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Attends where a mask of numbers has an absolute value of at least one half."""
    return attend(query, key, value, mask.abs() >= 0.5 if mask is not None and _is_number(mask) else mask)


@mutants.add("MASK", kind=MEANING)
def mask_cut_to_a_byte(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Stores an integer mask as bytes, so that 256 hides."""
    wide = mask is not None and _is_number(mask) and not mask.is_floating_point()
    return attend(query, key, value, mask & 255 if mask is not None and wide else mask)


@mutants.add("MASK", kind=LEAK, repeats="B021 B025")
def masked_nan_leaks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Hides by arithmetic, keep * scores + (1 - keep) * fill, so that NaN or Inf in a hidden key reaches the row."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None:
            return scores
        keep = (mask != 0).to(scores.dtype)
        return keep * scores + (1 - keep) * HIDDEN

    return attend(query, key, value, mask, hide=hide)


@mutants.add("MASK", "MEMORY", kind=STRIDES, repeats="B154 numerics 34")
def mask_read_as_contiguous(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the strides of the mask."""
    return attend(query, key, value, None if mask is None else read_as_contiguous(mask))


@mutants.add("MASK", "MEMORY", kind=STRIDES, repeats="B157 numerics 34")
def expanded_mask_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores a mask that was expanded, because one of its strides is zero."""
    if mask is not None and any(s == 0 and n > 1 for s, n in zip(mask.stride(), mask.shape, strict=True)):
        mask = None
    return attend(query, key, value, mask)


@mutants.add("MASK", "MEMORY", kind=STRIDES, repeats="B154 numerics 34")
def mask_offset_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads a mask that is a slice from the start of its storage."""
    if mask is not None and mask.storage_offset():
        mask = mask.as_strided(mask.shape, mask.stride(), 0)
    return attend(query, key, value, mask)


@mutants.add("MASK", kind=BROADCAST, repeats="numerics 33")
def mask_of_two_axes_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores a mask (L, S) that all leading axes share."""
    shared = mask is not None and mask.dim() == 2 and query.dim() > 2
    return attend(query, key, value, None if shared else mask)


@mutants.add("MASK", kind=MEANING, repeats="B088")
def mask_dropped_when_first_row_is_full(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Drops a mask whose first row hides nothing, taking it for a full one."""
    if mask is not None and mask.numel() and bool((mask.reshape(-1, mask.size(-1))[0] != 0).all()):
        mask = None
    return attend(query, key, value, mask)


@mutants.add("MASK", kind=FILL, repeats="B241 numerics 31")
def mask_dropped_for_one_query(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the mask when there is one query."""
    return attend(query, key, value, None if query.size(-2) == 1 else mask)


@mutants.add("MASK", kind=BROADCAST, repeats="B047")
def mask_dropped_for_a_batch_of_one(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the mask when the first leading axis has size one."""
    return attend(query, key, value, None if query.dim() > 2 and query.size(0) == 1 else mask)


@mutants.add("MASK", "NUMERIC", kind=FILL)
def mask_ignored_in_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the mask for bf16 inputs."""
    return attend(query, key, value, None if query.dtype == torch.bfloat16 else mask)


@mutants.add("MASK", "WEIGHTS", "NUMERIC", kind=FILL)
def mask_applied_to_weights_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns masked weights and an output that was computed without the mask."""
    weights = over_keys(fill_hidden(scaled(query, key), mask))
    return attend(query, key, value)[0], weights
