"""The probe finds what every sound program declares, or more where the program declares less than it does."""

from __future__ import annotations

import pytest

from tests.probing.comparing import MISS
from tests.probing.measure import blamed, of_program
from tests.zoo.program import Program
from tests.zoo.sound import SOUND


@pytest.mark.parametrize("program", SOUND, ids=lambda program: program.name)
def test_finds_what_is_declared(program: Program) -> None:
    profile, comparisons = of_program(program)
    assert [each for each in comparisons if each.result == MISS] == []
    assert profile.open == ()


@pytest.mark.slow
@pytest.mark.parametrize("program", SOUND, ids=lambda program: program.name)
def test_nobody_is_blamed_under_what_was_found(program: Program) -> None:
    profile, _ = of_program(program)
    assert blamed(program, profile) == []
