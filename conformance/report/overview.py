"""What stands first on the page: the result in a sentence, what ran where, the matrix, then the sections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..records import Outcome, Verdict
from ..results import Header
from .combining import Combined, Entry, worst
from .section import Name, Section, section
from .signs import FINE, OUTCOMES, VERDICTS, Sign, counted
from .stories import depth


@dataclass(frozen=True)
class Part:
    """A sign and how often."""

    mark: str
    number: int


@dataclass(frozen=True)
class Cell:
    """One implementation and one family: what is not fine, in signs and in words, and where it is told."""

    family: str
    tone: str
    outcomes: tuple[str, ...]
    parts: tuple[Part, ...]
    words: str
    href: str


@dataclass(frozen=True)
class Row:
    """One implementation: its section, and a cell for each family."""

    section: Section
    cells: tuple[Cell, ...]

    @property
    def tokens(self) -> str:
        """What the filter asks for: families with outcomes that occur."""
        return " ".join(f"{cell.family}:{word}" for cell in self.cells for word in cell.outcomes)


@dataclass(frozen=True)
class Run:
    """Runs of the same suite in the same place."""

    header: Header
    number: int
    started: str


@dataclass(frozen=True)
class Choice:
    """Something that can be filtered by."""

    value: str
    sign: Sign
    number: int


@dataclass(frozen=True)
class Page:
    """Everything the page shows."""

    sentence: str
    details: str
    runs: tuple[Run, ...]
    families: tuple[str, ...]
    rows: tuple[Row, ...]
    verdicts: tuple[Choice, ...]
    outcomes: tuple[Choice, ...]
    legend: tuple[Sign, ...]


def overview(combined: Combined) -> Page:
    """Return what the page shows of some results."""
    full = depth(combined)
    common = _common(combined.headers)
    rows = tuple(
        _row(entry, f"i{place}", common, combined.families, full) for place, entry in enumerate(combined.entries)
    )
    verdicts = Counter(entry.audited.judged.verdict for entry in combined.entries)
    counts = combined.counts
    return Page(
        sentence=_sentence(combined),
        details=_details(combined),
        runs=_runs(combined.headers),
        families=combined.families,
        rows=rows,
        verdicts=tuple(Choice(str(v), VERDICTS[v], verdicts[v]) for v in Verdict if verdicts[v]),
        outcomes=tuple(Choice(str(o), OUTCOMES[o], counts[o]) for o in Outcome if counts[o] and o not in FINE),
        legend=tuple(OUTCOMES.values()),
    )


# The result


def _sentence(combined: Combined) -> str:
    total, unloaded = len(combined.entries), len(combined.entries) - len(combined.loaded)
    if not total:
        return "Nothing was judged."
    verdicts = Counter(entry.audited.judged.verdict for entry in combined.entries)
    fine = sum(entry.conforms for entry in combined.entries)
    stale = verdicts[Verdict.CONFORMS] + verdicts[Verdict.DECLARED] - fine
    parts = (
        (verdicts[Verdict.DEPARTS], "departs", "depart"),
        (stale, "has a stale deviation", "have stale deviations"),
        (verdicts[Verdict.BROKEN] - unloaded, "is broken", "are broken"),
        (unloaded, "could not be loaded", "could not be loaded"),
    )
    told = [f"{number} {one if number == 1 else many}" for number, one, many in parts if number]
    first = f"{fine} of {counted(total, _noun(combined))} {'conforms' if 1 in (fine, total) else 'conform'}"
    return f"{'; '.join([first, ', '.join(told)]) if told else first}."


def _noun(combined: Combined) -> str:
    """Return what is counted: an implementation that was judged in several places counts in each of them."""
    return "implementation" if len({entry.name for entry in combined.entries}) == len(combined.entries) else "result"


def _details(combined: Combined) -> str:
    """Return how many records had which outcome."""
    parts = [sign.count(combined.counts[outcome]) for outcome, sign in OUTCOMES.items() if combined.counts[outcome]]
    text = f"{counted(combined.counts.total(), 'record')}: {', '.join(parts)}." if parts else "There are no records."
    if _noun(combined) == "implementation":
        return text
    names = len({entry.name for entry in combined.entries})
    return f"{counted(names, 'implementation')} in {counted(len(combined.places), 'place')}; {text}"


def _runs(headers: Sequence[Header]) -> tuple[Run, ...]:
    alike: dict[Header, list[str]] = {}
    for header in headers:
        alike.setdefault(replace(header, started=""), []).append(header.started)
    return tuple(Run(header, len(started), _span(sorted(started))) for header, started in alike.items())


def _span(started: Sequence[str]) -> str:
    first, last = (text.replace("T", " ").replace("+00:00", " UTC") for text in (started[0], started[-1]))
    return first if first == last else f"{first} to {last}"


# The matrix


def _row(entry: Entry, anchor: str, common: frozenset[str], families: Sequence[str], full: int) -> Row:
    made = section(entry, anchor, _name(entry, common), full)
    cells = tuple(_cell(family, entry.families.get(family, Counter()), made) for family in families)
    return Row(made, cells)


def _cell(family: str, found: Counter[Outcome], made: Section) -> Cell:
    if not found:
        return Cell(family, "none", (), (), "nothing judged", "")
    unfine = [outcome for outcome in OUTCOMES if found[outcome] and outcome not in FINE]
    words = ", ".join(sign.count(found[outcome]) for outcome, sign in OUTCOMES.items() if found[outcome])
    parts = tuple(Part(OUTCOMES[outcome].mark, found[outcome]) for outcome in unfine)
    tone = OUTCOMES[worst(found)].tone
    return Cell(family, tone, tuple(map(str, unfine)), parts, words, _href(unfine, family, made))


def _href(unfine: Sequence[Outcome], family: str, made: Section) -> str:
    """Return the place where what is not fine is told: the first story of the family, or a list."""
    story = next((story for story in made.stories if story.family == family), None)
    if story is not None:
        return f"#{made.anchor}-{story.rule}"
    return f"#{made.anchor}-{unfine[0]}" if unfine else ""


def _name(entry: Entry, common: frozenset[str]) -> Name:
    """Return a name in parts. The job is named by its label and by what its environment does not share with others."""
    cut = max(entry.name.rfind(":"), -1) + 1
    words = [word for word in entry.header.environment.split("-") if word not in common]
    where = " ".join(filter(None, (entry.header.label, *words)))
    return Name(entry.name[:cut], entry.name[cut:], where)


def _common(headers: Sequence[Header]) -> frozenset[str]:
    environments = [frozenset(header.environment.split("-")) for header in headers]
    return frozenset.intersection(*environments) if environments else frozenset()
