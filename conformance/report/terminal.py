"""What a run prints: one table, then the stories of failures, then what was declared. Quiet where it is piped.

Whatever comes from an implementation is printed as plain text, never as rich's markup.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from ..records import Outcome, Record, Verdict
from ..results import Audited, Line
from .changes import Changes
from .combining import Entry
from .wording import by_reason, by_rule, ratio_text, worst_ratio

STORIES = 5
"""How many failing rules of one implementation are told in full unless more is asked for."""

ALL_STORIES = 6
"""How many failing rules of a whole run are told in full unless more is asked for, shared by its implementations."""

CHANGES = 50
"""How many changes of a kind are listed."""

_COLUMNS: Mapping[str, Outcome] = {
    "passed": Outcome.PASSED,
    "failed": Outcome.FAILED,
    "error": Outcome.ERROR,
    "not run": Outcome.NOT_RUN,
    "deviation": Outcome.DEVIATION,
    "n/a": Outcome.NOT_APPLICABLE,
}
_STYLES: Mapping[Verdict, str] = {
    Verdict.CONFORMS: "green",
    Verdict.DECLARED: "green",
    Verdict.DEPARTS: "red",
    Verdict.BROKEN: "bold red",
}
_PIPED_WIDTH = 1000
_NARROW = 110


def make_console(*, stderr: bool = False) -> Console:
    """Return a console that reads no markup; where there is no terminal, it breaks no line of a table."""
    console = Console(stderr=stderr, markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _PIPED_WIDTH
    return console


# While it runs


@dataclass
class Counter:
    """What is known of a run in progress."""

    planned: int = 0
    records: int = 0
    bad: int = 0
    finished: int = 0
    current: str = ""

    def hear(self, line: Line) -> None:
        """Take one line of the run into account."""
        kind = line["type"]
        if kind == "planned":
            self.planned += line["records"]
            self.current = line["implementation"]
        elif kind == "record":
            self.records += 1
            self.bad += line["outcome"] in ("failed", "error")
            self.current = line["implementation"]
        elif kind == "verdict":
            self.finished += 1

    def text(self) -> str:
        """Return the state in one line."""
        bad = f", {self.bad} bad" if self.bad else ""
        return f"{self.finished} done, {self.records}/{self.planned} records{bad}  {self.current}"


@contextmanager
def progress(console: Console, *, quiet: bool = False) -> Iterator[Counter]:
    """Show counts and the current implementation while lines are heard; nothing unless there is a terminal."""
    counter = Counter()
    if quiet or not console.is_terminal:
        yield counter
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=console, transient=True) as shown:
        yield _Shown(shown=shown, task=shown.add_task(counter.text(), total=None))


@contextmanager
def saying(console: Console) -> Iterator[Callable[[str], None]]:
    """Say in a few words what is done now; nothing unless there is a terminal."""
    if not console.is_terminal:
        yield lambda text: None
        return
    with console.status("starting") as status:
        yield lambda text: status.update(Text(text))


@dataclass
class _Shown(Counter):
    shown: Progress = field(default_factory=Progress)
    task: TaskID | None = None

    def hear(self, line: Line) -> None:
        super().hear(line)
        if self.task is not None:
            self.shown.update(self.task, description=self.text())


# Afterwards


def report(console: Console, entries: Sequence[Entry], *, verbosity: int = 0) -> None:
    """Print the table and, unless `verbosity` is below 0, what there is to tell; above 0 all of it."""
    loaded = [entry for entry in entries if entry.audited.loaded]
    if loaded:
        console.print(table(loaded, narrow=console.width < _NARROW))
    if verbosity >= 0:
        left, share = ALL_STORIES, _share(loaded)
        for entry in loaded:
            left -= _tell(console, entry.audited, None if verbosity > 0 else min(share, left))
    for entry in loaded:
        for sentence in entry.audited.judged.stale:
            _line(console, f"stale: {sentence}", "red", indent=0)


def _share(entries: Sequence[Entry]) -> int:
    """Return how many stories of each implementation are told in full."""
    failing = sum(any(record.failing for record in entry.audited.records) for entry in entries)
    return max(1, min(STORIES, ALL_STORIES // max(1, failing)))


def table(entries: Sequence[Entry], *, narrow: bool = False) -> Table:
    """Return one line for each implementation: verdict, counts of every outcome, worst ratio of error to bound.

    Where entries come from several environments, these have a column. A `narrow` table leaves out the outcomes that
    occur nowhere, so that names have room.
    """
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    shown = {
        title: outcome
        for title, outcome in _COLUMNS.items()
        if not narrow or outcome is Outcome.PASSED or any(e.audited.judged.counts[str(outcome)] for e in entries)
    }
    several = len({entry.where for entry in entries}) > 1
    for title in ("implementation", "environment")[: 1 + several]:
        made.add_column(title, overflow="fold")
    made.add_column("verdict", no_wrap=True)
    for title in (*shown, "worst"):
        made.add_column(title, justify="right", no_wrap=True)
    for entry in entries:
        names = [Text(entry.name), Text(entry.where)][: 1 + several]
        judged = entry.audited.judged
        numbers = [str(judged.counts[str(outcome)]) for outcome in shown.values()]
        verdict, ratio = judged.verdict, ratio_text(worst_ratio(entry.audited.records))
        made.add_row(*names, Text(str(verdict), _STYLES[verdict]), *numbers, ratio)
    return made


def report_changes(console: Console, changes: Changes) -> None:
    """Print what changed from one run to another."""
    _line(console, f"{changes.old.environment} -> {changes.new_header.environment}", indent=0)
    groups = {"regression": changes.regressions, "new": changes.new, "mended": changes.mended}
    for name, found in groups.items():
        for change in found[:CHANGES]:
            _line(console, f"{name:<10}  {change.line}", "green" if name == "mended" else "red", indent=0)
        if len(found) > CHANGES:
            _line(console, f"{name:<10}  {len(found) - CHANGES} more; --markdown FILE lists them all", indent=0)
    counted = ", ".join(f"{name} {len(found)}" for name, found in groups.items())
    _line(console, f"{changes.compared} records compared: {counted}", indent=0)


def _tell(console: Console, audited: Audited, limit: int | None) -> int:
    """Tell what there is to tell of one implementation, at most `limit` stories, and return how many stories were told."""
    bad = by_rule(record for record in audited.records if record.failing)
    deviating = by_reason(audited.records, Outcome.DEVIATION)
    not_run = by_reason(audited.records, Outcome.NOT_RUN)
    inferred = audited.described.inferred
    if not (bad or deviating or not_run or inferred):
        return 0
    verdict = audited.judged.verdict
    console.print()
    console.print(Text.assemble((audited.name, "bold"), " ", (str(verdict), _STYLES[verdict])), soft_wrap=True)
    failing = [record for records in bad.values() for record in records]
    for name, seen in inferred.items():
        _line(console, f"inferred {name}={_answer(audited.described.capabilities[name])}: {_first(seen)}")
    for text in audited.judged.diagnosis if failing else ():
        count = sum(text in record.diagnosis for record in failing)
        _line(console, f"points to {text} ({count} of {len(failing)} failures)", "bold")
    told = list(bad)[:limit]
    for rule in told:
        _story(console, bad[rule])
    if bad and not told:
        _line(console, f"{failing[0].key} {failing[0].outcome}: {_first(failing[0].seen)}", "red")
    left = list(bad)[max(1, len(told)) :]
    if left:
        _line(console, f"{len(left)} more failing rules: {_some(left)}; -v tells them all, --html FILE shows them")
    for reason, records in not_run.items():
        _line(console, f"not run: {len(records)} records, because {reason}")
    for reason, records in deviating.items():
        rules = "; ".join(f"{rule} ({_dtypes(group)})" for rule, group in by_rule(records).items())
        _line(console, f"deviation {rules}: {reason}")
    return len(told)


def _answer(value: object) -> str:
    return repr(tuple(value) if isinstance(value, list) else value)


def _first(text: str, limit: int = 160) -> str:
    line = text.split("\n")[0]
    return line if len(line) <= limit else line[:limit].rstrip() + " ..."


def _story(console: Console, records: Sequence[Record]) -> None:
    """Tell the first record of a rule in full and its other dtypes in one line."""
    first = records[0]
    _line(console, f"{first.key} {first.outcome}", "red")
    _line(console, first.message, indent=4)
    others = [
        f"{r.dtype} {r.outcome}" + (f" ({ratio_text(r.ratio)})" if r.ratio is not None else "") for r in records[1:]
    ]
    if others:
        _line(console, f"  also      {', '.join(others)}", indent=4)


def _line(console: Console, text: str, style: str = "", *, indent: int = 2) -> None:
    """Print text as it is: breaking its lines would break what can be pasted."""
    console.print(Text(textwrap.indent(text, " " * indent), style), soft_wrap=True)


def _some(names: Sequence[str], limit: int = 12) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


def _dtypes(records: Iterable[Record]) -> str:
    return ", ".join(record.dtype or "every dtype" for record in records)
