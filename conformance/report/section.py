"""What the page tells of one implementation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..capabilities import capabilities
from ..records import Outcome, Record
from ..references import REFERENCES
from ..results import Audited, Described
from .chart import Chart, chart
from .combining import Entry
from .signs import OUTCOMES, VERDICTS, Sign, short_ratio, shortened
from .stories import Story, stories
from .wording import by_reason, by_rule, weight, worst_ratio

_REASON, _FACT = 1_000, 300
"""How many characters of reasons and facts are shown."""


@dataclass(frozen=True)
class Name:
    """The name of an implementation: `module` is what comes before its own, `where` the job that judged it."""

    module: str
    own: str
    where: str

    @property
    def full(self) -> str:
        """The whole name, as in the result file."""
        return self.module + self.own


@dataclass(frozen=True)
class Fact:
    """Something known of an implementation."""

    term: str
    text: str


@dataclass(frozen=True)
class Count:
    """How many records had an outcome."""

    sign: Sign
    number: int


@dataclass(frozen=True)
class Pointer:
    """What failures point to, and how many of them; `number` is 0 where no failure says so."""

    text: str
    number: int


@dataclass(frozen=True)
class Convention:
    """One capability. `origin` says how it came about, and how it differs from the reference; nothing where it does not."""

    name: str
    answer: str
    origin: str


@dataclass(frozen=True)
class Item:
    """A rule in a list, and what there is to say of it."""

    rule: str
    note: str


@dataclass(frozen=True)
class Group:
    """Records with one reason in common."""

    reason: str
    number: int
    items: tuple[Item, ...]


@dataclass(frozen=True)
class Section:
    """One implementation. `anchor` is its place on the page; `reason` says why it could not be loaded."""

    anchor: str
    name: Name
    verdict: Sign
    outcome: str
    loaded: bool
    reason: str
    facts: tuple[Fact, ...]
    counts: tuple[Count, ...]
    pointers: tuple[Pointer, ...]
    failed: int
    stale: tuple[str, ...]
    remarkable: tuple[Convention, ...]
    conventions: tuple[Convention, ...]
    worst: str
    chart: Chart | None
    stories: tuple[Story, ...]
    deviations: tuple[Group, ...]
    not_run: tuple[Group, ...]
    not_applicable: tuple[Group, ...]
    passed: tuple[Item, ...]
    remarks: tuple[Group, ...]

    @property
    def search(self) -> str:
        """What the filter looks at, beside the stories."""
        texts = [self.name.full, self.name.where, *(fact.text for fact in self.facts)]
        return " ".join([*texts, *(pointer.text for pointer in self.pointers)]).lower()


def section(entry: Entry, anchor: str, name: Name, full: int) -> Section:
    """Return the section of one implementation, with the first `full` stories told in full."""
    audited = entry.audited
    records, judged, described = audited.records, audited.judged, audited.described
    told = [record for record in records if record.failing]
    conventions = _conventions(described)
    return Section(
        anchor=anchor,
        name=name,
        verdict=VERDICTS[judged.verdict],
        outcome=str(judged.verdict),
        loaded=audited.loaded,
        reason="" if audited.loaded else _reason(audited),
        facts=_facts(described),
        counts=tuple(
            Count(sign, judged.counts[outcome]) for outcome, sign in OUTCOMES.items() if judged.counts[outcome]
        ),
        pointers=tuple(Pointer(text, sum(text in r.diagnosis for r in told)) for text in judged.diagnosis),
        failed=len(told),
        stale=judged.stale,
        remarkable=tuple(each for each in conventions if each.origin),
        conventions=tuple(each for each in conventions if not each.origin),
        worst=short_ratio(worst_ratio(records)),
        chart=chart(records),
        stories=stories(records, full),
        deviations=_groups(records, Outcome.DEVIATION, _deviating),
        not_run=_groups(records, Outcome.NOT_RUN),
        not_applicable=_groups(records, Outcome.NOT_APPLICABLE),
        passed=_passed(records),
        remarks=_groups([record for record in records if record.message], Outcome.PASSED),
    )


def _reason(audited: Audited) -> str:
    """Return why a target could not be loaded, without its name, which stands beside it."""
    text = " ".join(audited.judged.diagnosis)
    return shortened(text.removeprefix(f"{audited.described.target}: "), _REASON)


def _facts(described: Described) -> tuple[Fact, ...]:
    version = " ".join(filter(None, (described.distribution, described.distribution_version)))
    facts = {
        "held to": described.reference,
        "from": version,
        "target": described.target if described.target != described.name else "",
        "source": described.source,
    }
    return tuple(Fact(term, shortened(text, _FACT)) for term, text in facts.items() if text)


def _conventions(described: Described) -> tuple[Convention, ...]:
    usual = _usual(described.reference)
    return tuple(
        Convention(name, _answer(value), _origin(described, name, _answer(usual.get(name, value))))
        for name, value in described.capabilities.items()
    )


def _usual(reference: str | None) -> Mapping[str, Any]:
    """Return the answers of a reference, as far as this version knows it."""
    known = REFERENCES.get(reference or "")
    return asdict(capabilities(known.defaults, {})) if known else {}


def _origin(described: Described, name: str, usual: str) -> str:
    """Say where a convention comes from, and what the reference answers where that differs."""
    parts = []
    if name in described.inferred:
        parts.append(f"found by experiment: {shortened(described.inferred[name], _REASON)}")
    elif name in described.recognised:
        parts.append("read off its arguments")
    if usual != _answer(described.capabilities[name]):
        parts.append(f"reference: {usual}")
    return "; ".join(parts)


def _answer(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _plain(records: Sequence[Record]) -> Item:
    return Item(records[0].rule, "")


def _groups(
    records: Iterable[Record], outcome: Outcome, item: Callable[[Sequence[Record]], Item] = _plain
) -> tuple[Group, ...]:
    """Return the records of an outcome by reason, with an item for each rule."""
    return tuple(
        Group(shortened(reason, _REASON), len(group), tuple(map(item, by_rule(group).values())))
        for reason, group in by_reason(records, outcome).items()
    )


def _deviating(records: Sequence[Record]) -> Item:
    dtypes = ", ".join(record.dtype for record in records if record.dtype)
    seen = shortened(records[0].seen, _REASON)
    return Item(records[0].rule, f"{dtypes}: {seen}" if dtypes else seen)


def _passed(records: Iterable[Record]) -> tuple[Item, ...]:
    """Return the rules that hold, with the worst ratio, and with the dtypes where it is not all of them."""
    items = []
    for rule, group in by_rule(records).items():
        held = [record for record in group if record.outcome is Outcome.PASSED]
        if held:
            dtypes = "" if len(held) == len(group) else ", ".join(record.dtype for record in held if record.dtype)
            worst = max((record.ratio for record in held), key=weight)
            items.append(Item(rule, " ".join(filter(None, (short_ratio(worst), dtypes and f"in {dtypes}")))))
    return tuple(items)
