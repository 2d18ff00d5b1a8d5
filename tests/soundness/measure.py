"""Measure how near sound programs come to the bound, and write `worst.json`.

Run `python -m tests.soundness.measure --seeds 20` after a change of bounds, inputs or sound programs. For each program
and dtype: the largest ratio of error to allowance over outputs, second results and gradients, and how many comparisons
there were. No comparison may be above 1. With none above 1 in N comparisons, the chance of a false alarm in one is at
most 1 - 0.05 ** (1 / N), with a confidence of 95 % (Clopper and Pearson).

The bound is derived from rounding and is not to be widened where something exceeds it: the text printed says what to
look into.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from torch import Tensor

from attention_conformance.cases.case import Case
from attention_conformance.cases.values import BUILT
from attention_conformance.conventions.table import second_near
from attention_conformance.fitting import Excluded, fit
from attention_conformance.foreign.edge import FOREIGN
from attention_conformance.implementation import Implementation, describe
from attention_conformance.oracle.comparing import Departure, require_near
from attention_conformance.oracle.expectations import Near
from attention_conformance.trials.subject import Result, Subject
from attention_conformance.trials.trial import Trial
from tests.zoo.program import Program
from tests.zoo.sound import SOUND

from .population import cases

WORST = Path(__file__).with_name("worst.json")
CASES = 20
"""Cases for each seed."""

_TOO_LARGE_FOR_FP16 = ("scores -32768", "scores 120")


@dataclass(frozen=True)
class Compared:
    """One comparison: what was compared, in which case, and the largest ratio of error to allowance."""

    what: str
    case: Case
    ratio: float
    text: str = ""


@dataclass
class Tally:
    """The comparisons of one program in one dtype."""

    count: int = 0
    worst: float = 0.0
    where: str = ""
    beyond: list[str] = field(default_factory=list)

    def add(self, compared: Compared) -> None:
        """Count a comparison."""
        self.count += 1
        if compared.ratio > self.worst:
            self.worst, self.where = compared.ratio, f"{compared.what} of {compared.case.describe()}"
        if compared.ratio > 1:
            self.beyond.append(
                f"{compared.what}: {compared.text} in {compared.case.describe()}, seed {compared.case.draw}"
            )

    def join(self, other: Tally) -> None:
        """Add what another one counted."""
        self.count += other.count
        self.beyond += other.beyond
        if other.worst > self.worst:
            self.worst, self.where = other.worst, other.where


Tallies = dict[tuple[str, str], Tally]


def comparisons(implementation: Implementation, case: Case, dtype: str, subject: Subject) -> Iterator[Compared]:
    """Run one case and yield every comparison with the expectation; nothing where it is not for this implementation."""
    fitted = _fitted(case, implementation)
    if fitted is None or (dtype == "fp16" and case.values in _TOO_LARGE_FOR_FP16):
        return
    if case.values in BUILT and fitted.width != case.width:
        return
    trial = Trial(subject, fitted)
    try:
        yield from _compare(trial)
    except (*FOREIGN, Departure, RuntimeError) as error:
        yield Compared("everything", trial.case, float("inf"), str(error))


def _compare(trial: Trial) -> Iterator[Compared]:
    result, expectation = trial.run(), trial.expectation()
    yield _compared("output", trial, result.output, expectation.output, expectation.unspecified_rows)
    if result.second is not None and trial.capabilities.second is not None:
        kind = trial.capabilities.second
        yield _compared("second result", trial, result.second, second_near(kind, expectation), _unfixed(trial, kind))
    if trial.capabilities.gradient != "none" and _differentiable(trial):
        yield from _gradients(trial, result)


def _fitted(case: Case, implementation: Implementation) -> Case | None:
    """Return the case as the implementation gets it: without its options, or its mask too, where they rule it out."""
    plain = replace(case, causal=False, scale=None, bias=None, window=None, softcap=None, kv_heads=None, shared="")
    for form in (case, plain, replace(plain, mask=None)):
        fitted = fit(form, implementation)
        if not isinstance(fitted, Excluded):
            return replace(fitted, value_width=fitted.width) if fitted.shared == "qkv" else fitted
    return None


def _unfixed(trial: Trial, kind: str) -> Tensor | None:
    """Return the rows of a second result that no convention fixes."""
    empty = trial.expectation().truth.empty
    if trial.capabilities.empty_row != "unspecified" or not bool(empty.any()):
        return None
    if kind == "averaged weights":
        return empty.any(-3)
    return empty if kind.endswith("weights") else empty.squeeze(-1)


def _differentiable(trial: Trial) -> bool:
    """Say whether the gradient is fixed: that of an empty row answered by NaN, say, is not.

    Two families are left out in fp16. Gradients of tiny values are below its normal numbers, where torch's own kernel
    adds up blocks of 32 queries in the working dtype (1.5 times the bound at 130 queries); on a ramp of 257 keys the
    sums of a softmax that is divided late pass 65504 in the backward pass.
    """
    if trial.dtype == "fp16" and trial.case.values in ("tiny", "ramp"):
        return False
    return not trial.case.may_have_empty_rows or trial.capabilities.empty_row in ("uniform", "zeros")


def _gradients(trial: Trial, result: Result) -> Iterator[Compared]:
    found = trial.input_gradients(result)
    expected = trial.expected_sums()
    for name, gradient in found.items():
        yield _compared(f"gradient of the {name}", trial, gradient, expected[name])


def _compared(what: str, trial: Trial, actual: Tensor, near: Near, ignore: Tensor | None = None) -> Compared:
    try:
        return Compared(what, trial.case, require_near(what=what, actual=actual, near=near, ignore=ignore))
    except Departure as departure:
        ratio = float("inf") if departure.ratio is None else departure.ratio
        return Compared(what, trial.case, ratio, departure.text)


def measure(program: Program, seeds: Iterable[int], number: int = CASES, dtypes: tuple[str, ...] = ()) -> Tallies:
    """Return the tallies of one program, by its name and dtype."""
    implementation = describe(program.target, **program.capabilities)
    tallies: Tallies = {}
    for dtype in implementation.capabilities.dtypes:
        if dtypes and dtype not in dtypes:
            continue
        tally = tallies.setdefault((program.name, dtype), Tally())
        for seed in seeds:
            subject = Subject(implementation, dtype)
            for case in cases(seed, number):
                for compared in comparisons(implementation, case, dtype, subject):
                    tally.add(compared)
    return tallies


def upper_bound(count: int) -> float:
    """Return the 95 % upper bound on a probability of which `count` independent trials showed nothing."""
    return 1 - 0.05 ** (1 / count) if count else 1.0


def summary(tallies: Tallies) -> dict[str, object]:
    """Return what `worst.json` holds."""
    count = sum(tally.count for tally in tallies.values())
    beyond = sum(len(tally.beyond) for tally in tallies.values())
    dtypes = sorted({dtype for _, dtype in tallies})
    worst = {dtype: max(tally.worst for (_, own), tally in tallies.items() if own == dtype) for dtype in dtypes}
    programs: dict[str, dict[str, float]] = {}
    for (name, dtype), tally in tallies.items():
        programs.setdefault(name, {})[dtype] = float(f"{tally.worst:.2g}")
    return {
        "comparisons": count,
        "above 1": beyond,
        "95 % upper bound on a false alarm": float(f"{upper_bound(count):.2g}") if not beyond else None,
        "worst": {dtype: float(f"{ratio:.2g}") for dtype, ratio in worst.items()},
        "programs": programs,
    }


def _one_seed(seed: int) -> Tallies:
    """Measure every program with one seed: expectations are shared between the programs."""
    torch.set_num_threads(1)
    tallies: Tallies = {}
    for program in SOUND:
        for key, tally in measure(program, [seed]).items():
            tallies.setdefault(key, Tally()).join(tally)
    return tallies


def main() -> int:
    """Measure, write the table, print what exceeds the bound, and return 1 if anything does."""
    parser = argparse.ArgumentParser(prog="python -m tests.soundness.measure", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many seeds; each adds some 20 cases to all programs")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    chosen = parser.parse_args()
    tallies: Tallies = {}
    started = time.monotonic()
    # A process for each seed or so: the expectations of a seed are of no use to the next one.
    with multiprocessing.get_context("fork").Pool(chosen.workers, maxtasksperchild=1) as pool:
        for done, found in enumerate(pool.imap_unordered(_one_seed, range(1, chosen.seeds + 1)), 1):
            for key, tally in found.items():
                tallies.setdefault(key, Tally()).join(tally)
            count = sum(tally.count for tally in tallies.values())
            worst = max(tally.worst for tally in tallies.values())
            print(
                f"{done} seeds, {count} comparisons, worst {worst:.3g}, {time.monotonic() - started:.0f} s", flush=True
            )
    told = summary(tallies)
    WORST.write_text(json.dumps({"seeds": chosen.seeds, **told}, indent=1) + "\n", encoding="utf-8")
    for (name, dtype), tally in sorted(tallies.items(), key=lambda item: -item[1].worst)[:10]:
        print(f"{tally.worst:.3g}  {name} [{dtype}]  {tally.where}")
    beyond = [f"{name} [{dtype}] {text}" for (name, dtype), tally in tallies.items() for text in tally.beyond]
    for text in beyond:
        print(f"ABOVE THE BOUND: {text}")
    print({name: value for name, value in told.items() if name != "programs"})
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
