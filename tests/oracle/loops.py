"""Attention from its definition in plain Python numbers: one loop per axis, sums by `math.fsum`, no tensors.

It shares no code and no formula in matrix form with `attention_conformance.oracle`, so that the two can disagree.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Vector = Sequence[float]
Matrix = Sequence[Vector]


@dataclass(frozen=True)
class Head:
    """One head: query (L, D), key (S, D), value (S, E), which keys each query sees (L, S), a bias (L, S) or None."""

    query: Matrix
    key: Matrix
    value: Matrix
    scale: float
    allowed: Sequence[Sequence[bool]]
    bias: Matrix | None = None
    softcap: float | None = None
    empty_row: str = "uniform"


def score(head: Head, i: int, j: int) -> float:
    """Return the score of key j for query i: scaled, capped, biased."""
    raw = head.scale * math.fsum(a * b for a, b in zip(head.query[i], head.key[j], strict=True))
    capped = raw if head.softcap is None else head.softcap * math.tanh(raw / head.softcap)
    return capped + (head.bias[i][j] if head.bias is not None else 0.0)


def weights(head: Head, i: int) -> list[float]:
    """Return the weights of row i (S)."""
    keys = range(len(head.key))
    seen = [j for j in keys if head.allowed[i][j]]
    if not seen:
        return [1.0 / len(keys) if head.empty_row == "uniform" else 0.0 for _ in keys]
    scores = {j: score(head, i, j) for j in seen}
    top = max(scores.values())
    powers = {j: math.exp(scores[j] - top) for j in seen}
    total = math.fsum(powers.values())
    return [powers[j] / total if j in powers else 0.0 for j in keys]


def output(head: Head, i: int) -> list[float]:
    """Return row i of the output (E)."""
    row = weights(head, i)
    return [math.fsum(w * v[c] for w, v in zip(row, head.value, strict=True)) for c in range(len(head.value[0]))]


def logsumexp(head: Head, i: int) -> float:
    """Return the logarithm of the sum of exponentials of row i; -inf for an empty one."""
    scores = [score(head, i, j) for j in range(len(head.key)) if head.allowed[i][j]]
    if not scores:
        return -math.inf
    top = max(scores)
    return top + math.log(math.fsum(math.exp(s - top) for s in scores))


def score_gradients(head: Head, i: int, upstream: Vector) -> list[float]:
    """Return the gradient of sum(output row * upstream) for each capped score of row i, by the quotient rule."""
    if not any(head.allowed[i]):
        return [0.0] * len(head.key)
    row = weights(head, i)
    reach = [math.fsum(g * v for g, v in zip(upstream, value, strict=True)) for value in head.value]
    keys = range(len(row))
    return [
        math.fsum(reach[k] * row[k] * ((1.0 if j == k else 0.0) - row[j]) for k in keys) if head.allowed[i][j] else 0.0
        for j in keys
    ]


@dataclass(frozen=True)
class Gradients:
    """Gradients of one head, in the shapes of its inputs; `scores` (L, S)."""

    query: list[list[float]]
    key: list[list[float]]
    value: list[list[float]]
    scores: list[list[float]]


def gradients(head: Head, upstream: Matrix) -> Gradients:
    """Return the gradients of sum(output * upstream)."""
    rows, keys = range(len(head.query)), range(len(head.key))
    widths, columns = range(len(head.query[0])), range(len(head.value[0]))
    scores = [score_gradients(head, i, upstream[i]) for i in rows]
    inner = [[scores[i][j] * _slope(head, i, j) * head.scale for j in keys] for i in rows]
    shares = [weights(head, i) for i in rows]
    return Gradients(
        [[math.fsum(inner[i][j] * head.key[j][d] for j in keys) for d in widths] for i in rows],
        [[math.fsum(inner[i][j] * head.query[i][d] for i in rows) for d in widths] for j in keys],
        [[math.fsum(shares[i][j] * upstream[i][c] for i in rows) for c in columns] for j in keys],
        scores,
    )


def _slope(head: Head, i: int, j: int) -> float:
    if head.softcap is None:
        return 1.0
    raw = head.scale * math.fsum(a * b for a, b in zip(head.query[i], head.key[j], strict=True))
    return 1.0 / math.cosh(raw / head.softcap) ** 2
