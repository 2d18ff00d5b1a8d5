"""What the probe finds out of every sound program, beside what the program declares: a table of hits and misses.

    python -m tests.probing.measure [--only WORD] [--judge]

`--judge` also judges each program under the answers that were found, which has to blame nobody.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from attention_conformance import check
from attention_conformance.implementation import Implementation, describe
from attention_conformance.probing import Profile, probe

from ..zoo.program import Program
from ..zoo.sound import SOUND

QUESTIONS = (
    "layout", "inputs", "lengths", "scale", "mask_means", "empty_row", "no_keys", "causal", "causal_with_mask", "second",
    "gradient", "deterministic",
)  # fmt: skip
"""Capabilities of which one answer is right."""

OFFERS = ("mask", "mask_shapes", "options", "dtypes", "widths", "heads", "leading", "value_width")
"""Capabilities of which more may be found than is declared; that it holds is judged."""


@dataclass(frozen=True)
class Comparison:
    """One answer of the probe beside the declared one."""

    program: str
    capability: str
    declared: Any
    found: Any
    hit: bool


def compare(program: Program) -> tuple[Profile, list[Comparison]]:
    """Probe a program and compare."""
    implementation = describe(program.target, **program.capabilities)
    profile = probe(implementation)
    found = profile.answers
    return profile, [
        _compared(program.name, name, implementation, found[name]) for name in (*QUESTIONS, *OFFERS) if name in found
    ]


def _compared(name: str, capability: str, implementation: Implementation, found: Any) -> Comparison:
    declared = getattr(implementation.capabilities, capability)
    hit = covers(capability, declared, found) if capability in OFFERS else same(capability, declared, found)
    return Comparison(name, capability, declared, found, hit)


def same(capability: str, declared: Any, found: Any) -> bool:
    """Say whether two answers mean the same."""
    if capability == "second" and declared == "optional weights":
        return found in ("weights", None)
    return bool(declared in (found, "unspecified"))


def covers(capability: str, declared: Any, found: Any) -> bool:
    """Say whether at least what is declared was found."""
    if capability in ("heads", "leading", "value_width"):
        return found == declared or found in ("grouped", "broadcast", "any")
    if found in ("any", "broadcast"):
        return True
    if declared in ("any", "broadcast"):
        return False
    return set(declared) <= set(found) or (capability == "widths" and set(found) <= set(declared))


def blamed(program: Program, profile: Profile) -> list[str]:
    """Return which rules blame a program under the answers that were found."""
    way = {
        name: value
        for name, value in program.capabilities.items()
        if name in ("reference", "call", "parameters", "framework")
    }
    answers = {name: value for name, value in profile.answers.items() if value is not None or name != "scale"}
    records = check(describe(program.target, **way, **answers))
    return sorted(
        {f"{record.rule}[{record.dtype}] {record.message.splitlines()[0]}" for record in records if record.bad}
    )


def chosen(only: str) -> Iterator[Program]:
    """Yield the programs whose name holds a word."""
    yield from (program for program in SOUND if only in program.name)


def table(comparisons: Iterable[Comparison]) -> str:
    """Return hits and misses by capability."""
    hits, misses = Counter[str](), Counter[str]()
    for each in comparisons:
        (hits if each.hit else misses)[each.capability] += 1
    lines = [f"{name:18} {hits[name]:5} {misses[name]:5}" for name in (*QUESTIONS, *OFFERS)]
    return "\n".join([f"{'capability':18} {'hits':>5} {'misses':>5}", *lines])


def main() -> None:
    """Print what differs as it comes, and the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--judge", action="store_true")
    options = parser.parse_args()
    everything: list[Comparison] = []
    for program in chosen(options.only):
        started = time.perf_counter()
        profile, comparisons = compare(program)
        everything += comparisons
        print(f"{program.name}: {time.perf_counter() - started:.1f} s", flush=True)
        for each in comparisons:
            if not each.hit:
                evidence = next(f.evidence for f in profile.findings if f.capability == each.capability)
                print(f"    {each.capability}: declared {each.declared!r}, found {each.found!r}: {evidence[:300]}")
        for finding in profile.open:
            print(f"    open: {finding.capability}={finding.answer!r}: {finding.evidence[:300]}")
        if options.judge:
            for line in blamed(program, profile):
                print(f"    blamed: {line[:300]}")
    print(table(everything))


if __name__ == "__main__":
    main()
