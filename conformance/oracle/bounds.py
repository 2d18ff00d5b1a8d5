"""The elementwise error that a sound program may make, under a declared precision profile.

First-order rounding analysis of each stage; sums of n terms count min(n, 4 sqrt(n)) roundings (Higham and Mary 2019,
with lambda = 4). Nothing is measured on a reference run, so no element borrows the allowance of another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..dtypes import SMALLEST, UNIT_ROUNDOFF
from .definition import Gradients, Problem, Truth, cap_slope, raw_scores

_FP32 = UNIT_ROUNDOFF["fp32"]


@dataclass(frozen=True)
class Units:
    """Relative error of one rounding at each stage: scaled query and key (`inputs`), `scores`, exponential
    (`exponent`), `weights`, `output`, running sums (`sums`), the sum that normalises a row (`normaliser`); `smallest` is the absolute error of an underflow and
    `slack` a factor on everything (2 for fp64, whose oracle errs as well)."""

    inputs: float
    scores: float
    exponent: float
    weights: float
    output: float
    sums: float
    normaliser: float
    smallest: float
    slack: float


def units(dtype: str, precision: str = "eager") -> Units:
    """Return the roundings that the profile `precision` allows in `dtype`."""
    u = UNIT_ROUNDOFF[dtype]
    low = min(u, _FP32)
    table: Mapping[str, tuple[float, float, float, float, float]] = {
        "eager": (u, u, u, u, u),
        "fused": (low, low, low, u, u),
        "upcast": (low, low, low, low, u),
        "tf32": (max(u, 2.0**-11) if dtype == "fp32" else u, u, u, u, u),
        "softmax32": (u, u, max(u, _FP32), max(u, _FP32), u),
    }
    stages = table[precision]
    slack = 2.0 if dtype == "fp64" else 1.0
    narrow = precision == "softmax32"
    return Units(
        *stages,
        sums=low,
        normaliser=max(low, _FP32) if narrow else low,
        smallest=max(SMALLEST[dtype], SMALLEST["fp32"]) if narrow else SMALLEST[dtype],
        slack=slack,
    )


def rounds(terms: int, unit: float) -> float:
    """Return the relative error of a sum of `terms` products."""
    return min(terms, 4 * math.sqrt(terms)) * unit


@dataclass(frozen=True)
class Allowed:
    """Largest error of each result, in the shape of the result; `scores` is the error of a score before softmax."""

    output: Tensor
    weights: Tensor
    logsumexp: Tensor
    scores: Tensor


@dataclass(frozen=True)
class InputErrors:
    """Errors that query, key, value and upstream gradient carry already (after a module's projections)."""

    query: Tensor
    key: Tensor
    value: Tensor


def forward(
    problem: Problem, truth: Truth, unit: Units, *, carried: InputErrors | None = None, exact_scores: bool = False
) -> Allowed:
    """Return the allowance of output, weights and logsumexp. `exact_scores` states that every product and sum in
    the scores is representable, so that only the softmax rounds."""
    score = _score_error(problem, truth, unit, carried, exact_scores).masked_fill_(~truth.live, 0.0)
    score = torch.expm1(score.clamp_(max=50.0))
    weights, value, allowed = truth.weights, problem.value.abs(), truth.allowed.double()
    common = 4 * unit.normaliser * (truth.level.abs() + truth.largest.abs())
    weighted = weights * score
    mean, sum_error = weighted.sum(-1, keepdim=True), rounds(problem.key.shape[-2], unit.normaliser)
    weight = weighted + weights * (mean + common + (sum_error + 3 * unit.weights)) + unit.smallest * allowed
    output = _spread(weighted, problem.value, truth.output)
    output = output + (common + (2 * unit.weights + 2 * sum_error)) * (weights @ value)
    output = output + 2 * unit.output * truth.output.abs() + unit.smallest * (1 + allowed @ value)
    if carried is not None:
        output = output + weights @ carried.value
    lse = mean + common + 2 * unit.output * truth.level.abs() + (sum_error + 2 * unit.exponent + unit.smallest)
    return Allowed(unit.slack * output, unit.slack * weight, unit.slack * lse, unit.slack * score)


def _score_error(
    problem: Problem, truth: Truth, unit: Units, carried: InputErrors | None, exact_scores: bool
) -> Tensor:
    scores = truth.scores
    magnitude = scores.abs()
    distance = (scores - truth.largest).abs_().masked_fill_(~truth.allowed, 0.0)
    error = (
        2 * unit.sums * magnitude + unit.exponent * distance + (4 * unit.exponent + 2 * unit.sums * truth.level.abs())
    )
    if exact_scores:
        return error
    products = problem.query.abs() @ problem.key.abs().transpose(-2, -1)
    rounded = (2 * unit.inputs + rounds(problem.query.shape[-1] + 1, unit.sums)) * abs(problem.scale)
    error = error + rounded * products + 2 * unit.scores * magnitude
    if problem.bias is not None:
        error = error + unit.scores * (problem.bias.abs() + raw_scores(problem).abs())
    if problem.softcap is not None:
        # Division, tanh and product each round once more; tanh never amplifies an error.
        error = error + 4 * unit.scores * raw_scores(problem).abs().clamp(max=problem.softcap)
    if carried is not None:
        query, key = carried.query, carried.key
        through = query @ (problem.key.abs() + key).transpose(-2, -1) + problem.query.abs() @ key.transpose(-2, -1)
        error = error + abs(problem.scale) * through
    return error


def _spread(error: Tensor, value: Tensor, output: Tensor) -> Tensor:
    """Return sum_j error_ij |value_jc - output_ic| without leaving more than a few megabytes behind."""
    if error.shape[-1] * error.numel() * value.shape[-1] > 2**27 or output.numel() * error.shape[-1] > 2**22:
        return error @ value.abs() + error.sum(-1, keepdim=True) * output.abs()
    distances = (value.unsqueeze(-3) - output.unsqueeze(-2)).abs_()
    return (error.unsqueeze(-2) @ distances).squeeze(-2)


@dataclass(frozen=True)
class Upstream:
    """Upstream gradients of output (..., L, E) and weights (..., L, S) or None, and the error the first carries."""

    output: Tensor
    weights: Tensor | None = None
    error: Tensor | None = None


def backward(
    problem: Problem,
    truth: Truth,
    gradients: Gradients,
    upstream: Upstream,
    unit: Units,
    *,
    results: Allowed,
    carried: InputErrors | None = None,
) -> Gradients:
    """Return the allowance of each gradient, in the shapes of `gradients`; `results` are those of the forward pass where
    no score is taken for exact."""
    allowed = _unslack(results, unit)
    weights, g = truth.weights, upstream.output.abs()
    queries = g.shape[-2]
    carried_g = torch.zeros_like(g) if upstream.error is None else upstream.error

    value = allowed.weights.transpose(-2, -1) @ g + weights.transpose(-2, -1) @ carried_g
    value = value + 2 * rounds(queries, unit.sums) * (weights.transpose(-2, -1) @ g)
    value = value + 2 * unit.output * gradients.value.abs() + unit.smallest

    slopes, slope_error = _slopes(problem, upstream, unit, carried_g, carried)
    scores = _score_gradient_error(truth, allowed, slopes, slope_error, upstream, unit, carried_g)
    scores = scores + (3 * unit.scores + 2 * unit.weights) * gradients.scores.abs() + unit.smallest
    scores = scores.masked_fill_(~truth.live, 0.0)
    # Autograd through a maximum that was not detached puts the whole residual of a row on its largest score.
    at_top = truth.allowed & (truth.scores == truth.largest)
    scores = scores + at_top * scores.sum(-1, keepdim=True)

    query, key = _through_products(problem, allowed, gradients, scores, unit, carried)
    return Gradients(unit.slack * query, unit.slack * key, unit.slack * value, unit.slack * scores)


def backward_logsumexp(
    problem: Problem,
    truth: Truth,
    gradients: Gradients,
    upstream: Tensor,
    unit: Units,
    *,
    results: Allowed,
    carried: InputErrors | None = None,
) -> Gradients:
    """Return the allowance of the gradients of a logsumexp, upstream (..., L, 1), as `backward` does.

    The weights may be a softmax of their own or exp(score - logsumexp), whose exponent rounds as both of them do.
    """
    allowed = _unslack(results, unit)
    dead = ~truth.live
    exponent = (truth.scores - truth.level).abs_()
    relative = (allowed.scores + allowed.logsumexp + 2 * unit.scores * exponent).masked_fill_(dead, 0.0)
    relative = torch.expm1(relative.clamp_(max=50.0)) + 8 * max(unit.output, unit.scores)
    scores = upstream.abs() * (truth.weights * relative + allowed.weights) + unit.smallest
    scores = scores.masked_fill_(dead, 0.0)
    at_top = truth.allowed & (truth.scores == truth.largest)
    scores = scores + at_top * scores.sum(-1, keepdim=True)
    query, key = _through_products(problem, allowed, gradients, scores, unit, carried)
    value = torch.full_like(gradients.value, unit.smallest)
    return Gradients(unit.slack * query, unit.slack * key, value, unit.slack * scores)


def _through_products(
    problem: Problem,
    allowed: Allowed,
    gradients: Gradients,
    scores: Tensor,
    unit: Units,
    carried: InputErrors | None,
) -> tuple[Tensor, Tensor]:
    """Return the errors of the gradients of query and key, given the error `scores` of those of the scores."""
    slope = cap_slope(problem)
    scale, cap = abs(problem.scale), slope if isinstance(slope, Tensor) else torch.ones(())
    inner, exact = scores * cap.abs().double(), (gradients.scores * cap).abs()
    if problem.softcap is not None:
        inner = inner + 4 * unit.scores * gradients.scores.abs() + 2 * allowed.scores * gradients.scores.abs()
    of_key, of_query = (None, None) if carried is None else (carried.key, carried.query)
    query = _product_error(inner, exact, problem.key, gradients.query, scale, unit, of_key)
    inner, exact = inner.transpose(-2, -1), exact.transpose(-2, -1)
    return query, _product_error(inner, exact, problem.query, gradients.key, scale, unit, of_query)


def _unslack(allowed: Allowed, unit: Units) -> Allowed:
    if unit.slack == 1:
        return allowed
    factor = 1 / unit.slack
    return Allowed(
        allowed.output * factor, allowed.weights * factor, allowed.logsumexp * factor, allowed.scores * factor
    )


def _slopes(
    problem: Problem, upstream: Upstream, unit: Units, carried_g: Tensor, carried: InputErrors | None
) -> tuple[Tensor, Tensor]:
    """Return the gradient that reaches the weights and its error."""
    g, value = upstream.output, problem.value
    slopes = g @ value.transpose(-2, -1)
    products = g.abs() @ value.abs().transpose(-2, -1)
    error = rounds(g.shape[-1], unit.sums) * products + unit.scores * slopes.abs() + unit.smallest
    error = error + carried_g @ value.abs().transpose(-2, -1)
    if carried is not None:
        error = error + g.abs() @ carried.value.transpose(-2, -1)
    if upstream.weights is not None:
        slopes = slopes + upstream.weights
        error = error + unit.scores * slopes.abs()
    return slopes, error


def _score_gradient_error(
    truth: Truth,
    allowed: Allowed,
    slopes: Tensor,
    slope_error: Tensor,
    upstream: Upstream,
    unit: Units,
    carried_g: Tensor,
) -> Tensor:
    weights = truth.weights
    keys, value_width = weights.shape[-1], upstream.output.shape[-1]
    mean = (weights * slopes).sum(-1, keepdim=True)
    magnitude = (weights * slopes.abs()).sum(-1, keepdim=True)
    by_weights = (allowed.weights * slopes.abs() + weights * slope_error).sum(-1, keepdim=True)
    by_weights = by_weights + (rounds(keys, unit.sums) + unit.scores) * magnitude
    g, output = upstream.output.abs(), truth.output.abs()
    by_output = (g * allowed.output + carried_g * output).sum(-1, keepdim=True)
    by_output = by_output + rounds(value_width, unit.sums) * (g * output).sum(-1, keepdim=True)
    mean_error = torch.maximum(by_weights, by_output) + unit.scores * mean.abs() + 2 * unit.scores * magnitude
    centred = (slopes - mean).abs()
    return allowed.weights * centred + weights * (slope_error + mean_error + unit.scores * centred)


def _product_error(
    error: Tensor, exact: Tensor, factor: Tensor, result: Tensor, scale: float, unit: Units, carried: Tensor | None
) -> Tensor:
    """Return the error of scale * (scores gradient) @ factor."""
    terms = exact.shape[-1]
    total = error @ factor.abs() + (2 * rounds(terms, unit.sums) + 2 * unit.inputs) * (exact @ factor.abs())
    if carried is not None:
        total = total + exact @ carried
    return scale * total + 3 * unit.output * result.abs() + unit.smallest


def linear(inputs: Tensor, error: Tensor, weight: Tensor, bias: Tensor | None, dtype: str, result: Tensor) -> Tensor:
    """Return the error of inputs W^T + b in `dtype`; inputs (..., N) with their `error`, W (M, N)."""
    u, low = UNIT_ROUNDOFF[dtype], min(UNIT_ROUNDOFF[dtype], _FP32)
    products, rounded = inputs.abs() @ weight.abs().T, 2 * u * result.abs()
    if bias is not None:
        products = products + bias.abs()
        # Where inputs do not lie in one piece, torch rounds the product before it adds the bias.
        rounded = rounded + u * (result - bias).abs()
    return error @ weight.abs().T + rounds(weight.shape[1] + 1, low) * products + rounded + SMALLEST[dtype]
