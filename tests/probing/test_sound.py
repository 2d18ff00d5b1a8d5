"""The probe finds what every sound program declares, or more where the program declares less than it does."""

from __future__ import annotations

import pytest

from tests.probing.comparing import MISS
from tests.probing.measure import blamed, of_program
from tests.zoo.program import Program
from tests.zoo.sound import SOUND

OPEN = {"added_minus_billion": {"dtypes"}, "mask_beats_causal": {"causal_with_mask"}}
"""What stays open: a fill of -1e9 that is added leaves scores that fp64 tells apart, so that empty rows are not uniform
there; a mask in place of the triangle is no answer."""

BLAMED = {
    "added_minus_billion": "its declared dtypes leave out fp64, where its empty rows are neither uniform nor anything else",
    "mask_beats_causal": "it declares unspecified what both do together",
    "sdpa_additive": "it declares empty rows unspecified: torch's flash kernel gives their values another gradient",
}
"""Programs that declare less than what can be seen, because the rest is not sound."""


@pytest.mark.parametrize("program", SOUND, ids=lambda program: program.name)
def test_finds_what_is_declared(program: Program) -> None:
    profile, comparisons = of_program(program)
    assert [each for each in comparisons if each.result == MISS] == []
    assert {finding.capability for finding in profile.open} == OPEN.get(program.name, set())


@pytest.mark.slow
@pytest.mark.parametrize("program", SOUND, ids=lambda program: program.name)
def test_nobody_is_blamed_under_what_was_found(program: Program) -> None:
    profile, _ = of_program(program)
    assert bool(blamed(program, profile)) == (program.name in BLAMED)
