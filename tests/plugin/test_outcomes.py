"""What becomes of a record in pytest, and what a failure says."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from attention_conformance.rulebook import get_rule
from tests.plugin.suites import ALONE, repository, run

pytest_plugins = ["pytester"]


def test_a_sound_kernel_passes_and_what_it_does_not_offer_is_skipped_with_the_capability(
    pytester: pytest.Pytester,
) -> None:
    repository(pytester, "flash = register(kernels.with_zeros_in_empty_rows, dtypes=('fp32',), empty_row='zeros')")
    ran = run(pytester)
    assert ran.status == 0
    assert ran.with_outcome("failed") == ran.with_outcome("xfailed") == set()
    assert {"flash::SHAPE-001[fp32]", "flash::MASK-001[fp32]"} <= ran.with_outcome("passed")
    place = str(pytester.path / "test_attention.py")
    assert ran.reports["flash::CAUSAL-002[fp32]"].longrepr == (place, 1, "Skipped: not applicable: causal=None")


@pytest.mark.parametrize(
    ("kernel", "rule", "seen"),
    [
        ("without_scale", "NUMERIC-001", r"with scale=1\.0 everything agrees"),
        ("with_another_scale", "NUMERIC-001", r"the scores are multiplied by \S+ at width 16, where 0\.25 is declared"),
        ("with_the_mask_turned_round", "MASK-001", r"output is \S+ at \(.*\), .* with mask_means='hide' everything"),
        ("over_the_queries", "NUMERIC-001", r"output is \S+ at \(.*\), expected \S+: the error \S+ is \S+ times"),
    ],
)
def test_a_broken_kernel_fails_with_the_sentence_and_the_numbers(
    pytester: pytest.Pytester, kernel: str, rule: str, seen: str
) -> None:
    repository(pytester, f"flash = register(kernels.{kernel}, dtypes=('fp32',))")
    ran = run(pytester, "-k", f"{rule} or SHAPE-001")
    assert ran.status == 1
    assert ran.with_outcome("failed") == {f"flash::{rule}[fp32]"}
    text = ran.text(f"flash::{rule}[fp32]")
    assert text.splitlines()[0] == f"test_attention.py::flash: {rule}[fp32] failed"
    assert get_rule(rule).sentence in text
    assert "fp32, train" in text
    assert re.search(seen, text), text
    assert "Traceback" not in text
    assert "conformance/" not in text


def test_the_rules_that_depend_on_a_wrong_convention_fail_in_one_line(pytester: pytest.Pytester) -> None:
    repository(pytester, "flash = register(kernels.without_scale, dtypes=('fp32',))")
    ran = run(pytester, "-k", "attention_mask")
    text = ran.text("flash::MASK-001[fp32]")
    assert ran.with_outcome("passed") == set()
    assert text == ("MASK-001[fp32] was not run: NUMERIC-001 failed: scale is not as declared; declare scale=1.0")


def test_undeclared_empty_rows_cost_one_rule_which_says_what_to_declare(pytester: pytest.Pytester) -> None:
    repository(pytester, "flash = register(kernels.with_zeros_in_empty_rows, dtypes=('fp32',))")
    ran = run(pytester)
    failed = {name for name in ran.with_outcome("failed") if "was not run" not in ran.text(name)}
    assert failed == {"flash::MASK-002[fp32]"}
    assert "empty_row='zeros'" in ran.text("flash::MASK-002[fp32]")


DEPARTING = """
flash = register(
    kernels.with_zeros_in_empty_rows, dtypes=("fp32",),
    deviations=[Deviation("MASK-002", reason="padding is dropped\\nlater", link="https://example.org/7")],
)
"""


@pytest.mark.parametrize("arguments", [[], ["--runxfail"], ["-o", "xfail_strict=true"]])
def test_a_declared_deviation_is_xfailed_with_its_reason(pytester: pytest.Pytester, arguments: list[str]) -> None:
    repository(pytester, DEPARTING)
    ran = run(pytester, *arguments, "-k", "MASK-002 or SHAPE-001")
    assert ran.status == 0
    assert ran.with_outcome("xfailed") == {"flash::MASK-002[fp32]"}
    report = ran.reports["flash::MASK-002[fp32]"]
    assert report.wasxfail == "padding is dropped later (https://example.org/7)"
    assert get_rule("MASK-002").sentence in report.longreprtext


def test_the_terminal_shows_each_outcome_in_its_own_section(pytester: pytest.Pytester) -> None:
    repository(pytester, DEPARTING + "wrong = register(kernels.with_another_scale, dtypes=('fp32',))")
    result = pytester.runpytest_inprocess(
        "-rfsx", "-v", "-k", "(flash and (MASK-002 or CAUSAL-002)) or (wrong and NUMERIC-001)"
    )
    result.stdout.fnmatch_lines(
        [
            "test_attention.py::flash::MASK-002*fp32* XFAIL*",
            "*_ wrong NUMERIC-001*fp32* _*",
            "test_attention.py::wrong: NUMERIC-001*fp32* failed",
            "attention conformance: 2 implementations, 3 of * records: 1 failed, 1 not-applicable, 1 deviation",
            "FAILED test_attention.py::wrong::NUMERIC-001*fp32* - *",
            "SKIPPED *1* test_attention.py:1: not applicable: causal=None",
            "XFAIL test_attention.py::flash::MASK-002*fp32* - padding is dropped later*",
        ]
    )


def test_the_result_file_of_pytest_holds_every_outcome(pytester: pytest.Pytester) -> None:
    repository(pytester, DEPARTING + "wrong = register(kernels.with_another_scale, dtypes=('fp32',))")
    run(pytester, "--junitxml=junit.xml", "-k", "(flash and (MASK-002 or CAUSAL-002)) or (wrong and NUMERIC-001)")
    suite = ElementTree.parse(pytester.path / "junit.xml").getroot()[0]
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "3", "failures": "1", "skipped": "2",
    }  # fmt: skip


RAISING = """
import sys

def attend(query, key, value, mask=None):
    {statement}

flash = register(attend, dtypes=("fp32",))
"""


@pytest.mark.parametrize(
    ("statement", "kind"),
    [
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("sys.exit(0)", "SystemExit"),
        ("pytest.skip('no')", "Skipped"),
        ("pytest.xfail('no')", "XFailed"),
        ("pytest.exit('no')", "Exit"),
    ],
)
def test_what_an_implementation_raises_is_an_error_of_its_record(
    pytester: pytest.Pytester, statement: str, kind: str
) -> None:
    repository(pytester, RAISING.format(statement=statement))
    ran = run(pytester, "-k", "SHAPE-001 or MASK-001")
    assert ran.with_outcome("failed") == {"flash::SHAPE-001[fp32]", "flash::MASK-001[fp32]"}
    assert f"it raised {kind}" in ran.text("flash::SHAPE-001[fp32]")
    assert ran.text("flash::MASK-001[fp32]").startswith("MASK-001[fp32] was not run: SHAPE-001 failed: it raised")


def test_an_interrupt_from_the_terminal_ends_the_run(pytester: pytest.Pytester) -> None:
    statement = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"
    repository(pytester, RAISING.format(statement=statement))
    result = pytester.runpytest_subprocess(*ALONE)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*KeyboardInterrupt*", "*no tests ran in*"])


@pytest.mark.parametrize(
    ("mark", "outcome"),
    [
        ("skip(reason='not here')", "skipped"),
        ("skipif('sys.platform != \"none\"', reason='not here')", "skipped"),
        ("xfail(reason='new', run=False)", "xfailed"),
    ],
)
def test_marks_of_the_module_are_honoured(pytester: pytest.Pytester, mark: str, outcome: str) -> None:
    repository(pytester, f"pytestmark = pytest.mark.{mark}\nflash = register(kernels.attend, dtypes=('fp32',))")
    result = pytester.runpytest_inprocess("-k", "SHAPE-001")
    result.assert_outcomes(**{outcome: 1}, deselected=result.parseoutcomes()["deselected"])


def test_an_xfail_mark_of_the_module_covers_failures_only(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        """
        pytestmark = pytest.mark.xfail(reason="being rewritten")
        flash = register(kernels.without_scale, dtypes=("fp32",))
        """,
    )
    result = pytester.runpytest_inprocess("-k", "SHAPE-001 or NUMERIC-001 or CAUSAL-002")
    found = result.parseoutcomes()
    assert (found["xfailed"], found["xpassed"], found["skipped"]) == (1, 1, 1)


def test_a_deviation_does_not_count_as_passed_under_a_strict_mark(pytester: pytest.Pytester) -> None:
    repository(pytester, "pytestmark = pytest.mark.xfail(strict=True)" + DEPARTING)
    ran = run(pytester, "-k", "MASK-002")
    assert ran.with_outcome("xfailed") == {"flash::MASK-002[fp32]"}


def test_an_error_of_the_suite_itself_keeps_its_traceback(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(*_: object) -> None:
        raise LookupError("inside the runner")

    monkeypatch.setattr("attention_conformance.collecting.collection.Examination.run_one", breaks)
    repository(pytester, "flash = register(kernels.attend, dtypes=('fp32',))")
    ran = run(pytester, "-k", "SHAPE-001")
    assert "def breaks" in ran.text("flash::SHAPE-001[fp32]")


def test_warnings_of_an_implementation_are_passed_on(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        """
        import warnings

        def warns(query, key, value, mask=None):
            warnings.warn("slow path", FutureWarning)
            warnings.warn("\\x07", RuntimeWarning)
            return kernels.attend(query, key, value, mask)

        flash = register(warns, dtypes=("fp32",))
        """,
    )
    # The build folder of a clone makes pytest warn about modules of this repository's own.
    quiet = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    result = pytester.runpytest_inprocess("-k", "SHAPE-001", *quiet)
    result.assert_outcomes(passed=1, warnings=2, deselected=result.parseoutcomes()["deselected"])
    result.stdout.fnmatch_lines(["*test_attention.py:*: FutureWarning: slow path", r"*RuntimeWarning: \x07"])
    strict = run(pytester, "-k", "SHAPE-001", "-W", "error::FutureWarning")
    assert "it raised FutureWarning: slow path" in strict.text("flash::SHAPE-001[fp32]")
