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
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import torch

from attention_conformance import Outcome, check
from attention_conformance.edge import process_state_kept
from attention_conformance.rulebook import catalogue
from tests.zoo.faulty import MUTANTS
from tests.zoo.mutant import Mutant

from .fakes import FAKES

A = TypeVar("A")
B = TypeVar("B")

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
    return name, tuple(
        Rejection(r.rule, r.dtype, r.ratio) for r in records if r.outcome in (Outcome.FAILED, Outcome.ERROR)
    )


def rejects(name: str, rule: str, dtype: str | None, seed: int = 0) -> bool:
    """Judge one mutant by one rule in one dtype and say whether that very rule rejects it.

    Some mutants draw from the global generator, which starts from `seed` here and is put back.
    """
    mutant, select = POPULATION[name], [rule, *([dtype] if dtype else [])]
    with process_state_kept():
        torch.manual_seed(seed)
        records = list(check(mutant.target, tier="thorough", select=select, **mutant.capabilities))
    return any(r.rule == rule and r.outcome in (Outcome.FAILED, Outcome.ERROR) for r in records)


def confirmed(task: tuple[str, tuple[Rejection, ...]]) -> Rejection | None:
    """Return the first rejection of a mutant that its rule repeats alone, whatever the seed and the calls before."""
    name, candidates = task
    for found in candidates:
        if all(rejects(name, found.rule, found.dtype, seed) for seed in (0, 1, 2, 0)):
            return found
    return None


class Bench:
    """Forks a process for each mutant."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def each(self, function: Callable[[A], B], tasks: Iterable[A]) -> Iterator[B]:
        """Yield the results of `function` in the order of the tasks."""
        context = multiprocessing.get_context("fork")
        with context.Pool(self.workers, maxtasksperchild=1) as pool:
            yield from pool.imap(function, list(tasks), chunksize=1)


def sharpest(mutant: Mutant, found: Iterable[Rejection], specific: Mapping[str, int]) -> tuple[Rejection, ...]:
    """Return one rejection for each rule, that which says most about the fault first.

    The first family of the mutant that rejects it wins, then a rule of the default tier, then the rule that rejects
    the fewest mutants, then the dtype in which rounding hides least at usual speed.
    """
    families = [*mutant.families]

    def order(rejection: Rejection) -> tuple[int, bool, int, str, int]:
        rule = catalogue()[rejection.rule]
        family = families.index(rule.family) if rule.family in families else len(families)
        return family, rule.thorough, specific[rule.id], rule.id, _PREFERRED.index(rejection.dtype or "fp32")

    best: dict[str, Rejection] = {}
    for rejection in sorted(found, key=order):
        best.setdefault(rejection.rule, rejection)
    return tuple(best.values())


def specificity(table: Measured) -> Counter[str]:
    """Return how many mutants each rule rejects."""
    return Counter(rule for found in table.values() for rule in {rejection.rule for rejection in found})


def power_table(table: Measured, bench: Bench) -> dict[str, dict[str, str | float | None]]:
    """Return the entry of each mutant of the zoo that some rule rejects."""
    specific = specificity(table)
    names = [mutant.name for mutant in MUTANTS]
    best = bench.each(confirmed, ((name, sharpest(POPULATION[name], table[name], specific)) for name in names))
    return {name: found.written for name, found in zip(names, best, strict=True) if found is not None}


def caught_table(table: Measured, bench: Bench) -> dict[str, dict[str, str | None]]:
    """Return for each rule up to KEPT mutants that it rejects with a dtype in which it does, plainest cases first."""
    tasks = []
    for rule in catalogue().values():
        own = [(name, found) for name, all_found in table.items() for found in all_found if found.rule == rule.id]
        plainest = sorted(own, key=lambda pair: _distance(*pair, rules=len({r.rule for r in table[pair[0]]})))
        first = {name: (name, (found,)) for name, found in reversed(plainest)}
        tasks += list(reversed(first.values()))[: 2 * KEPT]
    result: dict[str, dict[str, str | None]] = {rule: {} for rule in catalogue()}
    for (name, _), found in zip(tasks, bench.each(confirmed, tasks), strict=True):
        if found is not None and len(result[found.rule]) < KEPT:
            result[found.rule][name] = found.dtype
    return result


def _distance(name: str, rejection: Rejection, *, rules: int) -> tuple[int, int, str, int]:
    families, family = [*POPULATION[name].families], rejection.rule.split("-")[0]
    place = families.index(family) if family in families else len(families)
    return place, rules, name, _PREFERRED.index(rejection.dtype or "fp32")


def _write(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Measure, write both tables, and print what no rule rejects."""
    parser = argparse.ArgumentParser(prog="python -m tests.rules.measure_power", description=__doc__)
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    parser.add_argument("--only", nargs="*", default=(), help="names of mutants to look at")
    chosen = parser.parse_args()
    bench = Bench(chosen.workers)
    table = dict(bench.each(rejections, chosen.only or POPULATION))
    if chosen.only:
        for name, found in table.items():
            print(name, POPULATION[name].families, *(f"\n    {rejection}" for rejection in found))
        return
    power, caught = power_table(table, bench), caught_table(table, bench)
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
