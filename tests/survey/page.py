"""Make `docs/survey.md`: `python -m tests.survey.page [FILE...]`.

Result files of `tests.survey.run` are put over the kept summary (`summary.jsonl` beside this file), implementation by
implementation; the page is made from the summary and the entries. Without a FILE only the page is made again. With
`--check` nothing is written, and the exit status is 1 if something would change.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .cells import PROBED, READ, answers, family_cell, family_columns, labels, verdict_cell
from .entries import all_entries
from .entry import Entry
from .markdown import code, counted, plain, table
from .summary import SUMMARY, Failing, Summary, anonymous, catalogue, dump, load, merge

PAGE = Path(__file__).parents[2] / "docs" / "survey.md"
VERDICTS = ("conforms", "conforms-declared", "departs", "broken")

MOST_RULES = 6
"""How many failing rules of one implementation are told in a table; the others are named."""

MOST_CHARACTERS = 9000
"""Scripts that are longer write out many numbers and are left to the audit."""

_INTRODUCTION = """\
# Attention as it is used: a survey

Made by `tox -e survey`; do not edit.

Implementations of attention from public packages, each judged by every rule of this suite's default tier, in a worker
process, with the answers that it gives to the questions on which sound implementations differ (`attention-conformance
rules` lists the rules). Every verdict was confirmed by hand: by reading the package's code, and most departures by an
experiment outside this suite as well. JAX compiles for every shape, so its libraries are judged in fp32 only.

- **conforms**: every rule holds that applies, with the answers of the reference.
- **conforms-declared**: the same, with other answers or with single departures that are declared and listed below.
- **departs**: some rule does not hold. The departures, with a script for each, are below. A departure is a difference
  from the plain definition of attention, at the point that is named; whether it matters to you depends on your use.
- **broken**: it raises, crashes or gives no finite numbers on ordinary inputs.
"""

_RULES = """\
## Rules

Rows are implementations, columns families of rules. `✓ 24` 24 judgements (a rule in one dtype), all passed; `✗ 2/24` 2 of
24 failed; `± 2/24` 2 of 24 are covered by a declared departure; `? 2/24` 2 of 24 were not run, because a convention that
they depend on is not as declared; `–` no rule of the family applies. *worst* is the largest error that passed, in units
of its rounding bound.
"""

_CONVENTIONS = f"""\
## Conventions

The answers with which each implementation was judged. They are declared, by its entry or the adapter that calls it, but
for those that were read off the arguments of its call ({READ}) or found by a probe ({PROBED}). **Bold** ones are not the
reference's. *Further* lists every other answer that is not the reference's.
"""


def page(summaries: Sequence[Summary], entries: Sequence[Entry]) -> str:
    """Return the page."""
    by_target = {entry.target: entry for entry in entries}
    rows = [each for each in summaries if each.target in by_target]
    names = labels(rows)
    parts = [_INTRODUCTION, _overview(rows, by_target), *_missing(rows, entries)]
    parts += [*_rules(rows, names), *_conventions(rows, names)]
    parts += [*_departures(rows, names, by_target), *_declared(rows, names), *_targets(rows, by_target)]
    return "\n".join(parts)


def _grouped(rows: Sequence[Summary]) -> Mapping[str, list[Summary]]:
    """Return the rows by package, packages by name."""
    groups: dict[str, list[Summary]] = {}
    for row in sorted(rows, key=lambda each: (each.package.lower(), each.target)):
        groups.setdefault(row.package, []).append(row)
    return groups


def _overview(rows: Sequence[Summary], entries: Mapping[str, Entry]) -> str:
    groups = _grouped(rows)
    frameworks = sorted({entries[row.target].framework for row in rows})
    lines = []
    for package, own in groups.items():
        verdicts = [sum(row.verdict == verdict for row in own) or "" for verdict in VERDICTS]
        facts = [(row.version, entries[row.target].framework, f"{row.torch}, {row.python}", row.date) for row in own]
        version, framework, torch, date = ("; ".join(sorted(set(column))) for column in zip(*facts, strict=True))
        lines.append((package, version, framework, len(own), *verdicts, torch, date))
    head = ("package", "version", "framework", "judged", *VERDICTS, "torch, Python", "date")
    numbers = (
        counted(len(rows), "implementation"),
        counted(len(groups), "package"),
        counted(len(frameworks), "framework"),
    )
    total = f"{numbers[0]} from {numbers[1]} and {numbers[2]} ({', '.join(frameworks)})"
    return f"## Packages\n\n{total}.\n\n" + table(head, lines) + _questions(rows)


def _questions(rows: Sequence[Summary]) -> str:
    """Say with which rules the rows were judged."""
    asked = sorted({(row.suite, row.catalogue) for row in rows})
    told = ", ".join(f"attention-conformance {suite} (rules {digest})" for suite, digest in asked)
    return f"\nJudged by {told}.\n" if asked else ""


def _missing(rows: Sequence[Summary], entries: Sequence[Entry]) -> Iterator[str]:
    """Yield what the survey names and has no result of, and results that are not what was confirmed."""
    judged = {row.target for row in rows}
    missing = Counter(entry.package for entry in entries if entry.target not in judged)
    if missing:
        told = ", ".join(f"{package} ({number})" for package, number in sorted(missing.items()))
        yield f"No result is kept of {counted(missing.total(), 'implementation')}: {told}.\n"
    verdicts = {entry.target: entry.verdict for entry in entries}
    other = [row for row in rows if row.verdict != verdicts[row.target]]
    if other:
        told = ", ".join(f"{code(row.target)} {row.verdict}, not {verdicts[row.target]}" for row in other)
        yield f"Verdicts that are not the confirmed ones: {told}.\n"


def _rules(rows: Sequence[Summary], names: Mapping[str, str]) -> Iterator[str]:
    families = family_columns(rows)
    yield _RULES
    for package, own in _grouped(rows).items():
        lines = []
        for row in own:
            cells = [family_cell(row.families.get(family, {})) for family in families]
            worst = "" if row.worst is None else f"{row.worst:.2g}"
            lines.append((code(names[row.target]), verdict_cell(row), *cells, worst))
        yield f"### {package} {own[0].version}\n"
        yield table(("implementation", "verdict", *families, "worst"), lines)


def _conventions(rows: Sequence[Summary], names: Mapping[str, str]) -> Iterator[str]:
    yield _CONVENTIONS
    for package, own in _grouped(rows).items():
        told = {row.target: {"reference": row.reference, **answers(row)} for row in own if row.reference is not None}
        if told:
            head = next(iter(told.values()))
            yield f"### {package} {own[0].version}\n"
            yield table(("implementation", *head), [(code(names[key]), *row.values()) for key, row in told.items()])


def _departures(rows: Sequence[Summary], names: Mapping[str, str], entries: Mapping[str, Entry]) -> Iterator[str]:
    yield "## Departures\n"
    bad = [row for own in _grouped(rows).values() for row in own if row.failing]
    for row in bad:
        yield f"### {row.package} {row.version}: {code(names[row.target])}\n"
        yield f"{entries[row.target].why or 'No reason was confirmed.'}\n"
        yield table(("rule", "says", "in", "seen"), [_failing(each) for each in row.failing[:MOST_RULES]])
        if len(row.failing) > MOST_RULES:
            yield f"and {', '.join(each.rule for each in row.failing[MOST_RULES:])}.\n"
        diagnosis = dict.fromkeys(text for each in row.failing for text in each.diagnosis)
        if diagnosis:
            yield "\n".join(("Points to:\n", *(f"- {plain(text)}" for text in diagnosis), ""))
        if sum(map(len, row.script)) > MOST_CHARACTERS:
            yield f"The script for {row.about} is long; `attention-conformance audit` prints it.\n"
        elif row.script:
            yield f"{row.about}, as a script:\n"
            yield "\n".join(("```python", *row.script, "```", ""))
    if not bad:
        yield "There is none.\n"


def _failing(each: Failing) -> tuple[str, str, str, str]:
    rule = catalogue().get(each.rule)
    return each.rule, "" if rule is None else rule.sentence, ", ".join(each.dtypes), plain(each.seen)


def _declared(rows: Sequence[Summary], names: Mapping[str, str]) -> Iterator[str]:
    yield "## Declared departures\n\nWhat is known of an implementation and declared by the adapter that calls it.\n"
    lines = [
        (f"{row.package} {row.version}", code(names[row.target]), each.rule, each.reason)
        for own in _grouped(rows).values()
        for row in own
        for each in row.declared
    ]
    yield table(("package", "implementation", "rule", "reason"), lines) if lines else "There is none.\n"


def _targets(rows: Sequence[Summary], entries: Mapping[str, Entry]) -> Iterator[str]:
    yield "## Targets\n\nWhat to type after `attention-conformance audit`; recipes are files of this repository.\n"
    for package, own in _grouped(rows).items():
        yield f"### {package} {own[0].version}\n"
        yield table(("target", "remark"), [(code(row.target), entries[row.target].why) for row in own])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.survey.page", description=__doc__)
    parser.add_argument("files", metavar="FILE", type=Path, nargs="*", help="result files of tests.survey.run")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something would change")
    chosen = parser.parse_args(arguments)
    entries = all_entries()
    summaries = merge(load(), chosen.files, [entry.target for entry in entries])
    texts = {SUMMARY: dump(summaries), PAGE: page(summaries, entries)}
    changed = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not chosen.check:
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path], encoding="utf-8")
    print(
        f"{len(summaries)} implementations; {', '.join(anonymous(str(path)) for path in changed) or 'nothing'} changed"
    )
    return 1 if chosen.check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
