"""What an audit prints: one table, then a story for each failure, then what was declared. Quiet where it is piped.

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

STORIES = 5
"""How many failing rules of one implementation are told in full unless more is asked for."""

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
_TOLD = (Outcome.FAILED, Outcome.ERROR)
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


def report(console: Console, audited: Sequence[Audited], *, verbosity: int = 0) -> None:
    """Print the table and, unless `verbosity` is below 0, what there is to tell; above 0 all of it."""
    loaded = [each for each in audited if each.loaded]
    if loaded:
        console.print(table(loaded, narrow=console.width < _NARROW))
    if verbosity >= 0:
        for each in loaded:
            _tell(console, each, None if verbosity > 0 else STORIES)
    for each in loaded:
        for sentence in each.judged.stale:
            _line(console, f"stale: {sentence}", "red", indent=0)


def table(audited: Sequence[Audited], *, narrow: bool = False) -> Table:
    """Return one line for each implementation: verdict, counts of every outcome, worst ratio of error to bound.

    A `narrow` table leaves out the outcomes that occur nowhere, so that names have room.
    """
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    shown = {
        title: outcome
        for title, outcome in _COLUMNS.items()
        if not narrow or outcome is Outcome.PASSED or any(each.judged.counts[str(outcome)] for each in audited)
    }
    made.add_column("implementation", overflow="fold")
    made.add_column("verdict", no_wrap=True)
    for title in shown:
        made.add_column(title, justify="right", no_wrap=True)
    made.add_column("worst", justify="right", no_wrap=True)
    for each in audited:
        verdict = each.judged.verdict
        numbers = [str(each.judged.counts[str(outcome)]) for outcome in shown.values()]
        made.add_row(Text(each.name), Text(str(verdict), _STYLES[verdict]), *numbers, _ratio(worst(each.records)))
    return made


def worst(records: Iterable[Record]) -> float | None:
    """Return the largest ratio of error to bound, NaN above all, leaving out what is declared to depart."""
    ratios = [r.ratio for r in records if r.ratio is not None and r.outcome is not Outcome.DEVIATION]
    return max(ratios, key=lambda ratio: (ratio != ratio, ratio), default=None)


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2g}"


def _tell(console: Console, audited: Audited, limit: int | None) -> None:
    bad = _by_rule(record for record in audited.records if record.outcome in _TOLD)
    deviating = [record for record in audited.records if record.outcome is Outcome.DEVIATION]
    not_run = [record for record in audited.records if record.outcome is Outcome.NOT_RUN]
    inferred = audited.described.inferred
    if not (bad or deviating or not_run or inferred):
        return
    verdict = audited.judged.verdict
    console.print()
    console.print(Text.assemble((audited.name, "bold"), " ", (str(verdict), _STYLES[verdict])), soft_wrap=True)
    failing = [record for records in bad.values() for record in records]
    for name, seen in inferred.items():
        _line(console, f"inferred {name}={_answer(audited.described.capabilities[name])}: {_first(seen)}")
    for text in audited.judged.diagnosis if failing else ():
        count = sum(text in record.diagnosis for record in failing)
        _line(console, f"points to {text} ({count} of {len(failing)} failures)", "bold")
    for records in list(bad.values())[:limit]:
        _story(console, records)
    left = list(bad)[limit:] if limit is not None else []
    if left:
        _line(console, f"{len(left)} more failing rules: {_some(left)}; -v tells them all")
    for reason, records in sorted(_by_reason(not_run).items(), key=lambda item: -len(item[1])):
        _line(console, f"not run: {len(records)} records, because {reason}")
    for reason, records in _by_reason(deviating).items():
        rules = "; ".join(f"{rule} ({_dtypes(group)})" for rule, group in _by_rule(records).items())
        _line(console, f"deviation {rules}: {reason}")


def _answer(value: object) -> str:
    return repr(tuple(value) if isinstance(value, list) else value)


def _first(text: str, limit: int = 160) -> str:
    line = text.split("\n")[0]
    return line if len(line) <= limit else line[:limit].rstrip() + " ..."


def _by_rule(records: Iterable[Record]) -> dict[str, list[Record]]:
    grouped: dict[str, list[Record]] = {}
    for record in records:
        grouped.setdefault(record.rule, []).append(record)
    return grouped


def _story(console: Console, records: Sequence[Record]) -> None:
    """Tell the first record of a rule in full and its other dtypes in one line."""
    first = records[0]
    _line(console, f"{first.key} {first.outcome}", "red")
    _line(console, first.message, indent=4)
    others = [f"{r.dtype} {r.outcome}" + (f" ({_ratio(r.ratio)})" if r.ratio is not None else "") for r in records[1:]]
    if others:
        _line(console, f"  also      {', '.join(others)}", indent=4)


def _by_reason(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by the first line of their message."""
    grouped: dict[str, list[Record]] = {}
    for record in records:
        reason = record.message.splitlines()[0] if record.message else "of no known reason"
        grouped.setdefault(reason, []).append(record)
    return grouped


def _line(console: Console, text: str, style: str = "", *, indent: int = 2) -> None:
    """Print text as it is: breaking its lines would break what can be pasted."""
    console.print(Text(textwrap.indent(text, " " * indent), style), soft_wrap=True)


def _some(names: Sequence[str], limit: int = 12) -> str:
    return ", ".join(names[:limit]) + (", ..." if len(names) > limit else "")


def _dtypes(records: Iterable[Record]) -> str:
    return ", ".join(record.dtype or "every dtype" for record in records)


def summary(audited: Sequence[Audited]) -> str:
    """Return the whole run in one line."""
    loaded = [each for each in audited if each.loaded]
    fine = sum(each.judged.verdict in (Verdict.CONFORMS, Verdict.DECLARED) for each in loaded)
    records = sum(len(each.records) for each in loaded)
    parts = [f"{fine} of {len(loaded)} implementations conform, {records} records"]
    if len(loaded) < len(audited):
        parts.append(f"{len(audited) - len(loaded)} targets could not be loaded")
    return "; ".join(parts)
