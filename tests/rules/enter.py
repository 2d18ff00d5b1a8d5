"""Enter new rules and new faulty programs into the tables: `python -m tests.rules.enter`.

A new rule is one that `rules_caught.json` does not hold, a new mutant one that `power.json` does not. New ids are added
to `ids.txt`. New mutants are judged by the default tier, and by the thorough one if that does not reject them; new rules
are tried on the new mutants, a few others of their family, and every sound program. What the tables hold already is not
measured again. Where a rule rejects nobody faulty or blames somebody sound, or no rule rejects a mutant, nothing is
entered, and the exit status is 1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from attention_conformance import check
from attention_conformance.rulebook import Rule, catalogue
from tests.zoo.faulty import MUTANTS
from tests.zoo.sound import SOUND

from .measure_power import (
    CAUGHT,
    FOLDER,
    KEPT,
    POPULATION,
    POWER,
    Bench,
    by_default,
    by_rule,
    keep,
    power_table,
    repeated,
)

IDS = FOLDER / "ids.txt"
"""Every id that was ever given, one a line."""

_CALLS = "no case calls it so: "
NOT_CAUGHT: dict[str, str] = {
    "mask_of_three_axes_per_sample": _CALLS + "a mask (H, L, S) to a module whose batch equals its heads",
    "masked_nan_leaks": "arguable: the document's kernels leak NaN too, the thorough tier asks",
    "qk_overflow_before_scale_fp16": "arguable: products above 65504 overflow in every eager fp16 kernel",
    "weights_returned_after_dropout": "arguable: well-known modules return the dropped weights",
    "heads_that_do_not_divide_accepted": "a module may have an inner width below d_model; no position is mixed",
}
"""Mutants that no rule rejects, each with the reason."""


def main() -> int:
    """Measure what is new, tell what came of it, enter it if all is well, and return the exit status."""
    torch.set_num_threads(1)
    bench, power, caught = Bench(2), _read(POWER), _read(CAUGHT)
    mutants = [mutant.name for mutant in MUTANTS if mutant.name not in {*power, *NOT_CAUGHT}]
    rules = [rule for rule in catalogue().values() if rule.id not in caught]
    judged = dict(found for found in bench.each(by_default, mutants) if found is not None)
    power |= power_table(judged, bench)
    caught |= {rule.id: rejected_by(rule, mutants, bench) for rule in rules}
    accused = {rule.id: blamed(rule) for rule in rules}
    if not rules and not mutants:
        print("nothing is new")
    for rule in rules:
        print(f"{rule.id} rejects {', '.join(caught[rule.id]) or 'no faulty program; add one to tests/zoo/faulty'}")
        print(f"{rule.id} blames {', '.join(accused[rule.id]) or 'none'} of {len(SOUND)} sound programs")
    for name in mutants:
        print(f"{name} is rejected by {power[name]['rule'] if name in power else 'no rule'}")
    right = all(caught[rule.id] and not accused[rule.id] for rule in rules) and set(mutants) <= set(power)
    if right:
        keep(power, caught)
        _enter_ids()
    else:
        print("nothing was entered")
    return int(not right)


def blamed(rule: Rule) -> tuple[str, ...]:
    """Return the sound programs that a rule speaks against in any dtype, each with what was seen."""
    tier = "thorough" if rule.thorough else "default"
    found = {
        program.name: record.seen
        for program in SOUND
        for record in check(program.target, tier=tier, select=(rule.id,), **program.capabilities)
        if record.rule == rule.id and record.bad
    }
    return tuple(f"{name} ({seen.splitlines()[0]})" for name, seen in found.items())


def rejected_by(rule: Rule, new: Sequence[str], bench: Bench) -> dict[str, str | None]:
    """Return a few mutants that a rule rejects with a dtype in which it does: new ones first, then its family's."""
    own = [name for name, mutant in POPULATION.items() if rule.family in mutant.families and name not in new]
    found = bench.each(by_rule, [(name, rule.id) for name in (*new, *own[:KEPT])])
    rejected = [result for result in found if result is not None and result[1]]
    again = zip(rejected, bench.each(repeated, rejected), strict=True)
    confirmed = [(name, each.dtype) for (name, _), each in again if each is not None]
    return dict(confirmed[:KEPT])


def _enter_ids() -> None:
    ever = {*IDS.read_text(encoding="utf-8").split(), *catalogue()}
    IDS.write_text("\n".join(sorted(ever)) + "\n", encoding="utf-8")


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


if __name__ == "__main__":
    sys.exit(main())
