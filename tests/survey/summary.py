"""What the page needs of a survey's result files, small enough to be kept: one line of JSON for each implementation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attention_conformance.records import Outcome, Record
from attention_conformance.results import Audited, Header, read
from attention_conformance.rulebook import catalogue

SUMMARY = Path(__file__).with_name("summary.jsonl")
ROOT = Path(__file__).parents[2]

_PASTE = "  to reproduce, paste:\n"


@dataclass(frozen=True)
class Failing:
    """A rule that speaks against an implementation: in which dtypes, what was seen in the first, what it points to."""

    rule: str
    dtypes: tuple[str, ...]
    seen: str
    diagnosis: tuple[str, ...]


@dataclass(frozen=True)
class Declared:
    """A rule under a declared deviation, and its reason."""

    rule: str
    reason: str


@dataclass(frozen=True)
class Summary:
    """One implementation. `families` holds the number of records by outcome for each family of rules, `script` a
    reproduction of one failing rule, `about`; the rest is as in a result file."""

    target: str
    package: str
    version: str
    torch: str
    python: str
    date: str
    suite: str
    catalogue: str
    reference: str | None
    capabilities: dict[str, Any]
    recognised: tuple[str, ...]
    inferred: tuple[str, ...]
    verdict: str
    worst: float | None
    families: dict[str, dict[str, int]]
    failing: tuple[Failing, ...]
    declared: tuple[Declared, ...]
    script: tuple[str, ...]
    about: str


def summarise(header: Header, audited: Audited) -> Summary:
    """Return what is kept of one implementation."""
    described, records = audited.described, audited.records
    ratios = [record.ratio for record in records if record.outcome is Outcome.PASSED and record.ratio is not None]
    about, script = _shortest(records)
    return Summary(
        described.target, described.distribution or "", described.distribution_version or "", header.torch, header.python,
        header.started[:10], header.version, header.catalogue, described.reference, dict(described.capabilities),
        described.recognised, tuple(described.inferred),
        str(audited.judged.verdict), float(f"{max(ratios):.2g}") if ratios else None, _families(records),
        tuple(_failing(records)) or _unloaded(audited), tuple(_declared(records)), script, about,
    )  # fmt: skip


def _families(records: Iterable[Record]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for record in records:
        own = found.setdefault(record.rule.split("-")[0], {})
        own[str(record.outcome)] = own.get(str(record.outcome), 0) + 1
    return dict(sorted(found.items()))


def _failing(records: Iterable[Record]) -> Iterable[Failing]:
    by_rule: dict[str, list[Record]] = {}
    for record in records:
        if record.failing:
            by_rule.setdefault(record.rule, []).append(record)
    for rule, own in sorted(by_rule.items()):
        dtypes = tuple(record.dtype for record in own if record.dtype)
        yield Failing(rule, dtypes, anonymous(own[0].seen), own[0].diagnosis)


def _unloaded(audited: Audited) -> tuple[Failing, ...]:
    return () if audited.loaded else (Failing("", (), anonymous(audited.judged.diagnosis[0]), ()),)


def _declared(records: Iterable[Record]) -> Iterable[Declared]:
    seen: dict[str, Declared] = {}
    for record in records:
        if record.outcome is Outcome.DEVIATION and record.rule in catalogue():
            reason = record.message.partition(f"\n{catalogue()[record.rule].sentence}")[0]
            seen.setdefault(record.rule, Declared(record.rule, " ".join(reason.split())))
    return seen.values()


def _shortest(records: Iterable[Record]) -> tuple[str, tuple[str, ...]]:
    """Return the shortest script that shows a failure, and the key of the record that it is from."""
    scripts = []
    for record in records:
        if record.failing and _PASTE in record.message:
            text = anonymous(record.message.split(_PASTE, 1)[1])
            scripts.append((str(record.key), tuple(line.removeprefix("    ") for line in text.splitlines())))
    return min(scripts, key=lambda each: sum(map(len, each[1])), default=("", ()))


def anonymous(text: str) -> str:
    """Return a text whose places in this checkout are relative to it."""
    return text.replace(f"{ROOT}/", "")


# The file


def load(path: Path = SUMMARY) -> list[Summary]:
    """Return the summaries of a file, none where there is no file."""
    if not path.exists():
        return []
    return [_summary(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def _summary(line: dict[str, Any]) -> Summary:
    failing = tuple(Failing(**_tuples(each)) for each in line["failing"])
    declared = tuple(Declared(**each) for each in line["declared"])
    return Summary(**{**_tuples(line), "failing": failing, "declared": declared})


def _tuples(line: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in line.items()}


def dump(summaries: Iterable[Summary]) -> str:
    """Return the text of the file."""
    return "".join(json.dumps(asdict(each), ensure_ascii=True) + "\n" for each in summaries)


def merge(kept: Iterable[Summary], files: Sequence[Path], targets: Iterable[str]) -> list[Summary]:
    """Put the implementations of result files over those that are kept, and drop what is no target any more."""
    merged = {each.target: each for each in kept}
    for path in files:
        file = read(path)
        merged |= {each.described.target: summarise(file.header, each) for each in file.audited}
    order = list(dict.fromkeys(targets))
    return [merged[target] for target in order if target in merged]
