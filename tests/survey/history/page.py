"""Make `docs/torch-history.md` from the kept results: `python -m tests.survey.history.page`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from attention_conformance.records import Outcome, Record
from attention_conformance.results import Audited
from attention_conformance.rulebook import catalogue
from tests.survey.history.run import BASE, FOLDER, Version, load
from tests.survey.markdown import code, counted, table

PAGE = Path(__file__).parents[3] / "docs" / "torch-history.md"
SHORT = 160
"""Characters of what was seen that stand in a cell."""

_INTRODUCTION = f"""\
# torch's own attention through its versions

Made by `tox -m history`; do not edit.

The same audit under several versions of torch. All of them are judged with what is declared of torch {BASE}, so that a
change of behaviour shows as a rule that holds under one version and not under another. Departures that an adapter
declares count as departures here. Rules that came out alike everywhere are left out.
"""


def versions() -> list[Version]:
    """Return all kept results, oldest first."""
    found = [load(path) for path in FOLDER.glob("torch-*.jsonl.gz")]
    return sorted(found, key=lambda each: [int(part) for part in each.torch.split(".")])


def page(kept: Sequence[Version]) -> str:
    """Return the page."""
    targets = sorted({target for version in kept for target in version.audited})
    parts = [_INTRODUCTION, _verdicts(kept, targets)]
    for target in targets:
        parts += _changes(target, kept)
    return "\n".join(parts)


def _verdicts(kept: Sequence[Version], targets: Sequence[str]) -> str:
    head = ("implementation", *(version.torch for version in kept))
    rows = [(code(target), *(_verdict(version.audited.get(target)) for version in kept)) for target in targets]
    told = "; ".join(
        f"torch {each.header['torch']} with Python {each.header['python']} on {each.header['started'][:10]}"
        for each in kept
    )
    return f"## Verdicts\n\nJudged: {told}.\n\n" + table(head, rows)


def _verdict(audited: Audited | None) -> str:
    if audited is None:
        return "not judged"
    bad = sum(record.outcome in _DEPARTS for record in audited.records)
    return f"{audited.judged.verdict}" + (f", {bad} records depart" if bad else "")


_DEPARTS = (Outcome.FAILED, Outcome.ERROR, Outcome.DEVIATION)
_WORDS = {
    Outcome.PASSED: "holds", Outcome.FAILED: "departs", Outcome.DEVIATION: "departs", Outcome.ERROR: "raises",
    Outcome.NOT_APPLICABLE: "does not apply", Outcome.NOT_RUN: "not run",
}  # fmt: skip


def _changes(target: str, kept: Sequence[Version]) -> Iterator[str]:
    """Yield what changed between versions in one implementation."""
    states = {version.torch: _states(version.audited.get(target)) for version in kept}
    rules = sorted({rule for own in states.values() for rule in own})
    differing = [rule for rule in rules if len({_key(own.get(rule, [])) for own in states.values()} - {_UNKNOWN}) > 1]
    yield f"## {code(target)}\n"
    for (old, before), (new, after) in pairwise(states.items()):
        yield f"From {old} to {new}:\n"
        yield from (f"- {text}." for text in _told(old, before, new, after))
        yield ""
    if differing:
        rows = [(rule, _sentence(rule), *(_cell(own.get(rule, [])) for own in states.values())) for rule in differing]
        yield table(("rule", "says", *states), rows)


def _sentence(rule: str) -> str:
    return catalogue()[rule].sentence if rule in catalogue() else ""


States = dict[str, list[Record]]
"""The records of each rule."""


def _states(audited: Audited | None) -> States:
    """Return the records of each rule."""
    found: States = {}
    for record in audited.records if audited is not None else ():
        found.setdefault(record.rule, []).append(record)
    return found


def _key(records: Sequence[Record]) -> tuple[tuple[str, str], ...]:
    """Return how a rule came out in each dtype; nothing is known of one that was not run."""
    if any(record.outcome is Outcome.NOT_RUN for record in records):
        return _UNKNOWN
    return tuple(sorted((record.dtype or "", _WORDS[record.outcome]) for record in records))


_UNKNOWN: tuple[tuple[str, str], ...] = ()


def _told(old: str, before: States, new: str, after: States) -> Iterator[str]:
    """Yield sentences on the rules that began or stopped to hold, those that depart alike together."""
    told = 0
    for version, other, where in ((old, after, before), (new, before, after)):
        causes: dict[str, list[Record]] = {}
        for rule, records in where.items():
            if _departs(records) and _holds(other.get(rule, [])):
                causes.setdefault(_cause(records), []).extend(records)
        for cause, records in causes.items():
            told += 1
            rules = sorted({record.rule for record in records})
            end = "holds" if len(rules) == 1 else "hold"
            holding = new if version == old else old
            yield f"{', '.join(rules)} {end} under {holding}; under {version} {cause.format(_largest(records))}"
        idle = [rule for rule, records in where.items() if _key(records) == _UNKNOWN and _holds(other.get(rule, []))]
        if idle:
            told += 1
            yield f"under {version} {counted(len(idle), 'rule')} could not be run, because what they rest on departs there"
    if not told:
        yield "no rule began or stopped to hold"


def _cause(records: Sequence[Record]) -> str:
    """Say in words how a rule departs, alike for rules that depart for one reason; `{}` stands for the largest error."""
    bad = [record for record in records if record.outcome in _DEPARTS]
    fits = _declaration(bad[0])
    if fits is not None:
        return f"the answer is {fits}".replace("{", "{{").replace("}", "}}")
    seen = bad[0].seen
    if bad[0].outcome is Outcome.ERROR:
        return seen.replace("{", "{{").replace("}", "}}")
    if "nan " in seen:
        return "there is NaN"
    if {record.dtype for record in bad} <= {"bf16", "fp16"}:
        return "it rounds more coarsely in 16 bits than the declared precision, with errors up to {} times the bound"
    return "the error is up to {} times the bound"


def _largest(records: Sequence[Record]) -> str:
    return f"{max((record.ratio for record in records if record.ratio is not None), default=float('inf')):.2g}"


def _declaration(record: Record) -> str | None:
    """Return the declaration that would fit, None where none is known."""
    return next((text.removeprefix("declare ") for text in record.diagnosis if text.startswith("declare ")), None)


def _departs(records: Sequence[Record]) -> bool:
    return any(record.outcome in _DEPARTS for record in records)


def _holds(records: Sequence[Record]) -> bool:
    return bool(records) and not any(record.outcome in (*_DEPARTS, Outcome.NOT_RUN) for record in records)


def _cell(records: Sequence[Record]) -> str:
    """Return how a rule came out, in which dtypes where they differ, and what was seen."""
    if not records:
        return "not judged"
    by_word: dict[str, list[Record]] = {}
    for record in records:
        by_word.setdefault(_WORDS[record.outcome], []).append(record)
    told = []
    for word, own in by_word.items():
        dtypes = f" in {', '.join(str(each.dtype) for each in own)}" if len(by_word) > 1 else ""
        told.append(f"{word}{dtypes}{_why(own[0])}")
    return "; ".join(told)


def _why(record: Record) -> str:
    if record.outcome not in _DEPARTS:
        return ""
    fits = _declaration(record)
    if fits is not None:
        return f": {fits} fits"
    seen = record.seen
    return f": {seen if len(seen) <= SHORT else seen[:SHORT] + ' ...'}"


def main() -> int:
    """Run the command and return its exit status."""
    kept = versions()
    PAGE.write_text(page(kept), encoding="utf-8")
    print(f"{len(kept)} versions: {', '.join(version.torch for version in kept)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
