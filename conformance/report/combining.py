"""Result files of many jobs, put together: tox environments, shards, versions of torch.

Across files a record is known by environment, label, implementation, rule and dtype. Files that asked other questions
(another catalogue, tier or seed) are not put together unless that is asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..errors import IncomparableResults
from ..records import Outcome, Record, Verdict, counts
from ..results import Audited, Header, Judged, ResultFile, diagnoses

QUESTIONS = ("catalogue", "tier", "seed")
"""What has to be alike in headers for their records to answer the same questions."""

_WORST_FIRST = (
    Outcome.ERROR, Outcome.FAILED, Outcome.NOT_RUN, Outcome.DEVIATION, Outcome.PASSED, Outcome.NOT_APPLICABLE
)  # fmt: skip


@dataclass(frozen=True)
class Entry:
    """One implementation as one job judged it."""

    header: Header
    audited: Audited

    @property
    def key(self) -> tuple[str, str, str]:
        """Implementation, environment and label."""
        return self.audited.name, self.header.environment, self.header.label or ""

    @property
    def name(self) -> str:
        """Name of the implementation."""
        return self.audited.name

    @property
    def where(self) -> str:
        """Environment and label in few words."""
        return " ".join(filter(None, (self.header.label, self.header.environment)))

    @property
    def conforms(self) -> bool:
        """Whether the verdict is a good one and no deviation is stale."""
        return self.audited.judged.verdict in (Verdict.CONFORMS, Verdict.DECLARED) and not self.audited.judged.stale

    @cached_property
    def families(self) -> Mapping[str, Counter[Outcome]]:
        """How many records of each outcome there are, by family of rules."""
        found: dict[str, Counter[Outcome]] = {}
        for record in self.audited.records:
            found.setdefault(family_of(record), Counter())[record.outcome] += 1
        return found


@dataclass(frozen=True)
class Combined:
    """What some files hold together. Entries are sorted by implementation, then by environment and label."""

    headers: tuple[Header, ...]
    entries: tuple[Entry, ...]

    @cached_property
    def families(self) -> tuple[str, ...]:
        """The families of rules that occur, sorted: records may have arrived in any order."""
        return tuple(sorted({family for entry in self.entries for family in entry.families}))

    @cached_property
    def places(self) -> tuple[str, ...]:
        """The environments and labels that occur."""
        return tuple(dict.fromkeys(entry.where for entry in self.entries))

    @property
    def loaded(self) -> tuple[Entry, ...]:
        """The entries whose target could be loaded."""
        return tuple(entry for entry in self.entries if entry.audited.loaded)

    def as_one_file(self) -> ResultFile:
        """Return the parts of one run as its one file. Raises IncomparableResults for files of several runs."""
        if len(self.headers) != 1:
            raise IncomparableResults(
                f"the files are of {len(self.headers)} runs, and a result file holds one. Combine the parts of one run, or "
                "leave --json out."
            )
        return ResultFile(self.headers[0], tuple(entry.audited for entry in self.entries))

    @cached_property
    def counts(self) -> Counter[Outcome]:
        """How many records there are of each outcome."""
        return Counter(record.outcome for entry in self.entries for record in entry.audited.records)


def family_of(record: Record) -> str:
    """Return the family of the rule of a record."""
    return record.rule.rpartition("-")[0]


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Return the outcome that speaks most against an implementation."""
    return min(outcomes, key=_WORST_FIRST.index)


def combine(files: Sequence[ResultFile], *, mixed: bool = False) -> Combined:
    """Put result files together.

    Raises IncomparableResults where they asked other questions or a part of a run is missing (unless `mixed`), or where
    they hold the same record twice.
    """
    if not mixed:
        for other in files[1:]:
            check_questions(files[0], other)
        _check_parts(files)
    entries: dict[tuple[str, str, str], Entry] = {}
    for file in files:
        for audited in file.audited:
            entry = Entry(file.header, audited)
            known = entries.get(entry.key)
            entries[entry.key] = entry if known is None else replace(known, audited=_joined(known, entry, file.path))
    return Combined(_whole(file.header for file in files), tuple(entries[key] for key in sorted(entries)))


def _whole(headers: Iterable[Header]) -> tuple[Header, ...]:
    """Return one header for the parts of a run, begun when the first of them was."""
    runs: dict[Header, str] = {}
    for header in headers:
        run = replace(header, shard=None, started="") if header.shard else header
        runs[run] = min(runs.get(run, header.started), header.started)
    return tuple(replace(run, started=started) for run, started in runs.items())


def _check_parts(files: Sequence[ResultFile]) -> None:
    """Raise IncomparableResults where some parts of a run are there and others are not."""
    parts: dict[Header, list[str]] = {}
    for file in files:
        if file.header.shard is not None:
            parts.setdefault(replace(file.header, shard=None, started=""), []).append(file.header.shard)
    for there in parts.values():
        number = there[0].partition("/")[2]
        missing = [f"{index}/{number}" for index in range(1, int(number) + 1) if f"{index}/{number}" not in there]
        if missing:
            raise IncomparableResults(
                f"of a run in {number} parts, {', '.join(missing)} is missing: what it judged would be left out silently. "
                "Name its file as well, or pass --mixed to report on the other parts alone."
            )


def _joined(one: Entry, other: Entry, path: str) -> Audited:
    """Return the records of two runs of one implementation in one place, which judged different parts of it."""
    first, second = one.audited, other.audited
    twice = {record.key for record in first.records} & {record.key for record in second.records}
    if twice or not (first.records and second.records):
        raise IncomparableResults(
            f"{path} holds {one.name} in {one.where}, which another of the files holds as well: counted twice, it would "
            "weigh double. Leave one out, or give the runs different labels (--label)."
        )
    records = first.records + second.records
    verdict = max(first.judged.verdict, second.judged.verdict, key=list(Verdict).index)
    stale = first.judged.stale + second.judged.stale
    judged = Judged(one.name, verdict, counts(records), diagnoses(records), stale)
    return replace(first, records=records, judged=judged)


def check_questions(first: ResultFile, other: ResultFile) -> None:
    """Raise IncomparableResults unless two files asked the same questions."""
    for name in QUESTIONS:
        ours, theirs = getattr(first.header, name), getattr(other.header, name)
        if ours != theirs:
            raise IncomparableResults(
                f"{first.path} has {name} {ours!r} and {other.path} has {theirs!r}: they answer different questions. "
                "Run both alike, or pass --mixed to put them side by side all the same."
            )
