"""Markdown for the summary pages of CI services: the matrix, and below it what does not conform.

Whatever comes from an implementation stands in code spans and code blocks, which render nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from ..records import Outcome, Record
from .changes import Change, Changes
from .combining import Combined, Entry, worst
from .wording import SIGNS, by_reason, by_rule, ratio_text, summary

LONGEST = 900_000
"""Characters of a page; GitHub refuses a summary above 1 MiB."""

STORIES = 10
"""How many failing rules of one implementation are told in full."""


def page(combined: Combined) -> str:
    """Return the report on some files."""
    parts = [f"## Attention conformance\n\n{summary(combined.entries)}\n", _matrix(combined), _legend()]
    for entry in combined.entries:
        if not entry.conforms or entry.audited.judged.stale:
            parts.append("\n".join(_details(entry)))
    parts.append(_where(combined))
    return _within("\n".join(parts))


def changes_page(changes: Changes) -> str:
    """Return what changed between two files."""
    title = f"## Attention conformance: regressions in {len(changes.regressions)} of {changes.compared} records\n"
    groups = {"Regressions": changes.regressions, "New and not right": changes.new, "Mended": changes.mended}
    parts = [title, f"From {code(changes.old.environment)} to {code(changes.new_header.environment)}.\n"]
    parts += [f"### {name}\n\n{_changed(found)}\n" for name, found in groups.items() if found]
    return _within("\n".join(parts))


def _changed(changes: Sequence[Change]) -> str:
    rows = [
        (code(each.implementation), code(str(each.key)), each.before or "", each.after, code(each.seen))
        for each in changes
    ]
    return _table(("implementation", "rule", "before", "after", "seen"), rows)


def _matrix(combined: Combined) -> str:
    several = len(combined.places) > 1
    heads = ["implementation", *(["environment"] if several else []), "verdict", *combined.families]
    return _table(heads, (_row(entry, combined.families, several) for entry in combined.entries))


def _row(entry: Entry, families: Iterable[str], several: bool) -> list[str]:
    cells = [code(entry.name), *([code(entry.where)] if several else []), str(entry.audited.judged.verdict)]
    for family in families:
        counted = entry.families.get(family)
        if not counted:
            cells.append("")
            continue
        outcome = worst(counted)
        count = "" if outcome in (Outcome.PASSED, Outcome.NOT_APPLICABLE) else f" {counted[outcome]}"
        cells.append(SIGNS[outcome] + count)
    return cells


def _legend() -> str:
    return ", ".join(f"{sign} {outcome}" for outcome, sign in SIGNS.items()) + ". The number counts records.\n"


def _details(entry: Entry) -> Iterator[str]:
    judged = entry.audited.judged
    bad = by_rule(record for record in entry.audited.records if record.failing)
    where = f" in {code(entry.where)}"
    yield f"### {code(entry.name)} {judged.verdict}{where}\n"
    points_to = "Not loaded" if not entry.audited.loaded else "Points to"
    yield from (f"- {points_to}: {code(text)}" for text in judged.diagnosis)
    yield from (f"- Stale: {code(text)}" for text in judged.stale)
    for reason, records in by_reason(entry.audited.records, Outcome.NOT_RUN).items():
        yield f"- Not run: {len(records)} records, because {code(reason)}"
    for records in list(bad.values())[:STORIES]:
        yield from _story(records)
    if len(bad) > STORIES:
        yield f"\n{len(bad) - STORIES} more failing rules: {', '.join(list(bad)[STORIES:])}.\n"


def _story(records: Sequence[Record]) -> Iterator[str]:
    first = records[0]
    others = "".join(f", {r.dtype} {r.outcome} {ratio_text(r.ratio)}".rstrip() for r in records[1:])
    yield f"\n<details><summary>{first.key} {first.outcome}{others}</summary>\n"
    yield block(first.message)
    yield "\n</details>"


def _where(combined: Combined) -> str:
    rows = [
        (code(h.label or ""), h.torch, h.python, code(h.device), h.tier, str(h.seed), h.catalogue, h.started)
        for h in combined.headers
    ]
    return "\n" + _table(("label", "torch", "python", "device", "tier", "seed", "catalogue", "started"), rows)


# Parts of Markdown


def code(text: str) -> str:
    """Return text as a code span that nothing in it ends, fit for a table."""
    if not text.strip():
        return ""
    line = " ".join(text.split()).replace("|", "\\|")
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    padding = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{padding}{line}{padding}{fence}"


def block(text: str) -> str:
    """Return text as a code block that nothing in it ends."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{fence}text\n{text}\n{fence}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _within(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    kept = text[: text.rfind("\n### ", 0, LONGEST)]
    return f"{kept}\n\nThe rest would be too long for a summary; the HTML report (`--html FILE`) has all of it.\n"
