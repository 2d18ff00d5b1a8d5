"""A published case judged: it agrees, it does not map, or it disagrees, and with which known difference it would agree."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from attention_conformance.oracle.comparing import Departure, require_near

from .mapping import STANDARD, DoesNotMap, Reading, compare
from .published import Published

DIFFERENCES: Mapping[str, tuple[str, str]] = {
    "An input of three axes is read as (B, H, L, D) in memory, without the transposition that it needs.": (
        "flat", "reshaped",
    ),
    "Grouped heads are tiled: query head h uses key head h mod n in place of a run of consecutive ones.": (
        "groups", "tiled",
    ),
    "The soft cap comes after the mask, so that a hidden key keeps weight.": ("softcap", "after mask"),
    "Modes 1 and 2 of the score output are numbered the other way round.": ("modes", "exchanged"),
}  # fmt: skip
"""What published numbers of older releases were found to come from, and the reading under which they agree."""


@dataclass(frozen=True)
class Disagreement:
    """A case that disagrees: the first output that does, in how many times its bound, and the differences that explain it."""

    case: str
    output: str
    ratio: float
    differences: tuple[str, ...]


@dataclass
class Worst:
    """The comparison nearest to its bound in one dtype."""

    ratio: float = 0.0
    case: str = ""
    output: str = ""
    comparisons: int = 0


@dataclass
class Figures:
    """What became of the cases of one release."""

    release: str
    source: str
    cases: int = 0
    agreeing: int = 0
    unmapped: dict[str, str] = field(default_factory=dict)
    disagreeing: list[Disagreement] = field(default_factory=list)
    worst: dict[str, Worst] = field(default_factory=dict)

    @property
    def unexplained(self) -> list[str]:
        """The cases that disagree for no known reason."""
        return [each.case for each in self.disagreeing if not each.differences]

    def line(self) -> dict[str, Any]:
        """Return the figures as they are written, ratios to three digits."""
        line = asdict(self)
        for each in (*line["disagreeing"], *line["worst"].values()):
            each["ratio"] = float(f"{each['ratio']:.3g}")
        return line


def judge(release: str, source: str, cases: Iterable[Published]) -> Figures:
    """Judge every case of a release."""
    figures = Figures(release, source)
    for case in sorted(cases, key=lambda each: each.name):
        figures.cases += 1
        try:
            departure, ratios = _compared(case, STANDARD)
        except DoesNotMap as problem:
            figures.unmapped[case.name] = str(problem)
            continue
        if departure is None:
            figures.agreeing += 1
            _note(figures, case.name, ratios)
        else:
            figures.disagreeing.append(Disagreement(case.name, *departure, explained(case)))
    return figures


def explained(case: Published) -> tuple[str, ...]:
    """Return the fewest known differences under which every number of the case agrees, none if none explains it."""
    for count in range(1, len(DIFFERENCES) + 1):
        for differences in itertools.combinations(DIFFERENCES, count):
            departure, _ = _compared(
                case, replace(STANDARD, **dict(DIFFERENCES[difference] for difference in differences))
            )
            if departure is None:
                return differences
    return ()


Ratios = list[tuple[str, str, float]]


def _compared(case: Published, reading: Reading) -> tuple[tuple[str, float] | None, Ratios]:
    """Return the first output that disagrees, with its ratio, or None; and (dtype, output, ratio) of those before."""
    ratios: Ratios = []
    for each in compare(case, reading):
        try:
            ratios.append((each.dtype, each.what, require_near(what=each.what, actual=each.actual, near=each.near)))
        except Departure as departure:
            ratio = departure.ratio
            return (each.what, float("inf") if ratio is None else ratio), ratios
    return None, ratios


def _note(figures: Figures, case: str, ratios: Ratios) -> None:
    for dtype, output, ratio in ratios:
        worst = figures.worst.setdefault(dtype, Worst())
        worst.comparisons += 1
        if ratio > worst.ratio:
            worst.ratio, worst.case, worst.output = ratio, case, output
