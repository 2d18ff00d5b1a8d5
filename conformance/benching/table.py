"""What `bench` prints: for each section the figures by length, then how they grow."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .growth import Growth
from .measure import Failure
from .series import Row, Section, waited

BUSY = 0.1
"""From which share of waiting on figures are called doubtful."""

_STYLES = {"reference": "dim", "torch": "dim", "target": ""}


def report(console: Console, found: Sequence[Section], failures: Sequence[Failure]) -> None:
    """Print every section, then what could not be measured and why."""
    for position, section in enumerate(found):
        if position:
            console.print()
        threads = "/".join(map(str, sorted({row.threads for row in section.rows})))
        title = f"{section.title}, {threads} thread{'' if threads == '1' else 's'}"
        console.print(Text(title, "bold"), soft_wrap=True)
        console.print(figures(section))
        _grow(console, section)
    if found:
        console.print()
        console.print(_explained(found), style="dim", soft_wrap=True)
        share = waited(row for section in found for row in section.rows)
        if share is not None and share > BUSY:
            console.print(
                f"The machine was busy: for {share:.0%} of their time calls waited for a processor. Long calls suffer more "
                "than short ones, so that times and their exponents come out too large; measure on a quieter machine.",
                style="yellow", soft_wrap=True,
            )  # fmt: skip
    for failure in failures:
        place = "" if failure.group is None else f", {failure.group.name}"
        style = "" if failure.excused else "red"
        console.print(Text(f"not measured: {failure.name}{place}: {failure.why}", style), soft_wrap=True)


def figures(section: Section) -> Table:
    """Return a line for each length and implementation."""
    made = _table("L", "implementation", "median", "quartiles", "ratio", "peak memory")
    last = None
    for row in section.rows:
        length = str(row.group.length) if row.group.length != last else ""
        if last is not None and length:
            made.add_section()
        last = row.group.length
        ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
        made.add_row(
            length, Text(row.label), seconds(row.median), _quartiles(row), ratio, memory(row.peak), style=_STYLES[row.role]
        )  # fmt: skip
    return made


def _table(*titles: str) -> Table:
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0))
    for title in titles:
        if title == "implementation":
            made.add_column(title, overflow="fold")
        else:
            made.add_column(title, justify="right", no_wrap=True)
    return made


def _quartiles(row: Row) -> str:
    low, high = row.quartiles
    scale, unit = _unit(row.median)
    return f"{_digits(low / scale)} - {_digits(high / scale)} {unit}"


def _grow(console: Console, section: Section) -> None:
    if all(line.time is None for line in section.lines):
        console.print("How it grows in L needs three sizes or more.", style="dim")
        return
    made = _table("grows as L to the power of", "implementation", "time", "memory")
    for line in section.lines:
        fitted = line.time or line.memory
        over = "" if fitted is None else f"L = {fitted.sizes[0]} to {fitted.sizes[-1]}"
        made.add_row(over, Text(line.label), _exponent(line.time), _exponent(line.memory), style=_STYLES[line.role])
    console.print(made)


def _exponent(growth: Growth | None) -> str:
    return "" if growth is None else growth.text()


def _explained(found: Sequence[Section]) -> str:
    rounds = sorted({len(row.seconds) for section in found for row in section.rows})
    number = str(rounds[0]) if len(rounds) == 1 else f"{rounds[0]} to {rounds[-1]}"
    return (
        f"Median of {number} rounds, in each of which everybody is called once, in three passes over the lengths. ratio: time over the reference's in the "
        "same round, median. peak memory: most bytes held during one call beyond the inputs (CPU: asked of torch's "
        "allocator). ±: one standard error."
    )


def seconds(value: float) -> str:
    """Return a time with three digits and its unit."""
    scale, unit = _unit(value)
    return f"{_digits(value / scale)} {unit}"


def _unit(value: float) -> tuple[float, str]:
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= scale:
            return scale, unit
    return 1e-9, "ns"


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def memory(peak: int | None) -> str:
    """Return bytes with three digits and their unit; nothing where they cannot be told."""
    if peak is None:
        return ""
    for scale, unit in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if peak >= scale:
            return f"{_digits(peak / scale)} {unit}"
    return f"{peak} B"
