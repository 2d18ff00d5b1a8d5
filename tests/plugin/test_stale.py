"""Deviations under which nothing departs any more fail a full run, and only a full run."""

from __future__ import annotations

import pytest

from tests.plugin.suites import repository, run

pytest_plugins = ["pytester"]

STALE = """
flash = register(
    kernels.attend, dtypes=("fp32",), deviations=[Deviation("SHAPE-001", reason="it was wrong once")],
)
"""
MORE = """
other = register(kernels.attend, dtypes=("fp32",), name="other")

def test_theirs():
    pass
"""
SENTENCE = "test_attention.py::flash: nothing departs from SHAPE-001 any more; remove Deviation*SHAPE-001*"


@pytest.fixture
def few_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan the smoke rules and two conventions only, so that a full run is short."""
    from attention_conformance.selection import plan

    monkeypatch.setattr(
        "attention_conformance.collecting.collection.plan", lambda *args, **kwargs: plan(*args, **kwargs)[:4]
    )


pytestmark = pytest.mark.usefixtures("few_rules")


def test_a_stale_deviation_fails_a_full_run_and_names_the_line_to_change(pytester: pytest.Pytester) -> None:
    repository(pytester, STALE)
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=4)
    counted = "attention conformance: 1 implementation, 4 of 4 records: 4 passed"
    result.stdout.fnmatch_lines(["*= stale deviations =*", SENTENCE, counted])


@pytest.mark.parametrize(
    "arguments",
    [
        ["-k", "SHAPE"],
        ["-m", "attention_shape"],
        ["-k", "flash and not SHAPE-002"],
        ["test_attention.py::flash::SHAPE-001[fp32]"],
        ["--deselect", "test_attention.py::flash::SHAPE-002[fp32]"],
        ["--collect-only"],
        ["--maxfail=1", "-k", "SHAPE"],
    ],
)
def test_a_subset_of_the_rules_does_not_judge_deviations(pytester: pytest.Pytester, arguments: list[str]) -> None:
    repository(pytester, STALE + MORE)
    result = pytester.runpytest_inprocess(*arguments)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*stale*")


def test_a_run_that_stops_early_does_not_judge_deviations(pytester: pytest.Pytester) -> None:
    repository(pytester, "def test_theirs():\n    assert False\n" + STALE)
    result = pytester.runpytest_inprocess("-x")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.no_fnmatch_line("*stale*")


def test_tests_of_another_kind_may_be_left_out(pytester: pytest.Pytester) -> None:
    repository(pytester, STALE + MORE)
    assert run(pytester, "-k", "not theirs").status == pytest.ExitCode.TESTS_FAILED


def test_a_skipped_module_judges_no_deviations(pytester: pytest.Pytester) -> None:
    repository(pytester, "pytestmark = pytest.mark.skip(reason='not here')" + STALE)
    assert run(pytester).status == pytest.ExitCode.OK


@pytest.mark.parametrize(
    "deviation",
    [
        "Deviation('SHAPE-001', reason='elsewhere', when='dtype == bf16')",
        "Deviation('SHAPE-001', reason='elsewhere', when='torch < 1.0')",
    ],
)
def test_a_deviation_whose_condition_never_holds_is_not_judged(pytester: pytest.Pytester, deviation: str) -> None:
    repository(pytester, f"flash = register(kernels.attend, dtypes=('fp32',), deviations=[{deviation}])")
    assert run(pytester).status == pytest.ExitCode.OK


def test_a_deviation_that_names_no_rule_fails_a_full_run(pytester: pytest.Pytester) -> None:
    repository(pytester, STALE.replace("SHAPE-001", "SHAPE-999"))
    result = pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*flash: Deviation('SHAPE-999') names no rule*"])


def test_a_deviation_that_still_departs_does_not_fail_the_run(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        """
        def attend(query, key, value, mask=None):
            return kernels.attend(query, key, value, mask)[0].double()

        shifted = register(
            attend, dtypes=("fp32",),
            deviations=[
                Deviation(rule, reason="always fp64") for rule in ("SHAPE-001", "CAUSAL-001", "NUMERIC-001")
            ],
        )
        """,
    )
    ran = run(pytester)
    assert "shifted::SHAPE-001[fp32]" in ran.with_outcome("xfailed")
    assert ran.with_outcome("failed") == set()


def test_staleness_is_judged_per_implementation_and_entry(pytester: pytest.Pytester) -> None:
    repository(pytester, STALE + STALE.replace("flash", "second").replace("SHAPE-001", "SHAPE-002") + MORE)
    result = pytester.runpytest_inprocess("test_attention.py::flash", "test_attention.py::other")
    result.stdout.fnmatch_lines([SENTENCE])
    result.stdout.no_fnmatch_line("*second*")
    assert result.ret == pytest.ExitCode.TESTS_FAILED


def test_a_failure_elsewhere_keeps_its_exit_status(pytester: pytest.Pytester) -> None:
    repository(pytester, STALE + "def test_theirs():\n    raise KeyboardInterrupt\n")
    assert pytester.inline_run(no_reraise_ctrlc=True).ret == pytest.ExitCode.INTERRUPTED
