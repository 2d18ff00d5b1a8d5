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


SEEN = "  seen"
"""How the line of a story begins that tells what was seen."""


@dataclass(frozen=True)
class Key:
    """A rule in one dtype; `dtype` is None for a rule that does not depend on it."""

    rule: str
    dtype: str | None

    def __str__(self) -> str:
        return f"{self.rule}[{self.dtype}]" if self.dtype else self.rule


@dataclass(frozen=True)
class Picture:
    """A matrix that people would rather look at than read about.

    `kind` is `error` (error divided by what rounding allows; inf where the pattern of NaN or a bit differs), `asked` (1 where
    the mask lets a query attend to a key) or `reached` (1 where that key was seen to change that query's output, nan
    where this cannot be told). `what` names the tensor, `place` the indices of its leading axes. `rows` holds one row
    of numbers as text each, from `first` (row, column) on, of a matrix of `size`; `worst` is the element that was
    complained of.
    """

    kind: str
    what: str
    place: tuple[int, ...]
    axes: tuple[str, str]
    size: tuple[int, int]
    first: tuple[int, int]
    rows: tuple[str, ...]
    worst: tuple[int, int] | None = None

    @property
    def numbers(self) -> tuple[tuple[float, ...], ...]:
        """The rows as numbers."""
        return tuple(tuple(map(float, row.split())) for row in self.rows)


@dataclass(frozen=True)
class Record:
    """What one rule said of one implementation in one dtype.

    `case` is the first failing or the worst case and None if the rule passed; `message` is a story of several lines
    for a failure and one line otherwise; `ratio` is the largest error divided by its bound (None where nothing was
    measured, above 1 means too large); `diagnosis` names known faults, best first; `seconds` is wall time; `pictures`
    belong to a failure.
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
    pictures: tuple[Picture, ...] = ()

    @property
    def key(self) -> Key:
        """The rule and dtype."""
        return Key(self.rule, self.dtype)

    @property
    def failing(self) -> bool:
        """Whether the rule was tried and does not hold."""
        return self.outcome in (Outcome.FAILED, Outcome.ERROR)

    @property
    def bad(self) -> bool:
        """Whether the record speaks against the implementation."""
        return self.failing or self.outcome is Outcome.NOT_RUN

    @property
    def seen(self) -> str:
        """What was seen, in one line."""
        lines = self.message.splitlines() or [str(self.outcome)]
        return next((line[len(SEEN) :].strip() for line in lines if line.startswith(SEEN)), lines[0])


def counts(records: Iterable[Record]) -> dict[str, int]:
    """Return how many records had each outcome, every outcome listed."""
    result = {str(outcome): 0 for outcome in Outcome}
    for record in records:
        result[str(record.outcome)] += 1
    return result
