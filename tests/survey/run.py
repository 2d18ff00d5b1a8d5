"""Audit every entry of the survey: `python -m tests.survey.run [--only WORD] [--workers N] [--results FILE]`.

Entries are judged in worker processes, those of one package together, and their verdicts compared with what was
confirmed by hand. An entry whose package is not installed is missing, which is not the same as passed. The result file
is one of `attention-conformance audit --json`; `python -m tests.survey.page FILE` makes the page from it.
Exit status: 0 every verdict is the confirmed one, 1 some differ, 3 no entry could be judged.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

from attention_conformance.auditing.batch import Ordered, Task
from attention_conformance.auditing.workers import gather, run_task
from attention_conformance.environment import header
from attention_conformance.records import Verdict
from attention_conformance.results import Audited, Line, Writer

from .entries import all_entries
from .entry import Entry, check

ROOT = Path(__file__).parents[2]
TOGETHER = 6
"""How many implementations of one package share a process."""

SECONDS = 120.0
"""What one record may take: some packages compile."""


@dataclass(frozen=True)
class Finding:
    """An entry beside what the audit made of it; `differences` are empty where it is what was confirmed."""

    entry: Entry
    audited: Audited
    differences: tuple[str, ...]


def failing(audited: Audited) -> tuple[str, ...]:
    """Return the rules that speak against an implementation, those aside that were not run for one of them."""
    return tuple(sorted({record.rule for record in audited.records if record.failing}))


def compared(entry: Entry, audited: Audited) -> Finding:
    """Hold a verdict against the confirmed one."""
    if not audited.loaded:
        return Finding(entry, audited, (f"it could not be loaded: {audited.judged.diagnosis[0]}",))
    told = []
    if audited.judged.verdict != entry.verdict:
        told.append(f"the verdict is {audited.judged.verdict}, and {entry.verdict} was confirmed")
    found, known = set(failing(audited)), set(entry.rules)
    if found - known and (known or audited.judged.verdict != Verdict.BROKEN):
        told.append(f"{', '.join(sorted(found - known))} failed and the entry does not name it")
    if known - found:
        told.append(f"{', '.join(sorted(known - found))} did not fail")
    told += audited.judged.stale
    return Finding(entry, audited, tuple(told))


def tasks(entries: Sequence[Entry]) -> list[Task]:
    """Return the work in pieces: implementations of one package, a few at a time."""
    packages: dict[str, list[Entry]] = {}
    for entry in entries:
        packages.setdefault(entry.package, []).append(entry)
    pieces = [own[at : at + TOGETHER] for own in packages.values() for at in range(0, len(own), TOGETHER)]
    return [
        Task(
            tuple(Ordered(each.target, each.keywords()) for each in piece), timeout=SECONDS, folder=str(ROOT), threads=1
        )
        for piece in pieces
    ]


def judged(entries: Sequence[Entry], workers: int) -> Iterator[list[Line]]:
    """Yield the lines of each piece of work as it is finished."""
    with ThreadPoolExecutor(workers) as pool:
        for future in as_completed([pool.submit(run_task, json.dumps(asdict(task))) for task in tasks(entries)]):
            yield [json.loads(line) for line in future.result()]


def with_package(line: Line, entries: Mapping[str, Entry]) -> Line:
    """Return a line that names the entry's package: what a recipe calls is in no file of its own."""
    entry = entries.get(line["target"]) if line["type"] == "implementation" else None
    if entry is None:
        return line
    return {**line, "distribution": entry.package, "distribution_version": entry.version}


def survey(entries: Sequence[Entry], workers: int, file: IO[str]) -> Iterator[Finding]:
    """Audit entries, write the result file, and yield what became of each."""
    by_target = {entry.target: entry for entry in entries}
    writer = Writer(file, header("default", os.environ.get("TOX_ENV_NAME", "survey")))
    for lines in judged(entries, workers):
        lines = [with_package(line, by_target) for line in lines]
        for line in lines:
            writer.write(line)
        for audited in gather(lines):
            yield compared(by_target[audited.described.target], audited)
    writer.close()


def selected(entries: Sequence[Entry], word: str) -> list[Entry]:
    """Return the entries of the package called `word`; if there is none, those whose target holds it."""
    return [each for each in entries if each.package == word] or [each for each in entries if word in each.target]


def tell(finding: Finding) -> None:
    """Print one finding."""
    sign = "differs" if finding.differences else "ok"
    print(f"{sign:8}{finding.audited.judged.verdict!s:18}{finding.entry.target}", flush=True)
    for text in finding.differences:
        print(f"        {text}", flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.survey.run", description=__doc__)
    parser.add_argument(
        "--only", metavar="WORD", default="", help="entries of this package, or whose target holds this"
    )
    parser.add_argument("--workers", metavar="N", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--results", metavar="FILE", type=Path, default=ROOT / "build" / "survey.jsonl")
    chosen = parser.parse_args(arguments)
    entries = all_entries()
    check(entries)
    wanted = selected(entries, chosen.only)
    here = [each for each in wanted if each.version is not None]
    chosen.results.parent.mkdir(parents=True, exist_ok=True)
    with chosen.results.open("w", encoding="ascii", newline="\n") as file:
        findings = []
        for finding in survey(here, chosen.workers, file):
            tell(finding)
            findings.append(finding)
    for entry in wanted:
        if entry.version is None:
            print(f"missing {entry.package} is not installed: {entry.target}")
    differing = sum(bool(finding.differences) for finding in findings)
    print(f"{len(findings) - differing} as confirmed, {differing} differ, {len(wanted) - len(here)} missing")
    return 3 if not findings else 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
