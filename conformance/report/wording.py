"""What every report says alike: signs, groups of records, the sentence over a whole run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from ..records import Outcome, Record
from .combining import Entry

SIGNS: Mapping[Outcome, str] = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.ERROR: "!",
    Outcome.NOT_RUN: "○",
    Outcome.DEVIATION: "≈",
    Outcome.NOT_APPLICABLE: "–",
}
"""One sign for each outcome, so that colour is never all there is."""


def by_rule(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by rule, in their order."""
    grouped: dict[str, list[Record]] = {}
    for record in records:
        grouped.setdefault(record.rule, []).append(record)
    return grouped


def by_reason(records: Iterable[Record], outcome: Outcome) -> dict[str, list[Record]]:
    """Group the records of one outcome by the first line of their message, the largest group first."""
    grouped: dict[str, list[Record]] = {}
    for record in records:
        if record.outcome is outcome:
            reason = record.message.splitlines()[0] if record.message else "of no known reason"
            grouped.setdefault(reason, []).append(record)
    return dict(sorted(grouped.items(), key=lambda item: -len(item[1])))


def weight(ratio: float | None) -> tuple[bool, bool, float]:
    """Return what orders ratios from none to the worst: NaN is worse than any number."""
    return (ratio is not None, ratio is not None and math.isnan(ratio), 0.0 if ratio is None else ratio)


def worst_ratio(records: Iterable[Record]) -> float | None:
    """Return the largest ratio of error to bound, NaN above all, leaving out what is declared to depart."""
    ratios = [r.ratio for r in records if r.ratio is not None and r.outcome is not Outcome.DEVIATION]
    return max(ratios, key=weight, default=None)


def ratio_text(ratio: float | None) -> str:
    """Return a ratio of error to bound in two digits, nothing for none."""
    return "" if ratio is None else f"{ratio:.2g}"


def summary(entries: Sequence[Entry]) -> str:
    """Return the whole of it in one line."""
    loaded = [entry for entry in entries if entry.audited.loaded]
    records = sum(len(entry.audited.records) for entry in loaded)
    parts = [f"{sum(entry.conforms for entry in loaded)} of {len(loaded)} implementations conform, {records} records"]
    if len(loaded) < len(entries):
        parts.append(f"{len(entries) - len(loaded)} targets could not be loaded")
    return "; ".join(parts)
