"""The probe finds what every sound program declares."""

from __future__ import annotations

import pytest

from tests.probing.measure import Comparison, blamed, compare
from tests.zoo.program import Program
from tests.zoo.sound import SOUND

WIDER: dict[tuple[str, str], str] = {
    ("zeros_by_nan_to_num", "gradient"): "the second derivative exists but for empty rows, of which the probe does not ask",
    ("sdpa_one_problem_each", "gradient"): "small problems take a path of torch that can be differentiated twice",
}
"""Answers that are found to be wider than what is declared."""


@pytest.mark.parametrize("program", SOUND, ids=lambda program: program.name)
def test_finds_what_is_declared(program: Program) -> None:
    profile, comparisons = compare(program)
    missed = [each for each in comparisons if not each.hit and not _is_wider(each)]
    assert missed == []
    assert profile.open == ()


def _is_wider(comparison: Comparison) -> bool:
    return (comparison.program, comparison.capability) in WIDER


def test_every_exception_is_one() -> None:
    names = {program.name: program for program in SOUND}
    for name, capability in WIDER:
        _, comparisons = compare(names[name])
        assert any(each.capability == capability and not each.hit for each in comparisons), (name, capability)


@pytest.mark.slow
@pytest.mark.parametrize("program", SOUND, ids=lambda program: program.name)
def test_nobody_is_blamed_under_what_was_found(program: Program) -> None:
    profile, _ = compare(program)
    assert blamed(program, profile) == []
