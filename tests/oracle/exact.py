"""Attention in plain Python loops with fifty decimal digits: a second oracle that shares nothing with the first.

No matrix product, no broadcasting, no shifted softmax: numbers of fifty digits with unbounded exponents need none.
One problem at a time: query (L, D), key (S, D), value (S, E) as nested sequences of numbers, each read exactly.
Source: Vaswani et al. 2017, section 3.2.1; the gradients are the chain rule, one sum per line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mpmath import MPContext

EXACT = MPContext()
"""A context of its own, so that nobody else's precision changes."""
EXACT.dps = 50

Rows = Sequence[Sequence[Any]]
Matrix = list[list[Any]]
"""Rows of fifty-digit numbers."""


@dataclass(frozen=True)
class Problem:
    """One attention.

    `allowed` (L, S) says which keys take part, None all of them; `bias` (L, S) is added to the scores after `softcap`,
    which turns a scaled score s into c * tanh(s / c). `scale` is 1 / sqrt(D) unless given. `empty_row` is what a row
    without keys answers: `uniform` (the mean over all keys) or `zeros`.
    """

    query: Rows
    key: Rows
    value: Rows
    allowed: Rows | None = None
    bias: Rows | None = None
    scale: Any = None
    softcap: Any = None
    empty_row: str = "uniform"

    @property
    def sizes(self) -> tuple[int, int]:
        """L and S."""
        return len(self.query), len(self.key)

    def allows(self, i: int, j: int) -> bool:
        """Whether query i may attend to key j."""
        return self.allowed is None or bool(self.allowed[i][j])

    def is_empty(self, i: int) -> bool:
        """Whether query i may attend to nothing."""
        return not any(self.allows(i, j) for j in range(len(self.key)))


@dataclass(frozen=True)
class Solution:
    """output (L, E), weights (L, S), and logsumexp (L) over the allowed keys, -inf for a row without any."""

    output: Matrix
    weights: Matrix
    logsumexp: list[Any]


@dataclass(frozen=True)
class Gradients:
    """Derivatives of sum(output * upstream): query (L, D), key (S, D), value (S, E), bias (L, S)."""

    query: Matrix
    key: Matrix
    value: Matrix
    bias: Matrix


def number(value: Any) -> Any:
    """Return the number exactly; floats are binary fractions, and fifty digits hold every one of them near 1."""
    return value if isinstance(value, EXACT.mpf) else EXACT.mpf(value)


def zeros(rows: int, columns: int) -> Matrix:
    """Return a matrix of zeros."""
    return [[EXACT.zero for _ in range(columns)] for _ in range(rows)]


def width(rows: Rows) -> int:
    """Return the number of columns; 0 where there are no rows to count them in."""
    return len(rows[0]) if len(rows) else 0


def scale_of(problem: Problem) -> Any:
    """Return the factor on the products. Raises ValueError for keys without width and no given scale."""
    if problem.scale is not None:
        return number(problem.scale)
    if width(problem.query) == 0:
        raise ValueError("1 / sqrt(D) does not exist for D = 0; give a scale")
    return 1 / EXACT.sqrt(width(problem.query))


def product(problem: Problem, i: int, j: int) -> Any:
    """Return the scaled product of query i and key j."""
    total = EXACT.zero
    for c in range(width(problem.query)):
        total += number(problem.query[i][c]) * number(problem.key[j][c])
    return scale_of(problem) * total


def score(problem: Problem, i: int, j: int) -> Any:
    """Return the score of key j for query i, capped and biased."""
    result = product(problem, i, j)
    if problem.softcap is not None:
        cap = number(problem.softcap)
        result = cap * EXACT.tanh(result / cap)
    if problem.bias is not None:
        result += number(problem.bias[i][j])
    return result


def cap_slope(problem: Problem, i: int, j: int) -> Any:
    """Return the derivative of the capped score by the scaled product."""
    if problem.softcap is None:
        return EXACT.one
    return 1 - EXACT.tanh(product(problem, i, j) / number(problem.softcap)) ** 2


def solve(problem: Problem) -> Solution:
    """Return output, weights and logsumexp. Raises ValueError for an unknown answer to empty rows."""
    if problem.empty_row not in ("uniform", "zeros"):
        raise ValueError(f"empty_row={problem.empty_row!r} is neither 'uniform' nor 'zeros'")
    queries, keys = problem.sizes
    weights, levels = zeros(queries, keys), []
    for i in range(queries):
        weights[i], level = _row(problem, i)
        levels.append(level)
    output = zeros(queries, width(problem.value))
    for i in range(queries):
        for j in range(keys):
            for c in range(width(problem.value)):
                output[i][c] += weights[i][j] * number(problem.value[j][c])
    return Solution(output, weights, levels)


def _row(problem: Problem, i: int) -> tuple[list[Any], Any]:
    """Return the weights of query i and the logsumexp of its scores."""
    keys = len(problem.key)
    if problem.is_empty(i):
        answer = EXACT.one / keys if keys and problem.empty_row == "uniform" else EXACT.zero
        return [answer] * keys, -EXACT.inf
    exponentials = [EXACT.exp(score(problem, i, j)) if problem.allows(i, j) else EXACT.zero for j in range(keys)]
    total = sum(exponentials, EXACT.zero)
    return [value / total for value in exponentials], EXACT.log(total)


def differentiate(problem: Problem, upstream: Rows) -> Gradients:
    """Return the gradients of sum_ic output_ic upstream_ic, upstream (L, E).

    A row without keys has constant weights: it passes a gradient to the value only.
    """
    (queries, keys), solution = problem.sizes, solve(problem)
    query, key = zeros(queries, width(problem.query)), zeros(keys, width(problem.query))
    value, bias = zeros(keys, width(problem.value)), zeros(queries, keys)
    for i in range(queries):
        slopes = [_slope(problem, upstream, i, j) for j in range(keys)]
        for j in range(keys):
            for c in range(width(problem.value)):
                value[j][c] += solution.weights[i][j] * number(upstream[i][c])
            bias[i][j] = _score_gradient(problem, solution.weights[i], slopes, i, j)
            inner = bias[i][j] * cap_slope(problem, i, j) * scale_of(problem)
            for c in range(width(problem.query)):
                query[i][c] += inner * number(problem.key[j][c])
                key[j][c] += inner * number(problem.query[i][c])
    return Gradients(query, key, value, bias)


def _slope(problem: Problem, upstream: Rows, i: int, j: int) -> Any:
    """Return the derivative of the loss by the weight of key j for query i."""
    total = EXACT.zero
    for c in range(width(problem.value)):
        total += number(upstream[i][c]) * number(problem.value[j][c])
    return total


def _score_gradient(problem: Problem, weights: list[Any], slopes: list[Any], i: int, j: int) -> Any:
    """Return sum_k slope_k d weight_k / d score_j, where d weight_k / d score_j = weight_k ([j = k] - weight_j)."""
    if problem.is_empty(i):
        return EXACT.zero
    total = EXACT.zero
    for k in range(len(weights)):
        same = EXACT.one if k == j else EXACT.zero
        total += slopes[k] * weights[k] * (same - weights[j])
    return total
