"""What the records of one implementation say together: its verdict, and the deviations that are stale."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from .deviations import Deviation
from .errors import nearest
from .implementation import Implementation
from .records import Outcome, Record, Verdict
from .rulebook import RETIRED, catalogue


def verdict(implementation: Implementation, records: Iterable[Record]) -> Verdict:
    """Return the verdict over the records of one implementation."""
    return verdict_over(records, bool(implementation.declared))


def verdict_over(records: Iterable[Record], declared: bool) -> Verdict:
    """Return the verdict over records of an implementation; `declared` says whether it has conventions of its own."""
    records = list(records)
    smoke = {rule.id for rule in catalogue().values() if rule.smoke}
    bad = [record for record in records if record.bad]
    if any(record.rule in smoke and record.failing for record in bad):
        return Verdict.BROKEN
    if bad:
        return Verdict.DEPARTS
    deviates = any(record.outcome is Outcome.DEVIATION for record in records)
    return Verdict.DECLARED if deviates or declared else Verdict.CONFORMS


def stale(name: str, device: str, deviations: Iterable[Deviation], records: Iterable[Record]) -> list[str]:
    """Return a sentence for each deviation of a full run that names no rule, or under which nothing departs any more.

    `records` are all those of the implementation called `name`. An entry that no record falls under is left alone, and
    so is one whose rule could not be run.
    """
    records = list(records)
    found = []
    for entry in deviations:
        hits = [r for r in records if r.rule == entry.rule and entry.applies(r.dtype, device, torch.__version__)]
        if entry.rule not in catalogue():
            found.append(
                f"{name}: Deviation({entry.rule!r}) names no rule of the catalogue{_instead(entry)}; remove it"
            )
        elif hits and all(r.outcome in (Outcome.PASSED, Outcome.NOT_APPLICABLE) for r in hits):
            found.append(f"{name}: nothing departs from {entry.rule} any more; remove {entry.written}")
    return found


def _instead(entry: Deviation) -> str:
    return " any more" if entry.rule in RETIRED else nearest(entry.rule, catalogue()).rstrip("?.")
