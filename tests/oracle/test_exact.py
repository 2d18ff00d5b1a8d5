"""The fifty-digit oracle gives values that can be found by hand, and gradients that differences confirm."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from tests.oracle.exact import EXACT, Matrix, Problem, differentiate, number, solve

TINY = EXACT.mpf(10) ** -45
"""What fifty digits may lose over a few dozen operations near 1."""


def near(found: Any, expected: Any, tolerance: Any = TINY) -> bool:
    return bool(abs(number(found) - number(expected)) <= tolerance)


def all_near(found: Matrix, expected: Matrix, tolerance: Any = TINY) -> bool:
    return [len(row) for row in found] == [len(row) for row in expected] and all(
        near(a, b, tolerance)
        for row, other in zip(found, expected, strict=True)
        for a, b in zip(row, other, strict=True)
    )


def drawn(rows: int, columns: int, source: random.Random) -> Matrix:
    return [[EXACT.mpf(source.gauss(0.0, 1.0)) for _ in range(columns)] for _ in range(rows)]


def random_problem(**changes: Any) -> tuple[Problem, Matrix]:
    """L 3, S 4, D 2, E 3 with a bias, and an upstream gradient."""
    source = random.Random(11)
    problem = Problem(drawn(3, 2, source), drawn(4, 2, source), drawn(4, 3, source), bias=drawn(3, 4, source))
    return replace(problem, **changes), drawn(3, 3, source)


SOME = [[1, 0, 1, 1], [0, 0, 1, 0], [1, 1, 0, 1]]
WITH_EMPTY_ROW = [[1, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 1]]


def test_falling_powers_of_two_give_rational_weights() -> None:
    """With D = 1 and scores -j ln 2 the weights are 2^-j / (2 - 2^-(S - 1)): 8/15, 4/15, 2/15, 1/15 for S = 4."""
    keys = [[-j * EXACT.log(2)] for j in range(4)]
    solution = solve(Problem([[EXACT.one]], keys, [[15], [30], [60], [120]]))
    assert all_near(solution.weights, [[EXACT.mpf(n) / 15 for n in (8, 4, 2, 1)]])
    assert all_near(solution.output, [[32]])
    assert near(solution.logsumexp[0], EXACT.log(EXACT.mpf(15) / 8))


def test_two_keys_are_a_sigmoid() -> None:
    """Scores 0 and -t give the weight 1 / (1 + e^-t) to the first key, and its derivative is p (1 - p)."""
    t = EXACT.mpf("0.75")
    problem = Problem([[1]], [[0], [-t]], [[1], [0]])
    share = 1 / (1 + EXACT.exp(-t))
    assert all_near(solve(problem).output, [[share]])
    gradients = differentiate(problem, [[1]])
    slope = share * (1 - share)
    assert all_near(gradients.key, [[slope], [-slope]])
    assert all_near(gradients.query, [[slope * t]])
    assert all_near(gradients.value, [[share], [1 - share]])
    assert all_near(gradients.bias, [[slope, -slope]])


def test_a_zero_query_returns_the_mean_of_the_allowed_values() -> None:
    problem = Problem([[0, 0]], [[3, 1], [-2, 5], [7, 7]], [[1, 10], [4, 20], [100, 60]], allowed=[[1, 1, 0]])
    solution = solve(problem)
    assert all_near(solution.output, [[EXACT.mpf(5) / 2, 15]])
    assert all_near(solution.weights, [[EXACT.mpf(1) / 2, EXACT.mpf(1) / 2, 0]])
    assert near(solution.logsumexp[0], EXACT.log(2))


def test_the_scale_is_one_over_the_root_of_the_width() -> None:
    """With D = 4 the product 2 ln 3 is halved, so that the first key outweighs the second three to one."""
    query = [[EXACT.log(3)] * 4]
    problem = Problem(query, [[EXACT.mpf(1) / 2] * 4, [0] * 4], [[1], [0]])
    assert all_near(solve(problem).output, [[EXACT.mpf(3) / 4]])
    assert all_near(solve(replace(problem, scale=1)).output, [[EXACT.mpf(9) / 10]])
    assert all_near(solve(replace(problem, scale=0)).output, [[EXACT.mpf(1) / 2]])


def test_a_bias_of_ln_r_counts_a_key_r_times() -> None:
    problem = Problem([[0]], [[1], [2]], [[10], [20]], bias=[[EXACT.log(4), 0]])
    assert all_near(solve(problem).output, [[12]])


def test_a_cap_bends_the_scaled_score_before_the_bias() -> None:
    """The score artanh(1/2) c capped at c is c / 2; with c = 2 ln 3 it is ln 3, and a bias of ln 2 makes it ln 6."""
    cap = 2 * EXACT.log(3)
    score = cap * EXACT.atanh(EXACT.mpf(1) / 2)
    problem = Problem([[score]], [[1], [0]], [[1], [0]], softcap=cap, bias=[[EXACT.log(2), 0]])
    assert all_near(solve(problem).output, [[EXACT.mpf(6) / 7]])


def test_one_key_returns_its_value() -> None:
    problem = Problem([[5], [-3]], [[2]], [[0.1, -7]])
    assert solve(problem).output == [[EXACT.mpf(0.1), -7]] * 2
    assert differentiate(problem, [[1, 2], [3, 4]]).value == [[4, 6]]


def test_scores_of_a_thousand_need_no_shift() -> None:
    problem = Problem([[1]], [[1000], [1000 - EXACT.log(3)]], [[4], [8]])
    assert all_near(solve(problem).output, [[5]], tolerance=EXACT.mpf(10) ** -42)


@pytest.mark.parametrize(("answer", "output"), [("uniform", 20), ("zeros", 0)])
def test_a_row_without_keys_gives_the_declared_answer(answer: str, output: int) -> None:
    problem = Problem([[1], [1]], [[1], [2]], [[10], [30]], allowed=[[0, 0], [0, 1]], empty_row=answer)
    solution = solve(problem)
    assert all_near(solution.output, [[output], [30]])
    assert solution.logsumexp[0] == -EXACT.inf
    gradients = differentiate(problem, [[1], [0]])
    assert gradients.query == [[0], [0]]
    assert gradients.key == [[0], [0]]
    share = EXACT.mpf(output) / 40
    assert all_near(gradients.value, [[share], [share]])


def test_no_keys_give_zeros() -> None:
    solution = solve(Problem([[1], [2]], [], []))
    assert solution.weights == [[], []]
    assert solution.logsumexp == [-EXACT.inf] * 2


def test_an_unknown_answer_raises() -> None:
    with pytest.raises(ValueError, match="neither 'uniform' nor 'zeros'"):
        solve(Problem([[1]], [[1]], [[1]], empty_row="nan"))


def loss(problem: Problem, upstream: Matrix) -> Any:
    output = solve(problem).output
    pairs = ((a, b) for row, other in zip(output, upstream, strict=True) for a, b in zip(row, other, strict=True))
    return sum((a * b for a, b in pairs), EXACT.zero)


def difference(problem: Problem, upstream: Matrix, name: str, i: int, c: int) -> Any:
    """Return the central difference of the loss in one element, with a step of 1e-16 and so an error near 1e-32."""
    step, results = EXACT.mpf(10) ** -16, []
    for sign in (1, -1):
        rows = [list(row) for row in getattr(problem, name)]
        rows[i][c] += sign * step
        results.append(loss(replace(problem, **{name: rows}), upstream))
    return (results[0] - results[1]) / (2 * step)


@pytest.mark.parametrize("name", ["query", "key", "value", "bias"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"allowed": SOME},
        {"allowed": WITH_EMPTY_ROW},
        {"allowed": WITH_EMPTY_ROW, "empty_row": "zeros"},
        {"scale": -0.3},
        {"softcap": 1.25},
        {"softcap": 0.5, "allowed": SOME, "scale": 2},
    ],
    ids=str,
)
def test_differences_confirm_the_gradient(changes: dict[str, Any], name: str) -> None:
    problem, upstream = random_problem(**changes)
    gradient = getattr(differentiate(problem, upstream), name)
    measured = [[difference(problem, upstream, name, i, c) for c in range(len(row))] for i, row in enumerate(gradient)]
    assert any(abs(value) > 0.01 for row in gradient for value in row)
    assert all_near(gradient, measured, tolerance=EXACT.mpf(10) ** -29)


def test_keys_hidden_from_everybody_have_no_gradient() -> None:
    problem, upstream = random_problem(allowed=[[1, 0, 1, 1]] * 3)
    gradients = differentiate(problem, upstream)
    assert gradients.key[1] == [0, 0]
    assert gradients.value[1] == [0, 0, 0]
    assert [row[1] for row in gradients.bias] == [0, 0, 0]


def test_the_precision_of_others_is_left_alone() -> None:
    import mpmath

    before = mpmath.mp.dps
    solve(Problem([[1]], [[1]], [[1]]))
    assert mpmath.mp.dps == before != EXACT.dps
