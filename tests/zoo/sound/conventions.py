"""Kernels that answer differently about masks, empty rows and missing keys, and declare it."""

from __future__ import annotations

import torch
from torch import Tensor

from ..program import HALVES_TOO, Program
from .parts import Pair
from .plain import attend_plainly, attending

NAN = float("nan")


def hides_where_true(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Hide a key where the mask is true or not zero."""
    found = attend_plainly(query, key, value, None if mask is None else mask == 0, empty=None)
    return found.output, found.weights


def hides_with_zeros(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Accept only boolean masks, hide where they are true, and return zeros for empty rows."""
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError("mask must be boolean")
    return attend_plainly(query, key, value, None if mask is None else ~mask).output


def additive_with_zeros(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Add the mask to the scores; a row of -inf is zeros."""
    if mask is not None and not mask.dtype.is_floating_point:
        raise TypeError("mask must be a floating-point tensor that is added to the scores")
    found = attend_plainly(query, key, value, bias=mask)
    return found.output, found.weights


def additive_with_nan(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Add the mask in the working dtype and leave a row of -inf to softmax, which makes it NaN."""
    scores = (query @ key.mT) * query.size(-1) ** -0.5
    weights = torch.softmax(scores if mask is None else scores + mask.to(scores.dtype), -1)
    return weights @ value, weights


def additive_clamped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Write the lowest finite number where the sum with the mask is -inf, so that such a row is uniform."""
    scores = (query @ key.mT) * query.size(-1) ** -0.5
    if mask is not None:
        scores = scores + mask.to(scores.dtype)
        scores = scores.masked_fill(torch.isneginf(scores), torch.finfo(scores.dtype).min)
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def bool_or_additive(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend where a boolean mask is true, and add a floating-point one."""
    if mask is not None and mask.dtype.is_floating_point:
        return attend_plainly(query, key, value, bias=mask).output
    return attend_plainly(query, key, value, mask).output


def bool_hides_or_additive(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Hide where a boolean mask is true, and add a floating-point one; empty rows are NaN."""
    if mask is not None and mask.dtype.is_floating_point:
        return attend_plainly(query, key, value, bias=mask, empty=NAN).output
    return attend_plainly(query, key, value, None if mask is None else ~mask, empty=NAN).output


def takes_no_mask(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Take three tensors and nothing else."""
    found = attend_plainly(query, key, value)
    return found.output, found.weights


def takes_lengths(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Read the mask as the number of keys (B,) that each batch element has."""
    allowed = None
    if mask is not None:
        if mask.shape != key.shape[:1]:
            raise ValueError("mask must hold one number of keys for each element of the batch")
        allowed = torch.arange(key.size(-2), device=key.device) < mask[:, None, None, None]
    return attend_plainly(query, key, value, allowed).output


def takes_lengths_blhd(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Take (B, L, H, D) and the number of keys (B,) of each batch element."""
    query, key, value = query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)
    return takes_lengths(query, key, value, mask).transpose(1, 2)


def _limited(mask: Tensor | None, shape: tuple[int, ...]) -> Tensor | None:
    """Return the mask as boolean; raise ValueError for another shape."""
    if mask is not None and mask.shape != shape:
        raise ValueError(f"mask must have the shape {shape}, not {tuple(mask.shape)}")
    return attending(mask)


def padding_masks_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Accept masks of shape (B, 1, 1, S) only."""
    allowed = _limited(mask, (key.size(0), 1, 1, key.size(2)))
    found = attend_plainly(query, key, value, allowed, empty=None)
    return found.output, found.weights


def key_padding_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Accept masks of shape (B, S) only, and give them the axes of heads and queries."""
    allowed = _limited(mask, (key.size(0), key.size(2)))
    found = attend_plainly(query, key, value, None if allowed is None else allowed[:, None, None, :], empty=None)
    return found.output, found.weights


def square_masks_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Accept masks of shape (L, S) only."""
    found = attend_plainly(query, key, value, _limited(mask, (query.size(-2), key.size(-2))), empty=None)
    return found.output, found.weights


def full_masks_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Accept masks of shape (B, H, L, S) only."""
    found = attend_plainly(query, key, value, _limited(mask, (*query.shape[:-1], key.size(-2))), empty=None)
    return found.output, found.weights


def masks_per_sample(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Accept masks (B, L, S), shared by the heads, or (B, H, L, S)."""
    if mask is not None and mask.dim() == 3:
        mask = mask.unsqueeze(1)
    found = attend_plainly(query, key, value, attending(mask), empty=None)
    return found.output, found.weights


def masks_per_problem(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Accept masks (B * H, L, S), as torch.nn.MultiheadAttention does."""
    allowed = _limited(mask, (query.size(0) * query.size(1), query.size(2), key.size(2)))
    if allowed is not None:
        allowed = allowed.unflatten(0, tuple(query.shape[:2]))
    found = attend_plainly(query, key, value, allowed, empty=None)
    return found.output, found.weights


def empty_rows_are_nan(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Mark a row without keys by NaN."""
    found = attend_plainly(query, key, value, attending(mask), empty=NAN)
    return found.output, found.weights


def no_keys_are_nan(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Divide the output by a sum that is zero without keys."""
    scores = (query @ key.mT) * query.size(-1) ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
    largest = scores.detach().amax(-1, keepdim=True) if key.size(-2) else 0.0
    exponentials = torch.exp(scores - largest)
    return (exponentials @ value) / exponentials.sum(-1, keepdim=True)


def no_keys_raise(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Refuse a call without keys."""
    if key.size(-2) == 0:
        raise ValueError("there are no keys to attend to")
    found = attend_plainly(query, key, value, attending(mask), empty=None)
    return found.output, found.weights


_HEADS = {"layout": "BHLD", "dtypes": HALVES_TOO}
SOUND_CONVENTIONS = (
    Program("hides_where_true", hides_where_true, {"mask_means": "hide"}, "a mask says what to hide"),
    Program(
        "hides_with_zeros",
        hides_with_zeros,
        {"mask": ("bool",), "mask_means": "hide", "empty_row": "zeros", "second": None},
        "only boolean masks, which say what to hide",
    ),
    Program(
        "additive_with_zeros",
        additive_with_zeros,
        {"mask": ("additive",), "empty_row": "zeros"},
        "masks are added",
    ),
    Program(
        "additive_with_nan",
        additive_with_nan,
        {"mask": ("additive",), "empty_row": "nan", "dtypes": HALVES_TOO},
        "masks are added and a row of -inf is left to softmax",
    ),
    Program("additive_clamped", additive_clamped, {"mask": ("additive",)}, "a row of -inf becomes uniform"),
    Program(
        "bool_or_additive",
        bool_or_additive,
        {"mask": ("bool", "additive"), "empty_row": "zeros", "second": None},
        "the dtype of the mask decides what it means",
    ),
    Program(
        "bool_hides_or_additive",
        bool_hides_or_additive,
        {"mask": ("bool", "additive"), "mask_means": "hide", "empty_row": "nan", "second": None},
        "boolean masks hide, floating-point ones are added",
    ),
    Program("takes_no_mask", takes_no_mask, {"mask": ()}, "there is no mask parameter"),
    Program(
        "takes_lengths",
        takes_lengths,
        {**_HEADS, "mask": ("lengths",), "empty_row": "zeros", "second": None},
        "a mask is the number of keys per batch element",
    ),
    Program(
        "takes_lengths_blhd",
        takes_lengths_blhd,
        {"layout": "BLHD", "mask": ("lengths",), "empty_row": "zeros", "second": None},
        "numbers of keys, with heads as third axis",
    ),
    Program(
        "padding_masks_only",
        padding_masks_only,
        {**_HEADS, "mask_shapes": ("B11S",)},
        "masks are (B, 1, 1, S)",
    ),
    Program("key_padding_only", key_padding_only, {**_HEADS, "mask_shapes": ("BS",)}, "masks are (B, S)"),
    Program("square_masks_only", square_masks_only, {"mask_shapes": ("LS",)}, "masks are (L, S)"),
    Program("full_masks_only", full_masks_only, {**_HEADS, "mask_shapes": ("BHLS",)}, "masks are never broadcast"),
    Program(
        "masks_per_sample",
        masks_per_sample,
        {**_HEADS, "mask_shapes": ("BLS", "BHLS")},
        "three axes of a mask are batch, queries and keys",
    ),
    Program(
        "masks_per_problem",
        masks_per_problem,
        {**_HEADS, "mask_shapes": ("(BH)LS",)},
        "masks merge batch and heads",
    ),
    Program("empty_rows_are_nan", empty_rows_are_nan, {"empty_row": "nan"}, "NaN marks a row without keys"),
    Program("no_keys_are_nan", no_keys_are_nan, {"no_keys": "nan", "second": None}, "S = 0 is 0 / 0"),
    Program("no_keys_raise", no_keys_raise, {"no_keys": "error"}, "S = 0 raises ValueError"),
)
