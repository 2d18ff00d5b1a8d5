"""Measure which rules reject which mutant, and write the two tables that `test_faulty` and `test_catalogue` hold.

Run `python -m tests.rules.measure_power` after a change of rules or mutants. Every mutant is judged by all rules in a
process of its own, because some leave the process changed. Takes minutes. `--only NAME ...` measures some mutants,
prints what rejects them and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from attention_conformance import check
from attention_conformance.dtypes import DTYPES
from attention_conformance.rulebook import catalogue
from tests.zoo.faulty import MUTANTS
from tests.zoo.mutant import Mutant

from .fakes import FAKES

FOLDER = Path(__file__).parent
POWER = FOLDER / "power.json"
CAUGHT = FOLDER / "rules_caught.json"
KEPT = 5
"""How many mutants are remembered for each rule."""

_PREFERRED = ("fp32", "fp64", "bf16", "fp16")
POPULATION: Mapping[str, Mutant] = {mutant.name: mutant for mutant in (*MUTANTS, *FAKES)}
"""The zoo and the fakes by name."""


@dataclass(frozen=True)
class Rejection:
    """One record that speaks against a mutant. `ratio` is None where nothing was measured."""

    rule: str
    dtype: str | None
    ratio: float | None

    @property
    def written(self) -> dict[str, str | float | None]:
        """The entry of power.json; infinity, which JSON lacks, is written as text."""
        ratio: str | float | None = self.ratio
        if self.ratio is not None:
            ratio = float(f"{self.ratio:.3g}") if math.isfinite(self.ratio) else "inf"
        return {"rule": self.rule, "dtype": self.dtype, "ratio": ratio}


Measured = Mapping[str, tuple[Rejection, ...]]


def rejections(name: str) -> tuple[str, tuple[Rejection, ...]]:
    """Judge one mutant by every rule of both tiers and return its rejections."""
    mutant = POPULATION[name]
    records = check(mutant.target, tier="thorough", **mutant.capabilities)
    return name, tuple(Rejection(r.rule, r.dtype, r.ratio) for r in records if r.outcome in ("failed", "error"))


def measured(names: Iterable[str], workers: int) -> Iterator[tuple[str, tuple[Rejection, ...]]]:
    """Yield the rejections of each mutant, each judged in a forked process."""
    context = multiprocessing.get_context("fork")
    with context.Pool(workers, maxtasksperchild=1) as pool:
        yield from pool.imap(rejections, list(names), chunksize=1)


def sharpest(mutant: Mutant, found: Iterable[Rejection], specific: Mapping[str, int]) -> Rejection | None:
    """Return the rejection that says most about the fault.

    The first family of the mutant that rejects it wins, then a rule of the default tier, then the rule that rejects
    the fewest mutants, then the dtype in which rounding hides least at usual speed.
    """
    families = [*mutant.families]

    def order(rejection: Rejection) -> tuple[int, bool, int, str, int]:
        rule = catalogue()[rejection.rule]
        family = families.index(rule.family) if rule.family in families else len(families)
        dtype = _PREFERRED.index(rejection.dtype) if rejection.dtype in DTYPES else 0
        return family, rule.thorough, specific[rule.id], rule.id, dtype

    return min(found, key=order, default=None)


def specificity(table: Measured) -> Counter[str]:
    """Return how many mutants each rule rejects."""
    return Counter(rule for found in table.values() for rule in {rejection.rule for rejection in found})


def power_table(table: Measured) -> dict[str, dict[str, str | float | None]]:
    """Return the entry of each mutant of the zoo that some rule rejects."""
    specific = specificity(table)
    best = {mutant.name: sharpest(mutant, table[mutant.name], specific) for mutant in MUTANTS}
    return {name: rejection.written for name, rejection in best.items() if rejection is not None}


def caught_table(table: Measured) -> dict[str, dict[str, str | None]]:
    """Return for each rule up to KEPT mutants that it rejects with a dtype in which it does, plainest cases first."""
    result: dict[str, dict[str, str | None]] = {}
    for rule in catalogue().values():
        entries = {}
        for name, found in table.items():
            own = [rejection for rejection in found if rejection.rule == rule.id]
            if own:
                dtype = min((rejection.dtype for rejection in own), key=lambda word: _PREFERRED.index(word or "fp32"))
                entries[name] = (_distance(POPULATION[name], rule.family, len({r.rule for r in found})), dtype)
        kept = sorted(entries, key=lambda name: (entries[name][0], name))[:KEPT]
        result[rule.id] = {name: entries[name][1] for name in kept}
    return result


def _distance(mutant: Mutant, family: str, rules: int) -> tuple[int, int]:
    families = [*mutant.families]
    return families.index(family) if family in families else len(families), rules


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Measure, write both tables, and print what no rule rejects."""
    parser = argparse.ArgumentParser(prog="python -m tests.rules.measure_power", description=__doc__)
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    parser.add_argument("--only", nargs="*", default=(), help="names of mutants to look at")
    chosen = parser.parse_args()
    table = dict(measured(chosen.only or POPULATION, chosen.workers))
    if chosen.only:
        for name, found in table.items():
            print(name, POPULATION[name].families, *(f"\n    {rejection}" for rejection in found))
        return
    power, caught = power_table(table), caught_table(table)
    _write(POWER, power)
    _write(CAUGHT, caught)
    for mutant in MUTANTS:
        if mutant.name not in power:
            print(f"no rule rejects {mutant.name} ({', '.join(mutant.families)}): {mutant.fault}")
        elif str(power[mutant.name]["rule"]).split("-")[0] not in mutant.families:
            print(f"{mutant.name} ({', '.join(mutant.families)}) is rejected by {power[mutant.name]['rule']} only")
    for rule, names in caught.items():
        if not names:
            print(f"{rule} rejects no mutant")


if __name__ == "__main__":
    main()
