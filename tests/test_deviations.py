"""Declared departures: what one may cover, when it holds, where its link is shown, and when it is stale."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import torch
from rich.console import Console

from attention_conformance import Deviation, Outcome, check, cli
from attention_conformance.deviations import conditions
from attention_conformance.errors import InvalidDeviation
from attention_conformance.records import Record, Verdict, counts
from attention_conformance.report import terminal
from attention_conformance.report.combining import Entry
from attention_conformance.results import Audited, Described, Judged, read
from attention_conformance.rulebook import catalogue
from attention_conformance.verdicts import stale
from tests.kernels import zeros
from tests.made import HEADER
from tests.plugin.suites import ALONE, repository

pytest_plugins = ["pytester"]

Printed = pytest.CaptureFixture[str]


@pytest.mark.parametrize("rule", ["*", "MASK", "MASK-", "MASK-*", "MASK-00?", "MASK-001, MASK-002", "mask-001", ""])
def test_a_wildcard_or_a_family_is_refused_and_the_text_says_what_to_write(rule: str) -> None:
    with pytest.raises(InvalidDeviation, match=r"covers one rule id such as 'MASK-003', never a family or '\*'"):
        Deviation(rule, reason="because")


@pytest.mark.parametrize("reason", ["", "  ", "\n", None])
def test_a_reason_is_mandatory(reason: str) -> None:
    with pytest.raises(InvalidDeviation, match="needs a reason"):
        Deviation("MASK-001", reason=reason)


# When

HOLDS = [
    ("dtype == fp16", "fp16", "cpu", "2.4.1", True),
    ("dtype==fp16", "fp16", "cpu", "2.4.1", True),
    ("  dtype  !=  fp16  ", "fp16", "cpu", "2.4.1", False),
    ("dtype != fp16", "bf16", "cpu", "2.4.1", True),
    ("dtype != fp16", None, "cpu", "2.4.1", False),
    ("device == cuda", None, "cuda:1", "2.4.1", True),
    ("device == cuda:0", None, "cuda:1", "2.4.1", False),
    ("device == cuda:1", None, "cuda:1", "2.4.1", True),
    ("device != cpu", None, "cpu", "2.4.1", False),
    ("dtype == fp16 and torch<2.5", "fp16", "cpu", "2.4.1", True),
    ("dtype == fp16   and   torch<2.5 and device != cuda", "fp16", "cpu", "2.4.1", True),
    ("dtype == fp16 and torch < 2.4", "fp16", "cpu", "2.4.1", False),
    ("dtype == fp32 and torch < 2.5", "fp16", "cpu", "2.4.1", False),
    ("torch >= 2.4 and torch < 2.5", None, "cpu", "2.4.1+cpu", True),
]  # fmt: skip


@pytest.mark.parametrize(("when", "dtype", "device", "version", "holds"), HOLDS)
def test_every_comparison_has_to_hold(when: str, dtype: str | None, device: str, version: str, holds: bool) -> None:
    assert Deviation("MASK-001", reason="because", when=when).applies(dtype, device, version) is holds


# version: the conditions that hold and those that do not
VERSIONS = {
    "2.4.1": (
        ("== 2.4", "== 2.4.1", "<= 2.4", ">= 2.4", "< 2.5", "> 2.3", "!= 2.4.0", "> 2.4.0", "== 2"),
        ("> 2.4", "< 2.4", "!= 2.4", "== 2.4.0", "< 2.4.1", ">= 2.5", "> 2"),
    ),
    "2.13.0+cpu": (
        ("== 2.13", "== 2.13.0", "== 2.13.0+cpu", "== 2.13.0+cu130", "> 2.4", ">= 2.13.0", "> 2.9"),
        ("< 2.4", "< 2.13", "!= 2.13.0", "> 2.13", "< 2.9"),
    ),
    "2.5.0rc1": (("== 2.5", "== 2.5.0", ">= 2.5", "> 2.4.9"), ("< 2.5", "== 2.5.1", "> 2.5.0")),
    "2.14.0.dev20261101+cu130": (("== 2.14", "== 2.14.0", "> 2.13.1"), ("< 2.14", "> 2.14")),
    "2.5.0a0+git1f2e3d4": (("== 2.5.0", "<= 2.5"), ("< 2.5.0", "== 2.5.0.1")),
    "3.0": (("== 3", "== 3.0", "== 3.0.0", "> 2.99"), ("> 3.0.0", "< 3.0.0", "== 3.0.1")),
}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_version_compares_as_far_as_it_is_written(version: str) -> None:
    for expected, texts in zip((True, False), VERSIONS[version], strict=True):
        for text in texts:
            entry = Deviation("MASK-001", reason="because", when=f"torch {text}")
            assert entry.applies(None, "cpu", version) is expected, text


@pytest.mark.parametrize(
    "when",
    [
        "", " ", "fp16", "dtype", "dtype = fp16", "dtype == float16", "dtype == FP16", "dtype < fp16", "dtype in fp16",
        "device >= cuda", "device == CUDA", "device == cuda:", "torch == two", "torch == 2.x", "torch ~= 2.4",
        "torch < 2.5 or dtype == fp16", "torch < 2.5, dtype == fp16", "torch < 2.5 and", "and torch < 2.5",
        "torch < 2.5 dtype == fp16", "not torch < 2.5", "python == 3.12", "2.5 > torch", 3,
    ],
)  # fmt: skip
def test_what_can_never_hold_or_cannot_be_read_is_refused_with_the_grammar(when: str) -> None:
    with pytest.raises(
        InvalidDeviation, match=r"cannot be read at .*Write comparisons joined by 'and': 'dtype == fp16'"
    ):
        Deviation("MASK-001", reason="because", when=when)


def test_conditions_are_read_in_order() -> None:
    assert conditions("torch<2.5 and dtype != bf16") == (("torch", "<", "2.5"), ("dtype", "!=", "bf16"))
    assert conditions(None) == ()


# The link

LINKED = Deviation("MASK-002", reason="padding is\ndropped later", link="https://example.org/7")


def departing() -> list[Record]:
    return list(check(zeros, select=("MASK-002", "fp32"), deviations=(LINKED,), second=None))


def test_reason_and_link_begin_the_message_of_the_record() -> None:
    (record,) = departing()
    assert record.outcome is Outcome.DEVIATION
    first, second = record.message.splitlines()[:2]
    assert first == "padding is dropped later (https://example.org/7)"
    assert second == catalogue()["MASK-002"].sentence


def test_reason_and_link_stand_in_the_terminal_report() -> None:
    records = tuple(departing())
    judged = Judged("it", Verdict.DECLARED, counts(records))
    text = io.StringIO()
    console = Console(file=text, width=300, markup=False, highlight=False)
    terminal.report(console, [Entry(HEADER, Audited(Described("it", "it", reference="attention"), records, judged))])
    assert "  deviation MASK-002 (fp32): padding is dropped later (https://example.org/7)\n" in text.getvalue()


# Stale entries


def record(rule: str, dtype: str | None, outcome: Outcome) -> Record:
    return Record("it", rule, dtype, None, outcome, "", None, (), 0.0)


P, D, N, S = Outcome.PASSED, Outcome.DEVIATION, Outcome.NOT_APPLICABLE, Outcome.NOT_RUN


@pytest.mark.parametrize(
    ("when", "outcomes", "is_stale"),
    [
        (None, {"fp32": P, "bf16": P}, True),
        (None, {"fp32": P, "bf16": D}, False),
        (None, {"fp32": D, "bf16": D}, False),
        ("dtype == fp32", {"fp32": P, "bf16": D}, True),
        ("dtype == bf16", {"fp32": P, "bf16": D}, False),
        ("dtype != bf16", {"fp32": P, "bf16": D}, True),
        ("dtype == fp16", {"fp32": P, "bf16": P}, False),
        ("torch < 1.0", {"fp32": P}, False),
        ("torch >= 1.0", {"fp32": P}, True),
        ("device == cuda", {"fp32": P}, False),
        (None, {"fp32": P, "bf16": N}, True),
        (None, {"fp32": N}, True),
        (None, {"fp32": P, "bf16": S}, False),
        (None, {}, False),
    ],
)
def test_an_entry_is_stale_where_it_holds_and_nothing_departs(
    when: str | None, outcomes: dict[str, Outcome], is_stale: bool
) -> None:
    entry = Deviation("MASK-002", reason="once", when=when)
    other = record("MASK-003", "fp32", Outcome.DEVIATION)
    records = [record("MASK-002", dtype, outcome) for dtype, outcome in outcomes.items()]
    told = stale("it", "cpu", [entry], [*records, other])
    condition = "" if when is None else f", when={when!r}"
    line = f"it: nothing departs from MASK-002 any more; remove Deviation('MASK-002', ...{condition})"
    assert told == ([line] if is_stale else [])


def test_each_entry_is_judged_for_itself() -> None:
    entries = [Deviation("MASK-002", reason="a", when=f"dtype == {dtype}") for dtype in ("fp32", "bf16")]
    records = [record("MASK-002", "fp32", P), record("MASK-002", "bf16", D)]
    assert len(stale("it", "cpu", entries, records)) == 1


def test_an_entry_that_names_no_rule_gets_the_nearest_one(monkeypatch: pytest.MonkeyPatch) -> None:
    (told,) = stale("it", "cpu", [Deviation("MASK-902", reason="once")], [])
    assert told.startswith("it: Deviation('MASK-902') names no rule of the catalogue, did you mean 'MASK-0")
    monkeypatch.setattr("attention_conformance.verdicts.RETIRED", frozenset({"MASK-902"}))
    (told,) = stale("it", "cpu", [Deviation("MASK-902", reason="once")], [])
    assert told == "it: Deviation('MASK-902') names no rule of the catalogue any more; remove it"


MODULE = """
flash = register(kernels.attend, dtypes=("fp32", "bf16"), deviations=[
    Deviation("SHAPE-001", reason="it was wrong once", when="dtype == bf16"),
    Deviation("SHAPE-001", reason="elsewhere", when="torch < 1.0"),
    Deviation("MASK-902", reason="a slip of the pen"),
])
"""
TOLD = (
    "*flash: nothing departs from SHAPE-001 any more; remove Deviation('SHAPE-001', ..., when='dtype == bf16')",
    "test_attention.py::flash: Deviation('MASK-902') names no rule of the catalogue, did you mean 'MASK-0*",
)


@pytest.mark.parametrize("workers", [[], ["-n2", *ALONE]])
def test_pytest_tells_the_line_to_change_and_fails_also_with_xdist(
    pytester: pytest.Pytester, workers: list[str]
) -> None:
    pytest.importorskip("xdist")
    repository(pytester, MODULE)
    result = pytester.runpytest_subprocess(*workers) if workers else pytester.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.assert_outcomes(passed=result.parseoutcomes()["passed"], skipped=result.parseoutcomes()["skipped"])
    result.stdout.fnmatch_lines([*TOLD])
    result.stdout.no_fnmatch_line("*elsewhere*")


@pytest.mark.parametrize(
    "arguments", [["-k", "SHAPE-001"], ["-m", "attention_fp32"], ["-n2", *ALONE, "-k", "SHAPE-001"]]
)
def test_pytest_judges_no_entry_on_a_subset(pytester: pytest.Pytester, arguments: list[str]) -> None:
    pytest.importorskip("xdist")
    repository(pytester, MODULE)
    distributed = "-n2" in arguments
    result = (pytester.runpytest_subprocess if distributed else pytester.runpytest_inprocess)(*arguments)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.no_fnmatch_line("*stale*")


@pytest.fixture
def target(tmp_path: Path) -> str:
    path = tmp_path / "kernels.py"
    path.write_text(
        "from attention_conformance import Deviation, register\n"
        "from attention_conformance.reference.attention import attention\n"
        f"flash = {MODULE.split('=', 1)[1].strip().replace('kernels.attend', 'attention')}\n"
    )
    return f"{path}:flash"


def test_the_audit_tells_the_line_to_change_and_gives_1(target: str, tmp_path: Path, capsys: Printed) -> None:
    file = tmp_path / "result.jsonl"
    assert cli.run(["audit", target, "--json", str(file), "-q"]) == cli.DEPARTS
    printed = capsys.readouterr().out
    assert "stale: " in printed
    assert "remove Deviation('SHAPE-001', ..., when='dtype == bf16')" in printed
    assert "Deviation('MASK-902') names no rule of the catalogue, did you mean" in printed
    assert "torch < 1.0" not in printed
    (result,) = read(file).audited
    assert len(result.judged.stale) == 2


def test_the_audit_judges_no_entry_on_a_selection(target: str, capsys: Printed) -> None:
    assert cli.run(["audit", target, "--select", "SHAPE-001"]) == cli.CONFORMS
    assert "stale" not in capsys.readouterr().out


def test_the_condition_on_torch_meets_the_torch_that_runs() -> None:
    release = ".".join(torch.__version__.split("+")[0].split(".")[:2])
    assert Deviation("MASK-001", reason="a", when=f"torch == {release}").applies(None, "cpu", torch.__version__)
