"""Kernels that write the softmax out themselves, each in another way."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..program import HALVES_TOO, Program
from .parts import Pair, accumulator, fill_hidden, lowest, one_where_zero, row_max

LOG2_E = 1.4426950408889634


def _scores(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    """Return the masked scores with the lowest finite number where the mask hides."""
    scores = (query @ key.mT) * query.size(-1) ** -0.5
    return fill_hidden(scores, mask, lowest(scores))


def normalised_early(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Divide the exponentials by their sum, every step rounded to the working dtype."""
    scores = _scores(query, key, mask)
    exponentials = torch.exp(scores - row_max(scores))
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights @ value, weights


def normalised_late(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Multiply unnormalised exponentials with the value and divide the output."""
    scores = _scores(query, key, mask)
    exponentials = torch.exp(scores - row_max(scores))
    return (exponentials @ value) / one_where_zero(exponentials.sum(-1, keepdim=True))


def normalised_by_reciprocal(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Multiply with the rounded reciprocal of the sum."""
    scores = _scores(query, key, mask)
    exponentials = torch.exp(scores - row_max(scores))
    weights = exponentials * exponentials.sum(-1, keepdim=True).reciprocal()
    return weights @ value, weights


def normalised_by_ones_column(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Append a column of ones to the value; the product then holds its own divisor."""
    scores = _scores(query, key, mask)
    ones = torch.ones_like(value[..., :1]) if value.size(-1) else value.new_ones((*value.shape[:-1], 1))
    product = torch.exp(scores - row_max(scores)) @ torch.cat([value, ones], -1)
    return product[..., :-1] / one_where_zero(product[..., -1:])


def undetached_amax(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Leave the maximum in the graph, where its gradient cancels only up to rounding."""
    scores = _scores(query, key, mask)
    if scores.size(-1):
        scores = scores - scores.amax(-1, keepdim=True)
    exponentials = scores.exp()
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights @ value, weights


def undetached_max_index(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtract the value that max() picks by index; without keys it raises."""
    scores = _scores(query, key, mask)
    exponentials = torch.exp(scores - scores.max(dim=-1, keepdim=True).values)
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights @ value, weights


def log_softmax_exp(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Take the exponential of log_softmax, which runs in fp32 for the halves."""
    scores = _scores(query, key, mask)
    weights = torch.log_softmax(scores, -1, dtype=accumulator(scores.dtype)).exp().to(query.dtype)
    return weights @ value, weights


def logsumexp_normalised(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtract the logsumexp, so that no division is left; rows without keys are zeros.

    A finite fill would not do: log(S) vanishes beside it, and every weight of an empty row would be 1.
    """
    scores = ((query @ key.mT) * query.size(-1) ** -0.5).to(accumulator(query.dtype))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -math.inf)
    empty = torch.isneginf(row_max(scores, empty=-math.inf))
    level = torch.logsumexp(scores.masked_fill(empty, 0.0), -1, keepdim=True)
    weights = torch.exp(scores - level).to(query.dtype)
    return weights @ value, weights


def base_two(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Fold log2(e) into the scale and use exp2."""
    scores = (query @ key.mT) * (LOG2_E / math.sqrt(query.size(-1)))
    scores = fill_hidden(scores, mask, lowest(scores))
    exponentials = torch.exp2(scores - row_max(scores))
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights @ value, weights


def sorted_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Sort each row, add the exponentials from the smallest to the largest, and sort back."""
    scores = _scores(query, key, mask)
    ordered, places = scores.sort(-1)
    exponentials = torch.exp(ordered - ordered[..., -1:].detach())
    weights = (exponentials / exponentials.sum(-1, keepdim=True)).gather(-1, places.argsort(-1))
    return weights @ value, weights


def softmax_in_fp32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Convert the scores to fp32 for the softmax and the weights back, fp64 inputs included."""
    scores = _scores(query, key, mask)
    # fp64's lowest number is -inf in fp32, and a row of it has no softmax.
    scores = scores.float().clamp(min=torch.finfo(torch.float32).min)
    weights = torch.softmax(scores, -1).to(query.dtype)
    return weights @ value, weights


def shifted_then_fp32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtract the row's maximum before the scores become fp32, where large ones lose their digits."""
    scores = _scores(query, key, mask)
    exponentials = torch.exp((scores - row_max(scores)).float())
    weights = (exponentials / exponentials.sum(-1, keepdim=True)).to(query.dtype)
    return weights @ value, weights


def softmax_in_fp32_of_halves(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Take an fp32 softmax of half scores and cast the weights back before the product."""
    scores = torch.matmul(query, key.mT) * query.size(-1) ** -0.5
    scores = fill_hidden(scores, mask, lowest(scores))
    weights = torch.nn.functional.softmax(scores, dim=-1, dtype=accumulator(query.dtype)).to(query.dtype)
    return torch.matmul(weights, value), weights


def upcast_once(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Convert halves to fp32 at the start and round once at the end."""
    wide = accumulator(query.dtype)
    scores = _scores(query.to(wide), key.to(wide), mask)
    weights = torch.softmax(scores, -1)
    return (weights @ value.to(wide)).to(query.dtype), weights.to(query.dtype)


def upcast_to_fp64(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Compute everything in fp64 and round once."""
    weights = torch.softmax(_scores(query.double(), key.double(), mask), -1)
    return (weights @ value.double()).to(query.dtype), weights.to(query.dtype)


def in_place(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reuse the memory of the scores for every step up to the exponential."""
    scores = torch.matmul(query, key.mT).mul_(query.size(-1) ** -0.5)
    if mask is not None:
        scores.masked_fill_(mask == 0, lowest(scores))
    scores.sub_(row_max(scores)).exp_()
    weights = scores / scores.sum(-1, keepdim=True)
    return weights @ value, weights


def fp32_sums(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Keep half exponentials but add them with an explicit fp32 dtype, and normalise the fp32 output."""
    scores = _scores(query, key, mask)
    exponentials = torch.exp(scores - row_max(scores))
    total = exponentials.sum(-1, keepdim=True, dtype=accumulator(query.dtype))
    output = (exponentials @ value).to(total.dtype) / one_where_zero(total)
    return output.to(query.dtype)


_ALL = {"dtypes": HALVES_TOO}
SOUND_SOFTMAXES = (
    Program("normalised_early", normalised_early, _ALL, "a manual softmax in which every step is rounded"),
    Program("normalised_late", normalised_late, {**_ALL, "second": None}, "the output is divided, not the weights"),
    Program(
        "normalised_by_reciprocal",
        normalised_by_reciprocal,
        _ALL,
        "a rounded reciprocal replaces the division",
    ),
    Program(
        "normalised_by_ones_column",
        normalised_by_ones_column,
        {"second": None},
        "a matmul adds the divisor up",
    ),
    Program("undetached_amax", undetached_amax, _ALL, "the maximum stays in the graph and shares ties"),
    Program(
        "undetached_max_index",
        undetached_max_index,
        {**_ALL, "no_keys": "error"},
        "the maximum stays in the graph, picks one index, and raises without keys",
    ),
    Program("log_softmax_exp", log_softmax_exp, _ALL, "weights are the exponential of log_softmax"),
    Program(
        "logsumexp_normalised",
        logsumexp_normalised,
        {**_ALL, "empty_row": "zeros"},
        "the normaliser is subtracted in the exponent and nothing is divided",
    ),
    Program("base_two", base_two, _ALL, "exp2 with log2(e) inside the scale"),
    Program("sorted_keys", sorted_keys, _ALL, "exponentials are added in sorted order"),
    Program("softmax_in_fp32", softmax_in_fp32, {"precision": "softmax32"}, "fp64 inputs get an fp32 softmax"),
    Program(
        "shifted_then_fp32",
        shifted_then_fp32,
        {"precision": "softmax32"},
        "fp32 begins after the maximum is off",
    ),
    Program(
        "softmax_in_fp32_of_halves",
        softmax_in_fp32_of_halves,
        _ALL,
        "half scores, fp32 softmax, half weights",
    ),
    Program("upcast_once", upcast_once, {**_ALL, "precision": "upcast"}, "halves become fp32 and are rounded once"),
    Program("upcast_to_fp64", upcast_to_fp64, {**_ALL, "precision": "upcast"}, "everything is computed in fp64"),
    Program("in_place", in_place, _ALL, "one buffer holds scores and exponentials in turn"),
    Program("fp32_sums", fp32_sums, {**_ALL, "second": None}, "half exponentials with an fp32 divisor"),
)
