"""Two runs compared, record by record: what was right and is not any more, and what came right.

The environments may differ, as that is what is mostly asked: another version of torch, another commit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..records import Key, Outcome, Record
from ..results import Header, ResultFile
from .combining import check_questions

Place = tuple[str, Key]
"""An implementation, and a rule in a dtype."""

MISSING = "missing"
"""What a record became that is not there any more."""


@dataclass(frozen=True)
class Change:
    """One record that changed. `before` and `after` are outcomes, None where there was no record, `missing` where
    there is none any more; `seen` is what the new record says, in one line."""

    implementation: str
    key: Key
    before: str | None
    after: str
    seen: str

    @property
    def line(self) -> str:
        """The change in one line."""
        seen = f": {self.seen}" if self.seen else ""
        return f"{self.implementation} {self.key}: {self.before or 'new'} -> {self.after}{seen}"


@dataclass(frozen=True)
class Changes:
    """What differs between two runs. Regressions passed before and do not now; mended records are the other way round;
    `new` records, of which there was none before, did not pass."""

    old: Header
    new_header: Header
    regressions: tuple[Change, ...]
    mended: tuple[Change, ...]
    new: tuple[Change, ...]
    compared: int


def compare(old: ResultFile, new: ResultFile, *, mixed: bool = False) -> Changes:
    """Return what changed from one file to another.

    Raises IncomparableResults where they asked other questions, unless `mixed`.
    """
    if not mixed:
        check_questions(old, new)
    before, after = _records(old), _records(new)
    changes = list(_changes(before, after))
    regressions = [change for change in changes if change.before == "passed"]
    mended = [change for change in changes if change.before is not None and change.after == "passed"]
    return Changes(
        old.header, new.header, tuple(regressions), tuple(mended),
        tuple(change for change in changes if change.before is None), len(before),
    )  # fmt: skip


def _records(file: ResultFile) -> Mapping[Place, Record]:
    return {(audited.name, record.key): record for audited in file.audited for record in audited.records}


def _changes(before: Mapping[Place, Record], after: Mapping[Place, Record]) -> Iterator[Change]:
    """Yield what passed on one side only, and what is new and speaks against its implementation."""
    for place in {**before, **after}:
        old, new = before.get(place), after.get(place)
        if _passed(old) != _passed(new) if old else new is not None and new.bad:
            seen = "" if new is None or _passed(new) else new.seen
            yield Change(*place, str(old.outcome) if old else None, str(new.outcome) if new else MISSING, seen)


def _passed(record: Record | None) -> bool:
    return record is not None and record.outcome is Outcome.PASSED
