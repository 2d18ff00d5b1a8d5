"""Measure which rules reject which mutant, and write the two tables that `test_faulty` and `test_catalogue` hold.

Run `python -m tests.rules.measure_power` after a change of rules or mutants; `tests.rules.enter` measures new ones only. Every mutant is judged in a process of its
own, because some leave theirs changed: by the default tier, and by the thorough one where that does not reject it.
Thorough rules are tried on other mutants too until a few are found that they reject. Takes many minutes. `--only NAME
...` measures some mutants by every rule, prints what rejects them and writes nothing.

`power.json` holds for each mutant one rule and dtype that rejects it, with the case, the ratio of error to bound (null
where nothing was measured), the known faults that this record names, and the tier; `dtypes` adds each dtype in which it is caught with the rule and the ratio
there. `rules_caught.json` holds for each rule some mutants that it rejects.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import torch

from attention_conformance import check
from attention_conformance.cases.inputs import make
from attention_conformance.diagnosis import Diagnostician
from attention_conformance.foreign.process_state import process_state_kept
from attention_conformance.implementation import describe
from attention_conformance.oracle.expectations import expect
from attention_conformance.oracle.gradients import expected_gradients
from attention_conformance.rulebook import Rule, catalogue
from attention_conformance.selection import fitted_cases
from attention_conformance.trials.subject import Subject
from tests.zoo.faulty import MUTANTS
from tests.zoo.mutant import Mutant

from .fakes import FAKES

A = TypeVar("A")
B = TypeVar("B")

FOLDER = Path(__file__).parent
POWER = FOLDER / "power.json"
CAUGHT = FOLDER / "rules_caught.json"
PRINTED = FOLDER.parents[1] / "conformance" / "report" / "caught.json"
"""What `attention-conformance rules ID` prints of the faults that a rule catches."""
KEPT = 3
"""How many mutants are remembered for each rule."""
TRIED = 12
"""How many mutants a thorough rule is tried on beyond those that the default tier does not reject."""
PATIENCE = 900.0
"""Seconds after which a process is given up."""

_PREFERRED = ("fp32", "fp64", "bf16", "fp16")
POPULATION: Mapping[str, Mutant] = {mutant.name: mutant for mutant in (*MUTANTS, *FAKES)}
"""The zoo and the fakes by name."""


@dataclass(frozen=True)
class Rejection:
    """One record that speaks against a mutant. `ratio` is None where nothing was measured."""

    rule: str
    dtype: str | None
    ratio: float | None
    case: str | None = None
    diagnosis: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[str, ...]:
        """Names of the faults, and declarations, that the record points to."""
        return tuple(text if text.startswith("declare ") else text.split(":")[0] for text in self.diagnosis)

    @property
    def rounded(self) -> float | str | None:
        """The ratio to three digits; infinity, which JSON lacks, as text."""
        if self.ratio is None:
            return None
        return float(f"{self.ratio:.3g}") if math.isfinite(self.ratio) else "inf"

    @property
    def thorough(self) -> bool:
        """Whether only the thorough tier has the rule."""
        return catalogue()[self.rule].thorough


Measured = Mapping[str, tuple[Rejection, ...]]


def rejections(name: str, tier: str = "thorough", select: tuple[str, ...] = ()) -> tuple[str, tuple[Rejection, ...]]:
    """Judge one mutant by every rule of a tier, or by those selected, and return its rejections."""
    mutant = POPULATION[name]
    records = check(mutant.target, tier=tier, select=select, **mutant.capabilities)
    return name, tuple(Rejection(r.rule, r.dtype, r.ratio, r.case, r.diagnosis) for r in records if r.failing)


@contextmanager
def undiagnosed() -> Iterator[None]:
    """Judge without looking for the fault, which takes most of the time of a failure."""
    with mock.patch.multiple(Diagnostician, of_departure=lambda *_: (), narrowed=lambda *_: ()):
        yield


def by_default(name: str) -> tuple[str, tuple[Rejection, ...]]:
    """Judge one mutant by the default tier, and by the thorough rules as well if that does not reject it."""
    with undiagnosed():
        _, found = rejections(name, "default")
        return (name, found) if found else rejections(name)


def by_rule(task: tuple[str, str]) -> tuple[str, tuple[Rejection, ...]]:
    """Judge one mutant by one rule and return the rejections by that rule."""
    name, rule = task
    with undiagnosed():
        found = rejections(name, select=(rule,))[1]
    return name, tuple(rejection for rejection in found if rejection.rule == rule)


def judged(name: str, rule: str, dtype: str | None, seed: int = 0) -> Rejection | None:
    """Judge one mutant by one rule in one dtype and return the rejection by that very rule, if it does reject it.

    Some mutants draw from the global generator, which starts from `seed` here and is put back.
    """
    select = (rule, *([dtype] if dtype else []))
    with process_state_kept():
        torch.manual_seed(seed)
        found = rejections(name, select=select)[1]
    return next((rejection for rejection in found if rejection.rule == rule), None)


def confirmed(task: tuple[str, tuple[Rejection, ...]]) -> Rejection | None:
    """Return the first rejection of a mutant that its rule repeats alone, whatever the seed and the calls before."""
    name, candidates = task
    for found in candidates:
        with undiagnosed():
            again = all(judged(name, found.rule, found.dtype, seed) for seed in (0, 1))
        if again:
            return judged(name, found.rule, found.dtype)
    return None


def repeated(task: tuple[str, tuple[Rejection, ...]]) -> Rejection | None:
    """Do as `confirmed` does, without looking for the fault."""
    with undiagnosed():
        return confirmed(task)


class Bench:
    """Forks a process for each task, so that none sees what another one left behind."""

    def __init__(self, workers: int) -> None:
        self.workers = workers

    def each(self, function: Callable[[A], B], tasks: Iterable[A]) -> Iterator[B | None]:
        """Yield the results of `function` in the order of the tasks; None for one whose process died or hung."""
        waiting = dict(enumerate(tasks))
        running: dict[Connection, tuple[int, BaseProcess, float]] = {}
        done: dict[int, B | None] = {}
        following = 0
        while waiting or running or following in done:
            while waiting and len(running) < self.workers:
                place = next(iter(waiting))
                connection, process = _start(function, waiting.pop(place))
                running[connection] = (place, process, time.monotonic())
            for connection in _ready(running):
                place, process, _ = running.pop(connection)
                done[place] = _received(connection, process)
            while following in done:
                yield done.pop(following)
                following += 1


def _start(function: Callable[[A], B], task: A) -> tuple[Connection, BaseProcess]:
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(theirs, function, task))
    process.start()
    theirs.close()
    return ours, process


def _work(connection: Connection, function: Callable[[A], B], task: A) -> None:
    connection.send(function(task))


def _ready(running: Mapping[Connection, tuple[int, BaseProcess, float]]) -> list[Connection]:
    """Return the connections on which something came, or that have been silent for too long."""
    ready = [each for each in wait(list(running), timeout=10) if isinstance(each, Connection)]
    late = [each for each, (_, _, since) in running.items() if time.monotonic() - since > PATIENCE]
    return ready or late


def _received(connection: Connection, process: BaseProcess) -> Any:
    try:
        result = connection.recv() if connection.poll() else None
    except EOFError:
        result = None
    process.kill()
    process.join()
    connection.close()
    return result


def warm() -> None:
    """Make what is expected of plain kernels and modules here, so that every forked process has it already.

    Nothing is differentiated by torch: its backward pass does not survive a fork.
    """
    own = [describe(POPULATION[name].target, **POPULATION[name].capabilities) for name in _TYPICAL]
    for implementation in own:
        for dtype in implementation.capabilities.dtypes:
            subject = Subject(implementation, dtype)
            for rule in catalogue().values():
                if not rule.thorough and implementation.reference.kind in rule.kinds:
                    _expect(rule, subject)


_TYPICAL = ("softmax_over_queries", "heads_merged_by_view", "causal_sees_next_token")


def _expect(rule: Rule, subject: Subject) -> None:
    for case in fitted_cases(rule, subject.implementation)[0]:
        setting = subject.setting_for(make(case, subject.implementation.is_module, subject.dtype))
        expectation = expect(case, setting, subject.dtype)
        _ = expectation.output, expectation.weights
        if rule.family in ("GRADIENT", "PROJECTION"):
            expected_gradients(expect(case, setting, subject.dtype))


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


def power_table(table: Measured, bench: Bench) -> dict[str, dict[str, Any]]:
    """Return the entry of each mutant of the zoo that was measured and is rejected by some rule."""
    specific = specificity(table)
    names = [mutant.name for mutant in MUTANTS if mutant.name in table]
    ordered = {name: sharpest(POPULATION[name], table[name], specific) for name in names}
    best = bench.each(confirmed, ordered.items())
    return {
        name: entry(found, table[name], ordered[name])
        for name, found in zip(names, best, strict=True)
        if found is not None
    }


def entry(found: Rejection, rejected: Iterable[Rejection], order: Iterable[Rejection]) -> dict[str, Any]:
    """Return what power.json says of a mutant that `found` stands for."""
    rules = [found.rule, *(rejection.rule for rejection in order)]
    dtypes: dict[str, Rejection] = {}
    for rejection in sorted(rejected, key=lambda each: rules.index(each.rule)):
        dtypes.setdefault(rejection.dtype or "once", rejection)
    return {
        "rule": found.rule,
        "dtype": found.dtype,
        "ratio": found.rounded,
        "case": found.case,
        "named": list(found.named),
        "tier": "thorough" if all(rejection.thorough for rejection in rejected) else "default",
        "dtypes": {dtype: {"rule": each.rule, "ratio": each.rounded} for dtype, each in sorted(dtypes.items())},
    }


def caught_table(table: Measured, bench: Bench) -> dict[str, dict[str, str | None]]:
    """Return for each rule up to KEPT mutants that it rejects with a dtype in which it does, plainest cases first."""
    tasks = []
    for rule in catalogue().values():
        own = [(name, found) for name, all_found in table.items() for found in all_found if found.rule == rule.id]
        plainest = sorted(own, key=lambda pair: _distance(*pair, rules=len({r.rule for r in table[pair[0]]})))
        first = {name: (name, (found,)) for name, found in reversed(plainest)}
        tasks += list(reversed(first.values()))[: 2 * KEPT]
    result: dict[str, dict[str, str | None]] = {rule: {} for rule in catalogue()}
    for (name, _), found in zip(tasks, bench.each(repeated, tasks), strict=True):
        if found is not None and len(result[found.rule]) < KEPT:
            result[found.rule][name] = found.dtype
    return result


def printed(caught: Mapping[str, Iterable[str]]) -> dict[str, list[str]]:
    """Return the sentences of the faults that each rule catches."""
    return {rule: [POPULATION[name].fault for name in names] for rule, names in caught.items()}


def with_thorough_rules(table: Measured, bench: Bench) -> dict[str, tuple[Rejection, ...]]:
    """Return the table with what the thorough rules reject of the mutants that the default tier rejects already.

    Each is tried on the likeliest mutants, a few at a time, until enough are found.
    """
    result = dict(table)
    for rule in catalogue().values():
        known = sum(any(each.rule == rule.id for each in found) for found in table.values())
        likely = sorted(
            (name for name, found in table.items() if found and not any(each.thorough for each in found)),
            key=lambda name: (rule.family not in POPULATION[name].families, len(table[name])),
        )
        while rule.thorough and known < KEPT and likely[:TRIED]:
            batch, likely = likely[: bench.workers], likely[bench.workers : TRIED]
            for found in bench.each(by_rule, [(name, rule.id) for name in batch]):
                if found is not None and found[1]:
                    result[found[0]] += found[1]
                    known += 1
    return result


def _distance(name: str, rejection: Rejection, *, rules: int) -> tuple[int, int, str, int]:
    families, family = [*POPULATION[name].families], rejection.rule.split("-")[0]
    place = families.index(family) if family in families else len(families)
    return place, rules, name, _PREFERRED.index(rejection.dtype or "fp32")


def write(path: Path, content: Mapping[str, object]) -> None:
    """Write one line for each entry."""
    lines = [f" {json.dumps(name)}: {json.dumps(entry)}" for name, entry in content.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def keep(power: Mapping[str, object], caught: Mapping[str, Mapping[str, str | None]]) -> None:
    """Write the tables: entries of mutants as they come, rules in the order of the catalogue."""
    in_order = {rule: caught[rule] for rule in catalogue()}
    write(POWER, power)
    write(CAUGHT, in_order)
    write(PRINTED, printed(in_order))


def measure(bench: Bench, names: Iterable[str]) -> dict[str, tuple[Rejection, ...]]:
    """Return what rejects each mutant; a mutant whose process died is told and counts as not rejected."""
    table: dict[str, tuple[Rejection, ...]] = {}
    names, started = list(names), time.monotonic()
    for name, found in zip(names, bench.each(by_default, names), strict=True):
        if found is None:
            print(f"the process of {name} died or hung")
        table[name] = () if found is None else found[1]
        if len(table) % 50 == 0:
            print(
                f"{len(table)} of {len(names)} judged, {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True
            )
    return with_thorough_rules(table, bench)


def main() -> None:
    """Measure, write both tables, and print what no rule rejects."""
    parser = argparse.ArgumentParser(prog="python -m tests.rules.measure_power", description=__doc__)
    parser.add_argument("--workers", type=int, default=2, help="processes at a time")
    parser.add_argument("--only", nargs="*", default=(), help="names of mutants to look at")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench(chosen.workers)
    if chosen.only:
        for name, result in zip(chosen.only, bench.each(rejections, chosen.only), strict=True):
            _show(name, () if result is None else result[1])
        return
    warm()
    table = measure(bench, POPULATION)
    power, caught = power_table(table, bench), caught_table(table, bench)
    keep(power, caught)
    for mutant in MUTANTS:
        if mutant.name not in power:
            print(f"no rule rejects {mutant.name} ({', '.join(mutant.families)}): {mutant.fault}")
        elif str(power[mutant.name]["rule"]).split("-")[0] not in mutant.families:
            print(f"{mutant.name} ({', '.join(mutant.families)}) is rejected by {power[mutant.name]['rule']} only")
        elif power[mutant.name]["tier"] == "thorough":
            print(f"only the thorough tier rejects {mutant.name}: {power[mutant.name]['case']}")
    for rule, names in caught.items():
        if not names:
            print(f"{rule} rejects no mutant")


def _show(name: str, found: tuple[Rejection, ...]) -> None:
    print(name, POPULATION[name].families, *(f"\n    {rejection}" for rejection in found))
    if found:
        order = sharpest(POPULATION[name], found, specificity({name: found}))
        print("   ", json.dumps(entry(order[0], found, order)))


if __name__ == "__main__":
    main()
