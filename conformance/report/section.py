"""What the page tells of one implementation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..records import Outcome, Record
from ..results import Described
from .chart import Chart, chart
from .combining import Entry
from .signs import OUTCOMES, VERDICTS, Sign, ratio_text, shortened, weight
from .stories import TOLD, Story, by_rule, stories

_REASON = 1_000


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
    """One capability. `origin` says how it came about where it was not declared or taken from the reference."""

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
    of = _by_outcome(records)
    told = [record for outcome in TOLD for record in of[outcome]]
    conventions = _conventions(described)
    return Section(
        anchor=anchor,
        name=name,
        verdict=VERDICTS[judged.verdict],
        outcome=str(judged.verdict),
        loaded=audited.loaded,
        reason="" if audited.loaded else shortened(" ".join(judged.diagnosis), _REASON),
        facts=_facts(described),
        counts=tuple(Count(OUTCOMES[outcome], len(of[outcome])) for outcome in OUTCOMES if of[outcome]),
        pointers=tuple(Pointer(text, sum(text in r.diagnosis for r in told)) for text in judged.diagnosis),
        failed=len(told),
        stale=judged.stale,
        remarkable=tuple(each for each in conventions if each.origin),
        conventions=tuple(each for each in conventions if not each.origin),
        chart=chart(records),
        stories=stories(records, full),
        deviations=_deviations(of[Outcome.DEVIATION]),
        not_run=_groups(of[Outcome.NOT_RUN]),
        not_applicable=_groups(of[Outcome.NOT_APPLICABLE]),
        passed=_passed(records),
        remarks=_groups([record for record in of[Outcome.PASSED] if record.message]),
    )


def _by_outcome(records: Iterable[Record]) -> Mapping[Outcome, list[Record]]:
    found: dict[Outcome, list[Record]] = {outcome: [] for outcome in Outcome}
    for record in records:
        found[record.outcome].append(record)
    return found


def _facts(described: Described) -> tuple[Fact, ...]:
    version = " ".join(filter(None, (described.distribution, described.distribution_version)))
    facts = {
        "held to": described.reference,
        "from": version,
        "target": described.target if described.target != described.name else "",
        "source": described.source,
    }
    return tuple(Fact(term, text) for term, text in facts.items() if text)


def _conventions(described: Described) -> tuple[Convention, ...]:
    def origin(name: str) -> str:
        if name in described.inferred:
            return f"found by experiment: {shortened(described.inferred[name], _REASON)}"
        return "read off its arguments" if name in described.recognised else ""

    return tuple(Convention(name, _answer(value), origin(name)) for name, value in described.capabilities.items())


def _answer(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _groups(records: Iterable[Record]) -> tuple[Group, ...]:
    """Return records by the first line of their message, the most frequent first."""
    grouped: dict[str, list[Record]] = {}
    for record in records:
        reason = record.message.splitlines()[0] if record.message else "for no known reason"
        grouped.setdefault(reason, []).append(record)
    groups = [
        Group(shortened(reason, _REASON), len(group), tuple(Item(rule, "") for rule in by_rule(group)))
        for reason, group in grouped.items()
    ]
    return tuple(sorted(groups, key=lambda group: -group.number))


def _deviations(records: Iterable[Record]) -> tuple[Group, ...]:
    """Return deviations by their reason, with what was seen of each rule."""
    grouped: dict[str, list[Record]] = {}
    for record in records:
        grouped.setdefault(record.message.split("\n")[0], []).append(record)
    return tuple(
        Group(shortened(reason, _REASON), len(group), tuple(_deviating(rule) for rule in by_rule(group).values()))
        for reason, group in grouped.items()
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
            items.append(Item(rule, " ".join(filter(None, (ratio_text(worst), dtypes and f"in {dtypes}")))))
    return tuple(items)
