"""Attention from its definition in float64: output, weights, logsumexp and gradients.

Every tensor here is float64 and holds exactly the values that the implementation was given.
Source: Vaswani et al. 2017, section 3.2.1; the gradients are the derivatives of those formulas, written out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

INFINITY = float("inf")


@dataclass(frozen=True)
class Problem:
    """One attention to be solved, key and value already repeated to the heads of the query.

    query (..., L, D), key (..., S, D), value (..., S, E); leading axes broadcast. `allowed` is boolean and `bias`
    float, both broadcast to (..., L, S); None means all and nothing. `softcap` c turns a scaled score s into
    c * tanh(s / c) before bias and mask.
    `empty_row` and `no_keys` are answers as in `Capabilities`.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    scale: float
    allowed: Tensor | None = None
    bias: Tensor | None = None
    softcap: float | None = None
    empty_row: str = "uniform"
    no_keys: str = "zeros"


@dataclass(frozen=True)
class Truth:
    """The solution: output (..., L, E), weights (..., L, S), scores after bias and before masking (..., L, S),
    logsumexp over the allowed keys (..., L, 1), and which rows are empty (..., L, 1)."""

    output: Tensor
    weights: Tensor
    scores: Tensor
    logsumexp: Tensor
    allowed: Tensor
    empty: Tensor

    @cached_property
    def live(self) -> Tensor:
        """Which scores take part in a softmax (..., L, S): the allowed ones of rows that are not empty."""
        return self.allowed & ~self.empty

    @cached_property
    def largest(self) -> Tensor:
        """The largest allowed score of each row (..., L, 1), 0 where that is none or infinite."""
        if self.scores.shape[-1] == 0:
            return torch.zeros_like(self.logsumexp)
        masked = self.scores.masked_fill(~self.allowed, -INFINITY)
        return masked.amax(-1, keepdim=True).nan_to_num_(0.0, 0.0, 0.0)

    @cached_property
    def level(self) -> Tensor:
        """The logsumexp (..., L, 1), 0 where that is infinite."""
        return self.logsumexp.nan_to_num(0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Gradients:
    """Derivatives with respect to query, key, value and scores, each in the shape of the broadcast problem."""

    query: Tensor
    key: Tensor
    value: Tensor
    scores: Tensor


def solve(problem: Problem) -> Truth:
    """Return output, weights and logsumexp by the definition."""
    scores = raw_scores(problem)
    if problem.softcap is not None:
        scores = problem.softcap * torch.tanh(scores / problem.softcap)
    if problem.bias is not None:
        scores = scores + problem.bias
    if problem.allowed is None:
        allowed = torch.ones_like(scores, dtype=torch.bool)
    else:
        allowed = problem.allowed.expand_as(scores)
    empty = ~allowed.any(-1, keepdim=True)
    masked = scores.masked_fill(~allowed, -INFINITY)
    weights = _weights(masked, empty, problem)
    output = weights @ problem.value
    if scores.shape[-1] == 0 and problem.no_keys != "zeros":
        output = torch.full_like(output, float("nan"))
    return Truth(output, weights, scores, torch.logsumexp(masked, -1, keepdim=True), allowed, empty)


def raw_scores(problem: Problem) -> Tensor:
    """Return scale * query key^T, (..., L, S)."""
    return (problem.query @ problem.key.transpose(-2, -1)) * problem.scale


def _weights(masked: Tensor, empty: Tensor, problem: Problem) -> Tensor:
    if masked.shape[-1] == 0:
        return masked
    exponentials = torch.exp(masked - masked.amax(-1, keepdim=True).masked_fill_(empty, 0.0))
    weights = exponentials / exponentials.sum(-1, keepdim=True).masked_fill_(empty, 1.0)
    answers = {"uniform": 1.0 / masked.shape[-1], "zeros": 0.0}
    return weights.masked_fill_(empty, answers.get(problem.empty_row, float("nan")))


def differentiate(problem: Problem, truth: Truth, output: Tensor, weights: Tensor | None = None) -> Gradients:
    """Return the gradients of sum(result * upstream) for upstream gradients of output and, if given, of weights.

    An empty row passes nothing to query and key; its uniform weights still pass to the value.
    """
    value = truth.weights.transpose(-2, -1) @ output
    slopes = output @ problem.value.transpose(-2, -1)
    if weights is not None:
        slopes = slopes + weights
    mean = (truth.weights * slopes).sum(-1, keepdim=True)
    scores = truth.weights * (slopes - mean)
    scores = scores.masked_fill_(~truth.live, 0.0)
    inner = scores * cap_slope(problem) * problem.scale
    return Gradients(inner @ problem.key, inner.transpose(-2, -1) @ problem.query, value, scores)


def differentiate_logsumexp(problem: Problem, truth: Truth, upstream: Tensor) -> Gradients:
    """Return the gradients of sum(logsumexp * upstream), upstream (..., L, 1)."""
    scores = (truth.weights * upstream).masked_fill_(~truth.live, 0.0)
    inner = scores * cap_slope(problem) * problem.scale
    zero = torch.zeros_like(problem.value).expand(*scores.shape[:-2], *problem.value.shape[-2:])
    return Gradients(inner @ problem.key, inner.transpose(-2, -1) @ problem.query, zero, scores)


def cap_slope(problem: Problem) -> Tensor | float:
    """Return the derivative of the soft cap at each score; 1 where there is none."""
    if problem.softcap is None:
        return 1.0
    return 1 - torch.tanh(raw_scores(problem) / problem.softcap) ** 2


def fold(tensor: Tensor, shape: torch.Size | tuple[int, ...]) -> Tensor:
    """Sum a gradient over the axes along which its input of `shape` was broadcast."""
    extra = tensor.dim() - len(shape)
    if extra:
        tensor = tensor.sum(tuple(range(extra)))
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and tensor.shape[axis] != 1)
    return tensor.sum(axes, keepdim=True) if axes else tensor
