"""The search finds what needs two things at once, makes it small, tells it as data, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attention_conformance import Outcome, check
from attention_conformance.cases.case import FOUND, PLAIN, Case, Mask, source_of
from attention_conformance.experiments.searching import SEED, Generator, InvalidSeed, search, seed_of_search
from attention_conformance.implementation import describe
from attention_conformance.oracle.comparing import Departure
from attention_conformance.records import Record
from attention_conformance.trials.subject import Subject
from attention_conformance.trials.trial import Trial
from tests.zoo.faulty import searched
from tests.zoo.faulty.parts import attend, optioned
from tests.zoo.mutant import Mutant

FAULTY = searched.last_odd_key_shown_under_a_mask_per_head
ROOT = Path(__file__).parents[2]


def _found(rule: str = "SEARCH-001") -> Record:
    return next(record for record in check(FAULTY, tier="thorough", select=(rule, "fp64")) if record.rule == rule)


def _case_in(message: str) -> Case:
    text = re.search(r"^  as data   (.*)$", message, re.MULTILINE)
    assert text is not None
    case = eval(text[1], {"Case": Case, "Mask": Mask})  # what a user pastes
    assert isinstance(case, Case)
    return case


def test_a_find_is_small_and_its_data_make_a_case_that_fails() -> None:
    record = _found()
    assert record.outcome is Outcome.FAILED
    assert record.case == FOUND
    case = _case_in(record.message)
    assert (case.batch, case.queries, case.memory, case.values) == (1, 1, "contiguous", "signed")
    assert case.heads == 2
    assert case.keys in (9, 15)
    trial = Trial(Subject(describe(FAULTY), "fp64"), case)
    with pytest.raises(Departure):
        trial.agrees(trial.run())
    sound = Trial(Subject(describe(attend), "fp64"), case)
    sound.agrees(sound.run())


def test_the_same_case_is_found_each_time() -> None:
    assert _found().message == _found().message


@pytest.mark.parametrize("mutant", tuple(searched.mutants), ids=lambda mutant: mutant.name)
def test_what_no_fixed_case_brings_together_is_found(mutant: Mutant) -> None:
    words = ("SEARCH", "fp64", "fp32")
    records = check(mutant.target, tier="thorough", select=words, **mutant.capabilities)
    assert any(record.rule.startswith("SEARCH") and record.outcome is Outcome.FAILED for record in records)


def test_a_sequence_tells_the_calls_before() -> None:
    kept = searched.bias_kept_for_the_next_call_of_its_shape
    records = list(check(kept, tier="thorough", select=("SEARCH-003", "fp64"), options=("bias",)))
    assert "after calls with Case(name='found'" in records[-1].message


def test_what_is_refused_together_is_not_asked() -> None:
    def refuses(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
        softcap: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        if mask is not None and (causal or softcap is not None):
            raise ValueError("a mask goes with no option")
        return optioned(query, key, value, mask, causal=causal, softcap=softcap)

    own = {"options": ("softcap",), "causal": "bottom-right"}
    records = list(check(refuses, tier="thorough", select=("SEARCH-001", "fp32"), **own))
    assert records[-1].outcome is Outcome.PASSED


def test_fields_that_have_their_default_are_left_out() -> None:
    assert source_of(PLAIN) == "Case(name='all sizes differ')"
    case = Case("x", keys=3, mask=Mask(axes="BHLS"))
    assert source_of(case) == "Case(name='x', keys=3, mask=Mask(axes='BHLS'))"
    assert eval(source_of(case)) == case


def test_no_flip_gives_the_plainest_case() -> None:
    made = Generator(lambda: False, describe(attend), "fp32").case()
    assert made == Case(FOUND, batch=1, heads=1, queries=1, keys=1, width=4, value_width=4)


def test_every_generated_case_can_be_judged() -> None:
    coin = torch.Generator().manual_seed(3)
    own = {"options": ("scale", "bias", "window", "softcap"), "causal": "bottom-right", "heads": "grouped"}
    implementation = describe(optioned, **own)

    def flip() -> bool:
        return bool(torch.randint(2, (), generator=coin))

    for _ in range(100):
        case = Generator(flip, implementation, "fp32").case()
        trial = Trial(Subject(implementation, "fp32"), case)
        assert bool(torch.isfinite(trial.expectation().output.value).all())


@pytest.mark.parametrize(("given", "seed"), [("", 5), ("7", 7), (" -2 ", -2)])
def test_the_seed_comes_from_the_environment_or_the_run(given: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED, given)
    trial = Trial(Subject(describe(attend), "fp32"), Case("seeded", draw=5))
    assert seed_of_search(trial) == seed


def test_a_seed_that_is_no_number_is_a_named_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED, "seven")
    trial = Trial(Subject(describe(attend), "fp32"), PLAIN)
    with pytest.raises(InvalidSeed, match="'seven' is no whole number; set it to one"):
        search(trial, lambda other: None)


def test_a_failure_that_does_not_come_back_is_told_as_it_was_seen() -> None:
    trial = Trial(Subject(describe(attend), "fp32"), PLAIN)
    calls: list[int] = []

    def fails_once(other: Trial) -> None:
        calls.append(1)
        if len(calls) == 10:
            raise Departure("seen once")

    with pytest.raises(Departure, match="seen once"):
        search(trial, fails_once)
    assert trial.case.name == FOUND


def test_nothing_is_written_or_printed_where_it_runs(tmp_path: Path) -> None:
    program = (
        "from attention_conformance import check\n"
        "from attention_conformance.reference.attention import attention\n"
        "assert all(not record.bad for record in check(attention, tier='thorough', select=('SEARCH-001', 'fp32')))\n"
        "from hypothesis import configuration\n"
        "assert vars(configuration).get('__hypothesis_home_directory') is None\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONHASHSEED": "1"}, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
