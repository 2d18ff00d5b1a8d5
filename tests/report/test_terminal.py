"""What an audit prints."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from attention_conformance.report import terminal
from attention_conformance.report.combining import Entry
from attention_conformance.results import Audited
from tests.made import HEADER, audited, record

STORY = "The rule.\n  case      one [bold]case[/bold] :smile: [/x]\n  seen      output is 1, expected 2"


def printed(*results: Audited, verbosity: int = 0) -> str:
    console = terminal.make_console()
    console.file = io.StringIO()
    terminal.report(console, [Entry(HEADER, each) for each in results], verbosity=verbosity)
    return console.file.getvalue()


def failing(number: int) -> Audited:
    rules = [f"MASK-{place:03}" for place in range(1, number + 1)]
    dtypes = ("fp64", "fp32")
    return audited(*(record(r, d, "failed", message=STORY, ratio=3.14159) for r in rules for d in dtypes))


def test_the_table_has_the_verdict_every_count_and_the_worst_ratio() -> None:
    result = audited(
        record(ratio=0.125), record(dtype="bf16", ratio=0.5), record(dtype="fp16", outcome="not-applicable"),
        record("MASK-004", None, "deviation", message="known", ratio=9.0), verdict="conforms-declared",
    )  # fmt: skip
    heading, _, row = printed(result, verbosity=-1).splitlines()
    cells = ["implementation", "verdict", "passed", "failed", "error", "not run", "deviation", "n/a", "worst"]
    assert re.split(r"\s{2,}", heading.strip()) == cells
    assert row.split() == ["kernels:attend", "conforms-declared", "2", "0", "0", "0", "1", "1", "0.5"]


def test_a_narrow_terminal_leaves_out_what_occurs_nowhere() -> None:
    console = Console(file=io.StringIO(), width=80, markup=False)
    terminal.report(
        console, [Entry(HEADER, audited(record(ratio=0.5), record("MASK-004", outcome="failed")))], verbosity=-1
    )
    heading = console.file.getvalue().splitlines()[0]  # type: ignore[attr-defined]
    assert heading.split() == ["implementation", "verdict", "passed", "failed", "worst"]


@pytest.mark.parametrize(("ratios", "worst"), [((0.5, float("inf")), "inf"), ((float("nan"), float("inf")), "nan")])
def test_the_worst_ratio_may_be_no_number(ratios: tuple[float, float], worst: str) -> None:
    pair = [record(dtype=dtype, ratio=ratio) for dtype, ratio in zip(("fp32", "fp64"), ratios, strict=True)]
    assert printed(audited(*pair), verbosity=-1).split()[-1] == worst


def test_a_failure_is_told_once_and_its_other_dtypes_in_one_line() -> None:
    text = printed(failing(1))
    assert text.count("The rule.") == 1
    assert "  MASK-001[fp64] failed\n    The rule.\n      case      one" in text
    assert "      also      fp32 failed (3.1)\n" in text


def test_foreign_text_is_no_markup() -> None:
    assert "one [bold]case[/bold] :smile: [/x]" in printed(failing(1))


def test_long_lines_are_not_broken_and_nothing_is_coloured_where_it_is_piped() -> None:
    line = "tensor([" + "1.0, " * 100 + "])"
    text = printed(audited(record(outcome="failed", message=line)))
    assert f"    {line}\n" in text
    assert "\x1b" not in text
    assert not any(each.endswith(" ") for each in text.splitlines() if each.startswith(" "))


def test_a_terminal_gets_colours_unless_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def shown() -> str:
        console = Console(file=io.StringIO(), force_terminal=True, markup=False)
        terminal.report(console, [Entry(HEADER, failing(1))])
        return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]

    colour = re.compile(r"\x1b\[(\d+;)*3\dm")
    assert colour.search(shown())
    monkeypatch.setenv("NO_COLOR", "1")
    assert not colour.search(shown())


def test_only_some_stories_are_told_unless_all_are_asked_for() -> None:
    text = printed(failing(8))
    assert text.count("The rule.") == terminal.STORIES
    assert "3 more failing rules: MASK-006, MASK-007, MASK-008; -v tells them all" in text
    assert printed(failing(8), verbosity=1).count("The rule.") == 8
    assert "The rule." not in printed(failing(8), verbosity=-1)


def test_many_implementations_share_what_is_told_in_full() -> None:
    text = printed(*[failing(2)] * 8)
    assert text.count("The rule.") == terminal.ALL_STORIES
    assert text.count("1 more failing rules: MASK-002") == 8
    assert text.count("  MASK-001[fp64] failed: output is 1, expected 2\n") == 2
    assert printed(*[failing(2)] * 3).count("The rule.") == 6


def test_what_was_not_run_is_grouped_by_its_reason() -> None:
    first, other = "SHAPE-001 failed: x\nmore", "MASK-001 failed: y"
    records = [record(dtype=dtype, outcome="not-run", message=first) for dtype in ("fp64", "fp32")]
    text = printed(audited(record(dtype="bf16", outcome="not-run", message=other), *records))
    assert "  not run: 2 records, because SHAPE-001 failed: x\n  not run: 1 records, because MASK-001" in text


def test_deviations_are_listed_with_their_reason() -> None:
    records = [record(dtype=dtype, outcome="deviation", message="fast path\nstory") for dtype in ("fp64", "bf16")]
    more = record("MASK-004", None, "deviation", message="fast path\nstory")
    text = printed(audited(*records, more, verdict="conforms-declared"))
    assert "  deviation MASK-003 (fp64, bf16); MASK-004 (every dtype): fast path\n" in text
    assert "story" not in text


def test_stale_deviations_are_told_even_when_quiet() -> None:
    assert "stale: remove Deviation('MASK-003', ...)" in printed(
        audited(record(), stale=("remove Deviation('MASK-003', ...)",)), verbosity=-1
    )


def test_progress_counts_and_is_silent_without_a_terminal() -> None:
    console = terminal.make_console()
    console.file = io.StringIO()
    with terminal.progress(console) as counter:
        counter.hear({"type": "planned", "implementation": "a", "records": 3})
        counter.hear({"type": "record", "implementation": "a", "outcome": "failed"})
        counter.hear({"type": "verdict", "implementation": "a"})
    assert counter.text() == "1 done, 1/3 records, 1 bad  a"
    assert console.file.getvalue() == ""
