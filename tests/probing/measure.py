"""What the probe finds out of every sound program, or of every entry of the survey, beside what is declared of it.

    python -m tests.probing.measure [--only WORD] [--judge] [--json tests/probing/programs.json]
    python -m tests.probing.measure --survey [--only WORD] [--json tests/probing/survey.json]

`--judge` also judges each sound program under the answers that were found, which has to blame nobody. With `--survey`
the packages have to be installed; each implementation is probed in a process of its own.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from attention_conformance import check
from attention_conformance.errors import ConformanceError
from attention_conformance.implementation import describe
from attention_conformance.loading import load
from attention_conformance.probing import Finding, Profile, probe
from attention_conformance.probing.listening import Failure, probe_many

from ..survey.entries import all_entries
from ..zoo.program import Program
from ..zoo.sound import SOUND
from .comparing import HIT, Comparison, compare, printed, table

WAY = ("reference", "call", "parameters", "framework")
"""What says how a program is called."""


def of_program(program: Program) -> tuple[Profile, list[Comparison]]:
    """Probe a program and compare."""
    implementation = describe(program.target, **program.capabilities)
    profile = probe(implementation)
    return profile, compare(program.name, implementation.capabilities, profile.answers)


def blamed(program: Program, profile: Profile) -> list[str]:
    """Return which rules blame a program under the answers that were found."""
    way = {name: value for name, value in program.capabilities.items() if name in WAY}
    records = check(describe(program.target, **way, **profile.answers))
    return sorted(
        {f"{record.rule}[{record.dtype}] {record.message.splitlines()[0]}" for record in records if record.bad}
    )


def programs(only: str, judge: bool) -> Iterator[Comparison]:
    """Probe sound programs, tell what is no hit, and yield the comparisons."""
    for program in SOUND:
        if only not in program.name:
            continue
        profile, comparisons = of_program(program)
        tell(program.name, profile.findings, comparisons)
        for line in blamed(program, profile) if judge else ():
            print(f"    blamed: {line[:300]}", flush=True)
        yield from comparisons


def entries(only: str) -> Iterator[Comparison]:
    """Probe what the survey holds and is installed here."""
    for entry in all_entries():
        if only not in entry.target or entry.version is None:
            continue
        for result in probe_many([entry.target], entry.keywords(), timeout=120.0):
            if isinstance(result, Failure):
                print(f"{result.name}: {result.why}", flush=True)
                continue
            try:
                (loaded,) = load(entry.target, entry.keywords())
            except ConformanceError as error:
                print(f"{entry.target}: {error}", flush=True)
                continue
            found = {each.capability: each.answer for each in result.findings}
            comparisons = compare(entry.target, loaded.implementation.capabilities, found)
            tell(entry.target, result.findings, comparisons)
            yield from comparisons


def tell(name: str, findings: tuple[Finding, ...], comparisons: list[Comparison]) -> None:
    """Print what is no hit, and what could not be found out."""
    print(name, flush=True)
    seen = {finding.capability: finding for finding in findings}
    for each in comparisons:
        if each.result != HIT:
            evidence = seen[each.capability].evidence[:300]
            print(f"    {each.result}: {each.capability}: declared {each.declared!r}, found {each.found!r}: {evidence}")
    for finding in findings:
        if not finding.settled:
            print(f"    open: {finding.capability}={finding.answer!r}: {finding.evidence[:300]}", flush=True)


def main() -> None:
    """Print what differs as it comes, and the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--survey", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = list(entries(options.only) if options.survey else programs(options.only, options.judge))
    if options.json is not None:
        options.json.write_text(json.dumps(summary(found), indent=1) + "\n")
    print(printed(found))


def summary(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """Return how often the probe was right, and every answer that is not the declared one."""
    return {
        "implementations": len({each.implementation for each in comparisons}),
        "torch": torch.__version__,
        "counts": {name: counts for name, *counts in table(comparisons)},
        "differing": [asdict(each) for each in comparisons if each.result != HIT],
    }


if __name__ == "__main__":
    main()
