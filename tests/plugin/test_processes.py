"""With pytest-xdist the items run in worker processes: no record may be lost on the way, whatever text it holds."""

from __future__ import annotations

import re

import pytest

from attention_conformance.implementation import describe
from attention_conformance.selection import plan
from tests.plugin.suites import ALONE, repository

pytest.importorskip("xdist")
pytest_plugins = ["pytester"]

FULL = r"""
import warnings

flash = register(
    kernels.with_zeros_in_empty_rows, dtypes=("fp32",),
    deviations=[Deviation("MASK-002", reason="padding is dropped later"), Deviation("SHAPE-001", reason="once")],
)

class Future(FutureWarning):
    pass

def loud(query, key, value, mask=None):
    print("printed \ud800 \x00")
    warnings.warn("warned \ud801 \x1b[31m", Future)
    warnings.warn_explicit("warned elsewhere", FutureWarning, "\ud802.py", 1)
    if mask is not None:
        raise ValueError("raised \ud803\x00\x1b]0;title\x07" + "long " * 2_000_000)
    return kernels.attend(query, key, value, mask)

register(
    loud, name="<\ud804\n>", dtypes=("fp32",),
    deviations=[Deviation("MASK-001", reason="known \ud805", link="\ud806")],
)

def test_theirs():
    pass
"""
LOUD = r"<\ud804\n>"


def distributed(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest with two workers."""
    return pytester.runpytest_subprocess("-n2", *ALONE, *arguments)


def outcomes(result: pytest.RunResult) -> dict[str, str]:
    """Return the outcomes of a verbose run by name of the item."""
    found = re.findall(r"^\[gw\d\] \[ *\d+%\] (\w+) test_attention\.py::(.+?)\s*$", result.stdout.str(), re.MULTILINE)
    return {name: outcome for outcome, name in found}


def test_every_record_arrives_whatever_text_it_holds(pytester: pytest.Pytester) -> None:
    repository(pytester, FULL)
    result = distributed(pytester, "-v", "-rx")
    keys = plan(describe(len, dtypes=("fp32",)))
    found = outcomes(result)
    assert set(found) == {f"{name}::{key}" for name in ("flash", LOUD) for key in keys} | {"test_theirs"}
    assert found["flash::MASK-002[fp32]"] == found[f"{LOUD}::MASK-001[fp32]"] == "XFAIL"
    assert found["flash::CAUSAL-002[fp32]"] == "SKIPPED"
    assert found[f"{LOUD}::SHAPE-001[fp32]"] == "PASSED"
    assert found[f"{LOUD}::MASK-003[fp32]"] == "FAILED"
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert len(result.stdout.str()) < 1_000_000
    count = 2 * len(keys)
    result.stdout.fnmatch_lines([r"*it raised ValueError: raised \ud803\x00\x1b*"])
    result.stdout.fnmatch_lines(
        [
            r"*FutureWarning: Future: warned \ud801 \x1b?31m",
            r"*\ud802.py:1: FutureWarning: warned elsewhere",
            "test_attention.py::flash: nothing departs from SHAPE-001 any more; remove Deviation*",
            f"attention conformance: 2 implementations, {count} of {count} records: *",
            rf"XFAIL test_attention.py::{LOUD}::MASK-001?fp32? - known \ud805 (\ud806)",
        ]
    )


def test_a_worker_that_dies_costs_no_other_record_and_a_subset_judges_no_deviation(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        """
        import os

        def dies(query, key, value, mask=None):
            os._exit(7)

        dead = register(dies, dtypes=("fp32",))
        flash = register(kernels.attend, dtypes=("fp32",), deviations=[Deviation("SHAPE-002", reason="once")])
        """,
    )
    result = distributed(pytester, "-v", "-k", "(dead and SHAPE-001) or (flash and SHAPE-002)")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["*crashed while running*dead::SHAPE-001*"])
    result.stdout.no_fnmatch_line("*stale*")
