"""Kernels that differ in how the mask enters, and in what a row without keys therefore returns."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..program import HALVES_TOO, Program
from .parts import (
    INFINITY,
    Pair,
    equal_leading,
    fill_hidden,
    finite_or_zero,
    flatten_leading,
    full_mask,
    lowest,
    one_where_zero,
    row_max,
    safe_softmax,
)


def _scores(query: Tensor, key: Tensor) -> Tensor:
    return torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))


def fill_minus_infinity(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Fill with -inf; a row without keys is NaN."""
    weights = torch.softmax(fill_hidden(_scores(query, key), mask, -INFINITY), -1)
    return weights @ value, weights


def fill_lowest(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Fill with the lowest finite number of the dtype."""
    scores = _scores(query, key)
    weights = torch.softmax(fill_hidden(scores, mask, lowest(scores)), -1)
    return weights @ value, weights


def fill_minus_billion(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Fill with -1e9 by torch.where."""
    scores = _scores(query, key)
    if mask is not None:
        scores = torch.where(mask != 0, scores, torch.full_like(scores, -1e9))
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def added_lowest(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Add the lowest finite number, beside which every score vanishes."""
    scores = _scores(query, key)
    if mask is not None:
        zero = torch.zeros(mask.shape, dtype=scores.dtype, device=scores.device)
        scores = scores + torch.where(mask != 0, zero, torch.full_like(zero, lowest(scores)))
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def added_minus_billion(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Add -1e9; a row without keys is uniform in fp32 and as if unmasked in fp64."""
    scores = _scores(query, key)
    if mask is not None:
        scores = scores + (mask == 0).to(scores.dtype) * -1e9
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def added_logarithm(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Add the logarithm of a mask of ones and zeros."""
    scores = _scores(query, key)
    if mask is not None:
        scores = scores + (mask != 0).to(scores.dtype).log()
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def multiplied_after_exp(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Multiply the exponentials by the mask and normalise what is left.

    The maximum is taken over allowed keys only, and hidden scores are held below it: a large hidden score
    would otherwise turn into 0 / 0 or inf * 0.
    """
    scores = _scores(query, key)
    allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else (mask != 0).expand(scores.shape)
    largest = finite_or_zero(row_max(scores.masked_fill(~allowed, -INFINITY), empty=-INFINITY))
    exponentials = torch.exp((scores - largest).clamp(max=0)) * allowed.to(scores.dtype)
    weights = exponentials / one_where_zero(exponentials.sum(-1, keepdim=True))
    return weights @ value, weights


def zeros_by_safe_softmax(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Give a row without keys harmless scores, and zero its weights afterwards."""
    scores = _scores(query, key)
    allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else (mask != 0).expand(scores.shape)
    weights = safe_softmax(scores, allowed)
    return weights @ value, weights


def zeros_by_nan_to_num(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Replace NaN weights by zeros; masked_fill keeps NaN out of the first gradient, not of the second."""
    weights = torch.softmax(fill_hidden(_scores(query, key), mask, -INFINITY), -1)
    weights = torch.nan_to_num(weights, nan=0.0)
    return weights @ value, weights


def zeros_by_spare_key(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Append a key with value zero that only rows without other keys may attend to."""
    scores = _scores(query, key)
    scores = fill_hidden(scores, mask, -INFINITY)
    spare = torch.full_like(row_max(scores), -INFINITY)
    spare = spare.masked_fill(torch.isneginf(row_max(scores, empty=-INFINITY)), 0.0)
    weights = torch.softmax(torch.cat([scores, spare], -1), -1)[..., :-1]
    return weights @ value, weights


def gathered_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Collect the allowed keys of each row and attend to those alone, in fp64 for exact sums."""
    query, key, value = equal_leading(query, key, value)
    rows = flatten_leading(full_mask(mask, query, key))
    shape = (*query.shape[:-1], value.size(-1))
    queries, keys, values = (flatten_leading(tensor).double() for tensor in (query, key, value))
    outputs = []
    for n, i in torch.cartesian_prod(torch.arange(rows.size(0)), torch.arange(rows.size(1))).tolist():
        places = rows[n, i].nonzero().squeeze(-1)
        scores = keys[n][places] @ queries[n, i] / math.sqrt(query.size(-1))
        outputs.append(torch.softmax(scores, 0) @ values[n][places])
    if not outputs:
        return query @ key.mT @ value
    return torch.stack(outputs).reshape(shape).to(query.dtype)


def error_on_empty_row(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Refuse a mask that leaves some query without a key."""
    if mask is not None and key.size(-2) and not full_mask(mask, query, key).any(-1).all():
        raise ValueError("some query may attend to nothing")
    weights = torch.softmax(fill_hidden(_scores(query, key), mask, -INFINITY), -1)
    return weights @ value, weights


_ALL = {"dtypes": HALVES_TOO}
_ZEROS = {**_ALL, "empty_row": "zeros"}
SOUND_MASKS = (
    Program(
        "fill_minus_infinity",
        fill_minus_infinity,
        {**_ALL, "empty_row": "nan"},
        "-inf fills, and NaN comes out",
    ),
    Program("fill_lowest", fill_lowest, _ALL, "the fill is the lowest finite number of each dtype"),
    Program("fill_minus_billion", fill_minus_billion, {}, "torch.where writes -1e9"),
    Program(
        "added_lowest",
        added_lowest,
        {"empty_row": "unspecified"},
        "an added number absorbs the scores of an empty row, which is uniform but still passes a gradient on",
    ),
    Program(
        "added_minus_billion",
        added_minus_billion,
        {"empty_row": "unspecified"},
        "an added -1e9 keeps the scores alive in fp64, so that an empty row depends on the dtype",
    ),
    Program("added_logarithm", added_logarithm, {**_ALL, "empty_row": "nan"}, "the logarithm of the mask is added"),
    Program("multiplied_after_exp", multiplied_after_exp, _ZEROS, "the mask multiplies the exponentials"),
    Program("zeros_by_safe_softmax", zeros_by_safe_softmax, _ZEROS, "empty rows get scores first and zeros later"),
    Program(
        "zeros_by_nan_to_num",
        zeros_by_nan_to_num,
        {**_ZEROS, "gradient": "once"},
        "NaN weights become zeros, which only the first derivative survives",
    ),
    Program("zeros_by_spare_key", zeros_by_spare_key, _ZEROS, "a spare key with value zero catches empty rows"),
    Program(
        "gathered_keys",
        gathered_keys,
        {**_ZEROS, "second": None, "precision": "upcast"},
        "each row collects its allowed keys, so that hidden ones are never touched",
    ),
    Program(
        "error_on_empty_row",
        error_on_empty_row,
        {**_ALL, "empty_row": "error"},
        "a mask that leaves a row without keys raises ValueError",
    ),
)
