"""What one rule said of one implementation, and the verdict over all of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum


class Outcome(str, Enum):
    """What became of one rule."""

    PASSED = "passed"
    FAILED = "failed"
    ERROR = "error"
    NOT_APPLICABLE = "not-applicable"
    NOT_RUN = "not-run"
    DEVIATION = "deviation"

    def __str__(self) -> str:
        return self.value


class Verdict(str, Enum):
    """What became of one implementation."""

    CONFORMS = "conforms"
    DECLARED = "conforms-declared"
    DEPARTS = "departs"
    BROKEN = "broken"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Key:
    """A rule in one dtype; `dtype` is None for a rule that does not depend on it."""

    rule: str
    dtype: str | None

    def __str__(self) -> str:
        return f"{self.rule}[{self.dtype}]" if self.dtype else self.rule


@dataclass(frozen=True)
class Record:
    """What one rule said of one implementation in one dtype.

    `case` is the first failing or the worst case and None if the rule passed; `message` is a story of several lines
    for a failure and one line otherwise; `ratio` is the largest error divided by its bound (None where nothing was
    measured, above 1 means too large); `diagnosis` names known faults, best first; `seconds` is wall time.
    """

    implementation: str
    rule: str
    dtype: str | None
    case: str | None
    outcome: Outcome
    message: str
    ratio: float | None
    diagnosis: tuple[str, ...]
    seconds: float

    @property
    def key(self) -> Key:
        """The rule and dtype."""
        return Key(self.rule, self.dtype)

    @property
    def bad(self) -> bool:
        """Whether the record speaks against the implementation."""
        return self.outcome in (Outcome.FAILED, Outcome.ERROR, Outcome.NOT_RUN)


def counts(records: Iterable[Record]) -> dict[str, int]:
    """Return how many records had each outcome, every outcome listed."""
    result = {str(outcome): 0 for outcome in Outcome}
    for record in records:
        result[str(record.outcome)] += 1
    return result
