"""Errors that are small in every element and point the same way in all of them.

In 16 bits a scale that is off by a hundredth stays within the bound of each element. Summed over thousands of rows it
does not: the error is regressed on the direction in which the fault would move the output, and rounding, which has
no direction, cancels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..cases.case import Case
from ..dtypes import UNIT_ROUNDOFF, torch_dtype
from ..oracle.expectations import Expectation, Setting, expect, merge_heads

SURE = 8.0
"""Standard errors that an amount has to be away from zero. Rounding has shown up to 12 with a tiny amount, so that
this never decides alone."""


@dataclass(frozen=True)
class Amount:
    """How much of a direction an error holds, and how many standard errors that is away from zero."""

    value: float
    sure: float


def amount(error: Tensor, direction: Tensor) -> Amount:
    """Regress an error on a direction, both (..., rows, columns); the standard error takes each row as one draw."""
    weight = (direction * direction).sum()
    if float(weight) == 0:
        return Amount(0.0, 0.0)
    value = (error * direction).sum() / weight
    residual = ((error - value * direction) * direction).sum(-1)
    spread = (residual * residual).sum().sqrt() / weight
    return Amount(float(value), float((value / spread).abs()))


@lru_cache(maxsize=16)
def directions(case: Case, setting: Setting, dtype: str) -> Mapping[str, Tensor]:
    """Return how the output moves, to first order, when all scores, the whole output, or the weight of one key grow
    by a common factor; modules are taken to have identity projections.

    The scores come first. What a rounded scale does is taken out of the others, which allow for nothing of the kind.
    """
    expectation = expect(case, setting, dtype)
    truth, value = expectation.truth, expectation.problem.value
    weights, output = truth.weights, truth.output
    mean = (weights * truth.scores).sum(-1, keepdim=True)
    scores = (weights * (truth.scores - mean)) @ value
    others = {
        "the whole output": output,
        "the weight of the first key": weights[..., :1] * (value[..., :1, :] - output),
        "the weight of the last key": weights[..., -1:] * (value[..., -1:, :] - output),
    }
    moved = {"all scores": scores} | {what: way - amount(way, scores).value * scores for what, way in others.items()}
    return {what: merge_heads(way) if expectation.setting.module else way for what, way in moved.items()}


def constants(scale: float, dtype: str) -> float:
    """Return the largest relative error of the scores from one way of rounding the scale to `dtype`.

    Ways in use: the factor itself, its root on query and key, the divisor, the divisor's root on both sides, and
    the factor times log2(e) in one number or two.
    """
    factor, base = abs(scale), math.log2(math.e)
    ways = (
        _rounding(factor, dtype),
        2 * _rounding(math.sqrt(factor), dtype),
        _rounding(1 / factor, dtype),
        2 * _rounding(1 / math.sqrt(factor), dtype),
        _rounding(factor * base, dtype),
        _rounding(factor, dtype) + _rounding(base, dtype),
    )
    return max(ways)


def _rounding(number: float, dtype: str) -> float:
    rounded = torch.tensor(number, dtype=torch.float64).to(torch_dtype(dtype))
    return abs(float(rounded) / number - 1)


def largest_amounts(expectation: Expectation) -> tuple[float, float]:
    """Return how much of a direction a sound program may show: of the scores, and of any other.

    Half a unit of rounding, and for the scores what a scale adds that the declared profile may round.
    """
    dtype = expectation.inputs.dtype
    half = 0.5 * UNIT_ROUNDOFF[dtype]
    exact = expectation.setting.precision in ("fused", "upcast")
    return half if exact else half + constants(expectation.problem.scale, dtype), half
