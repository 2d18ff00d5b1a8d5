"""The options of pytest that choose items, and those that stop a run."""

from __future__ import annotations

import pytest

from attention_conformance.implementation import describe
from attention_conformance.selection import plan
from tests.plugin.suites import repository, run

pytest_plugins = ["pytester"]

PLAN = plan(describe(len))
TWO = "flash = register(kernels.attend)\nother = register(kernels.attend)\n\ndef test_theirs():\n    pass\n"


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (["-k", "mask-001"], [key for key in PLAN if key.rule == "MASK-001"]),
        (["-k", "MASK and fp32"], [key for key in PLAN if key.rule.startswith("MASK-") and key.dtype == "fp32"]),
        (["-m", "attention_mask"], [key for key in PLAN if key.rule.startswith("MASK-")]),
        (["-m", "attention_fp32"], [key for key in PLAN if key.dtype == "fp32"]),
        (["-m", "attention and not attention_mask"], [key for key in PLAN if not key.rule.startswith("MASK-")]),
    ],
)
def test_keywords_and_markers_choose_rules_and_dtypes(
    pytester: pytest.Pytester, arguments: list[str], keys: list[object]
) -> None:
    repository(pytester, TWO)
    collected = run(pytester, "--collect-only", "--strict-markers", *arguments).collected
    expected = [f"test_attention.py::{name}::{key}" for name in ("flash", "other") for key in keys]
    assert collected == expected
    assert 0 < len(collected) < 2 * len(PLAN)


@pytest.mark.parametrize("argument", ["flash", "flash::MASK-001[fp32]"])
def test_node_ids_choose_an_implementation_or_a_record(pytester: pytest.Pytester, argument: str) -> None:
    repository(pytester, TWO)
    ids = run(pytester, "--collect-only", f"test_attention.py::{argument}").collected
    assert ids == [f"test_attention.py::flash::{key}" for key in PLAN if str(key) in argument or argument == "flash"]


def test_exitfirst_stops_at_the_first_rule_that_fails(pytester: pytest.Pytester) -> None:
    repository(pytester, "flash = register(kernels.with_another_scale, dtypes=('fp32',))")
    ran = run(pytester, "-x", "-m", "attention_shape or attention_numeric")
    assert list(ran.reports)[-1] in ran.with_outcome("failed")
    assert len(ran.with_outcome("failed")) == 1
    assert 1 < len(ran.reports) < len(ran.collected)


def test_last_failed_runs_what_failed_again(pytester: pytest.Pytester) -> None:
    repository(pytester, "flash = register(kernels.with_another_scale, dtypes=('fp32',))")
    arguments = ("-m", "attention_numeric or attention_shape")
    failed = run(pytester, *arguments).with_outcome("failed")
    again = run(pytester, *arguments, "--lf")
    assert set(again.reports) == again.with_outcome("failed") == failed
    assert "flash::NUMERIC-001[fp32]" in failed


def test_one_record_alone_is_judged_as_in_a_full_run(pytester: pytest.Pytester) -> None:
    repository(pytester, "flash = register(kernels.without_scale, dtypes=('fp32',))")
    ran = run(pytester, "test_attention.py::flash::MASK-001[fp32]")
    assert ran.text("flash::MASK-001[fp32]").startswith("MASK-001[fp32] was not run: NUMERIC-001 failed")
