"""Error against bound by dtype: every measured ratio as a stroke on a logarithmic axis, with a line at 1."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..records import Outcome, Record
from .signs import OUTCOMES, short_ratio
from .wording import weight

WIDTH, LEFT, RIGHT, EDGE = 420, 48, 12, 26
"""Width of the drawing, room for the dtypes, room at its end, and the room there for what is not finite."""

TOP, STEP, STROKE = 24, 30, 7
"""Where the first line is, how far lines are apart, half the height of a stroke."""

_LEAST, _MOST_TICKS = -4, 6


@dataclass(frozen=True)
class Tick:
    """A label of the axis and its place."""

    x: float
    text: str


@dataclass(frozen=True)
class Strokes:
    """The strokes of one colour on one line, as a path."""

    tone: str
    path: str


@dataclass(frozen=True)
class Line:
    """One dtype: its strokes, and the same in numbers."""

    dtype: str
    y: int
    strokes: tuple[Strokes, ...]
    measured: int
    above: int
    worst: str
    rule: str


@dataclass(frozen=True)
class Chart:
    """The drawing; `one` is where error and bound are equal, `named` the rule with the worst ratio and its place."""

    height: int
    one: float
    ticks: tuple[Tick, ...]
    lines: tuple[Line, ...]
    named: Tick
    named_y: int
    named_left: bool
    label: str


@dataclass(frozen=True)
class _Axis:
    low: int
    high: int
    edge: bool

    def x(self, ratio: float) -> float:
        end = WIDTH - RIGHT
        if not math.isfinite(ratio):
            return float(end)
        power = min(max(math.log10(ratio) if ratio > 0 else self.low, self.low), self.high)
        room = end - (EDGE if self.edge else 0) - LEFT
        return round(LEFT + room * (power - self.low) / (self.high - self.low), 1)

    def ticks(self) -> tuple[Tick, ...]:
        step = max(1, math.ceil((self.high - self.low) / _MOST_TICKS))
        powers = [power for power in range(self.low, self.high + 1) if power % step == 0]
        ticks = tuple(Tick(self.x(10.0**power), self._text(power)) for power in powers)
        return ticks + ((Tick(self.x(math.inf), "∞"),) if self.edge else ())

    def _text(self, power: int) -> str:
        """Return the label of a power of ten; what is smaller than the least of them stands there as well."""
        return f"{'≤' if power == _LEAST else ''}{short_ratio(10.0**power)}"


def chart(records: Iterable[Record]) -> Chart | None:
    """Return the drawing for the records in which something was measured, but for those declared to depart; None for
    none."""
    measured = [record for record in records if record.ratio is not None and record.outcome is not Outcome.DEVIATION]
    if not measured:
        return None
    axis = _axis([record.ratio for record in measured if record.ratio is not None])
    dtypes = tuple(dict.fromkeys(record.dtype or "any" for record in measured))
    lines = tuple(
        _line(dtype, TOP + STEP * place, [r for r in measured if (r.dtype or "any") == dtype], axis)
        for place, dtype in enumerate(dtypes)
    )
    worst = max(measured, key=lambda record: weight(record.ratio))
    x = axis.x(worst.ratio or 0.0)
    return Chart(
        height=TOP + STEP * len(lines) - 10,
        one=axis.x(1.0),
        ticks=axis.ticks(),
        lines=lines,
        named=Tick(x, f"{worst.key} {short_ratio(worst.ratio)}"),
        named_y=TOP + STEP * dtypes.index(worst.dtype or "any") - STROKE - 3,
        named_left=x > WIDTH / 2,
        label=f"Error divided by bound, by dtype, on a logarithmic axis; the worst is {worst.key} with "
        f"{short_ratio(worst.ratio)}. The table beside it holds the numbers.",
    )


def _axis(ratios: Sequence[float]) -> _Axis:
    powers = [math.log10(ratio) for ratio in ratios if ratio > 0 and math.isfinite(ratio)]
    low = max(_LEAST, min(-1, math.floor(min(powers, default=-1))))
    return _Axis(low, max(1, math.ceil(max(powers, default=1))), any(not math.isfinite(ratio) for ratio in ratios))


def _line(dtype: str, y: int, records: Sequence[Record], axis: _Axis) -> Line:
    worst = max(records, key=lambda record: weight(record.ratio))
    beyond = [record for record in records if record.ratio is not None and not record.ratio <= 1]
    by_tone: dict[str, set[float]] = {}
    for record in records:
        by_tone.setdefault(_tone(record), set()).add(axis.x(record.ratio or 0.0))
    strokes = tuple(
        Strokes(tone, "".join(f"M{x:g} {y - STROKE}v{2 * STROKE}" for x in sorted(places)))
        for tone, places in by_tone.items()
    )
    return Line(dtype, y, strokes, len(records), len(beyond), short_ratio(worst.ratio), worst.rule)


def _tone(record: Record) -> str:
    return "bad" if record.outcome is Outcome.ERROR else OUTCOMES[record.outcome].tone
