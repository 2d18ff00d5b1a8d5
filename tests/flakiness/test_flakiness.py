"""Verdicts depend on the implementation alone. The long run is `tox -e flakiness`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from attention_conformance import Outcome, Verdict
from attention_conformance.selection import plan
from attention_conformance.verdicts import verdict
from tests.plugin.suites import ALONE, repository

from .measure import FAULTY, SOUND, judge, outcomes

pytest_plugins = ["pytester"]

SOME = ("SHAPE", "MASK", "NUMERIC", "GRADIENT", "OPTIONS", "PURITY")


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("seed", [1, 2**31 - 1])
def test_another_seed_and_order_change_no_outcome_of_a_sound_one(name: str, seed: int) -> None:
    first = judge(SOUND[name], select=SOME)
    other = judge(SOUND[name], seed, order=seed, select=SOME)
    assert outcomes(other) == outcomes(first)
    assert {key: record.ratio for key, record in other.items()} != {key: record.ratio for key, record in first.items()}


@pytest.mark.parametrize("name", FAULTY)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_faulty_one_departs_under_every_seed(name: str, seed: int) -> None:
    records = judge(FAULTY[name], seed, order=seed, select=("NUMERIC", "WEIGHTS", "OPTIONS"))
    assert verdict(FAULTY[name], records.values()) is Verdict.DEPARTS


def test_a_judgement_repeats_itself_in_one_process() -> None:
    judged = [
        {key: (record.outcome, record.ratio, record.message) for key, record in judge(each, order=order).items()}
        for each in (SOUND["the document's kernel"],)
        for order in (None, None, 1, 2)
    ]
    assert judged[0] == judged[1] == judged[2] == judged[3]


SCRIPT = """
import json, sys, torch
torch.set_num_threads(int(sys.argv[1]))
from tests.flakiness.measure import SOUND, judge
records = judge(SOUND["the document's kernel"], select=("MASK", "NUMERIC", "GRADIENT", "SYMMETRY"))
assert torch.get_num_threads() == int(sys.argv[1])
print(json.dumps({str(key): str(record.outcome) for key, record in records.items()}))
"""


def test_the_number_of_threads_changes_no_outcome(pytestconfig: pytest.Config) -> None:
    said = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT, threads],
            capture_output=True,
            text=True,
            check=True,
            cwd=pytestconfig.rootpath,
        ).stdout
        for threads in ("1", "2")
    ]
    first, second = (json.loads(text) for text in said)
    assert first == second
    assert str(Outcome.PASSED) in first.values()


MODULE = """
from attention_conformance.reference.attention import attention

def off(query, key, value, mask=None):
    return attention(query * 1.01, key, value, mask)

flash = register(attention, dtypes=("fp32",))
wrong = register(off, dtypes=("fp32",))
"""


def test_processes_of_xdist_give_the_outcomes_of_one_process(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    repository(pytester, MODULE)
    arguments = ["-k", "MASK or NUMERIC or SYMMETRY", "-q", "-rA"]
    alone = pytester.runpytest_subprocess(*ALONE, "-p", "no:randomly", *arguments)
    shared = pytester.runpytest_subprocess(*ALONE, "-n2", *arguments)
    assert _told(alone) == _told(shared)
    assert len(_told(alone)) > 40
    assert "failed" in alone.parseoutcomes()


def _told(result: pytest.RunResult) -> list[str]:
    """Return one line per test: its outcome and name."""
    lines = (line.split(" - ")[0] for line in result.stdout.lines)
    return sorted(line for line in lines if line.startswith(("PASSED", "FAILED", "ERROR")))


def test_the_whole_plan_is_judged_whatever_the_order() -> None:
    implementation = SOUND["dropout"]
    assert set(judge(implementation, order=3, select=("OPTIONS",))) == set(plan(implementation, select=("OPTIONS",)))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 13))
def test_ten_more_seeds_change_nothing(seed: int) -> None:
    for implementation in SOUND.values():
        assert outcomes(judge(implementation, seed, order=seed)) == outcomes(judge(implementation))
