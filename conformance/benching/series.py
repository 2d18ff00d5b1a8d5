"""Figures of one or several runs, put together by group and by implementation."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .groups import Group
from .growth import Growth, fit, noise_of
from .measure import Measurement


class Row(Measurement):
    """One implementation in one group, over all runs in which it stood there."""

    @property
    def median(self) -> float:
        """The median of all rounds, in seconds."""
        return statistics.median(self.seconds)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The lower and the upper quartile of all rounds, in seconds."""
        if len(self.seconds) < 2:
            return self.seconds[0], self.seconds[0]
        low, _, high = statistics.quantiles(self.seconds, n=4, method="inclusive")
        return low, high

    @property
    def ratio(self) -> float | None:
        """The median over the rounds of its time to the reference's in the same round."""
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def label(self) -> str:
        """The name as tables show it: short for those who stand beside a target."""
        return label(self.name, self.role)


def label(name: str, role: str) -> str:
    """Return the target as it was typed; `reference attention`, `torch MultiheadAttention` for the others."""
    return name if role == "target" else f"{role} {name.rpartition(':')[2]}"


@dataclass(frozen=True)
class Line:
    """One implementation over all lengths of a section, with how it grows; None where that cannot be told."""

    label: str
    role: str
    rows: tuple[Row, ...]
    time: Growth | None
    memory: Growth | None


@dataclass(frozen=True)
class Section:
    """One shape and direction over all lengths. `rows` are sorted by length and role."""

    title: str
    rows: tuple[Row, ...]
    lines: tuple[Line, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The lengths of the section."""
        return tuple(sorted({row.group.length for row in self.rows}))


def rows(measurements: Iterable[Measurement]) -> list[Row]:
    """Pool the rounds of each implementation in each group."""
    found: dict[tuple[Group, str], list[Measurement]] = {}
    for each in measurements:
        found.setdefault((each.group, each.name), []).append(each)
    return [_pooled(entries) for entries in found.values()]


def _pooled(entries: Sequence[Measurement]) -> Row:
    first = entries[0]
    seconds = tuple(value for each in entries for value in each.seconds)
    ratios = tuple(value for each in entries for value in each.ratios)
    peaks = [each.peak for each in entries if each.peak is not None]
    peak = max(peaks) if peaks else None
    return Row(
        first.name, first.role, first.group, seconds, ratios, peak, first.threads, first.told, waited(entries)
    )  # fmt: skip


def waited(entries: Iterable[Measurement]) -> float | None:
    """Return the share of their whole time in which the process had no processor, None where nobody can tell."""
    known = [(each.waited * sum(each.seconds), sum(each.seconds)) for each in entries if each.waited is not None]
    total = sum(seconds for _, seconds in known)
    return sum(share for share, _ in known) / total if total > 0 else None


def sections(measurements: Iterable[Measurement]) -> list[Section]:
    """Return the sections in the order in which they came."""
    found: dict[str, list[Row]] = {}
    for row in rows(measurements):
        found.setdefault(row.group.section, []).append(row)
    return [_section(title, entries) for title, entries in found.items()]


def _section(title: str, entries: list[Row]) -> Section:
    # The reference first, as what everything is compared with, then torch's own.
    order = ("reference", "torch", "target")
    entries.sort(key=lambda row: (row.group.length, order.index(row.role)))
    labels = list(dict.fromkeys(row.label for row in sorted(entries, key=lambda row: order.index(row.role))))
    return Section(title, tuple(entries), tuple(_line(each, entries) for each in labels))


def _line(name: str, entries: Sequence[Row]) -> Line:
    own = tuple(row for row in entries if row.label == name)
    sizes = [row.group.length for row in own]
    time = fit(sizes, [row.median for row in own], [noise_of(row.seconds) for row in own])
    weighed = [(row.group.length, row.peak) for row in own if row.peak is not None]
    memory = fit([size for size, _ in weighed], [float(peak) for _, peak in weighed])
    return Line(name, own[0].role, own, time, memory)
