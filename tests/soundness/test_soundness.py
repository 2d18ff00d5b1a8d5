"""Sound programs stay below the bound on inputs beyond the fixed cases. The whole measurement is `tox -e soundness`."""

from __future__ import annotations

import json

import pytest

from attention_conformance.cases.case import Case
from attention_conformance.cases.values import FAMILIES as KNOWN
from tests.rules.measure_power import POPULATION
from tests.zoo.program import Program
from tests.zoo.sound import SOUND

from .measure import WORST, Compared, Tally, measure, summary, upper_bound
from .population import BUILT, FAMILIES, cases

BY_NAME = {program.name: program for program in SOUND}
SOME = ("sdpa_default", "logsumexp_normalised", "online_block_7", "split_keys", "every_option", "torch_module")
"""A few programs that come near the bound, or take many options."""


@pytest.mark.parametrize("name", SOME)
def test_no_comparison_of_a_sound_program_is_above_the_bound(name: str) -> None:
    tallies = measure(BY_NAME[name], [1001], 12, ("fp32", "bf16"))
    assert [text for tally in tallies.values() for text in tally.beyond] == []
    assert all(tally.count > 15 and tally.worst > 0 for tally in tallies.values())


@pytest.mark.parametrize("name", ["temperature_off_by_one_percent", "value_gradient_averaged_over_queries"])
def test_a_faulty_program_is_above_the_bound(name: str) -> None:
    mutant = POPULATION[name]
    tallies = measure(Program(name, mutant.target, mutant.capabilities), [1001], 12, ("fp32",))
    assert all(tally.beyond and tally.worst > 1 for tally in tallies.values())


def test_a_seed_gives_the_same_cases_and_another_one_others() -> None:
    assert list(cases(1, 30)) == list(cases(1, 30))
    assert list(cases(1, 30)) != list(cases(2, 30))
    assert {case.draw for case in cases(2, 30)} == {2}


def test_many_seeds_meet_every_family() -> None:
    met = {case.values for seed in range(1, 41) for case in cases(seed, 20)}
    assert met == {*FAMILIES, *(family for family, _ in BUILT)}
    assert met <= set(KNOWN)


def test_the_upper_bound_is_that_of_clopper_and_pearson() -> None:
    assert upper_bound(80_256) == pytest.approx(3.7e-5, rel=0.02)
    assert (1 - upper_bound(1000)) ** 1000 == pytest.approx(0.05)
    assert upper_bound(0) == 1.0


def test_a_tally_keeps_the_worst_and_what_is_beyond() -> None:
    case, tally, other = Case("one"), Tally(), Tally()
    for ratio in (0.5, 0.2):
        tally.add(Compared("output", case, ratio))
    other.add(Compared("gradient of the key", case, 1.5, "too far"))
    tally.join(other)
    assert (tally.count, tally.worst, len(tally.beyond)) == (3, 1.5, 1)
    assert tally.where.startswith("gradient of the key of one: ")
    told = summary({("it", "fp32"): tally})
    assert told["above 1"] == 1
    assert told["95 % upper bound on a false alarm"] is None


def test_the_measured_table_covers_the_population_and_holds_nothing_above_1() -> None:
    table = json.loads(WORST.read_text(encoding="utf-8"))
    assert table["above 1"] == 0
    assert set(table["programs"]) == set(BY_NAME)
    assert all(0 <= ratio <= 1 for dtypes in table["programs"].values() for ratio in dtypes.values())
    assert table["95 % upper bound on a false alarm"] == pytest.approx(upper_bound(table["comparisons"]), rel=0.02)
