"""Judge the same implementations again and again under other seeds and orders, and count what changes.

Run `python -m tests.flakiness.measure --repeats 1000`. Each repeat takes a seed of its own for every case and for the
global generator, which dropout rules draw from, and a shuffled order of rules. No outcome of a sound implementation
may change, and no verdict over a faulty one.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from attention_conformance.implementation import Implementation, describe
from attention_conformance.records import Key, Outcome, Record
from attention_conformance.reference.attention import attention
from attention_conformance.rulebook import get_rule
from attention_conformance.runner import Examination
from attention_conformance.selection import plan
from attention_conformance.verdicts import verdict


def dropping(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """The documents' kernel with dropout on its weights."""
    weights = attention(query, key, value, mask)[1]
    return torch.dropout(weights, dropout, train=True) @ value, weights


def one_percent_off(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """A scale that is one percent too large."""
    return attention(query * 1.01, key, value, mask)


def epsilon(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """A small number in the denominator of the softmax."""
    output, weights = attention(query, key, value, mask)
    return output / (1 + 1e-4), weights / (1 + 1e-4)


def heavier(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Dropout without the factor 1 / (1 - q)."""
    weights = attention(query, key, value, mask)[1]
    return torch.dropout(weights, dropout, train=True) * (1 - dropout) @ value, weights


SOUND: Mapping[str, Implementation] = {
    "the document's kernel": describe(attention, dtypes=("fp32",)),
    "dropout": describe(dropping, dtypes=("fp32",), options=("dropout",)),
}
FAULTY: Mapping[str, Implementation] = {
    "scale": describe(one_percent_off, dtypes=("fp32",)),
    "epsilon": describe(epsilon, dtypes=("fp32",)),
    "dropout without factor": describe(heavier, dtypes=("fp32",), options=("dropout",)),
}


@contextmanager
def generator_shifted(seed: int) -> Iterator[None]:
    """Let every `torch.manual_seed(n)` of the rules take another seed."""
    real: Callable[[int], torch.Generator] = torch.manual_seed
    with mock.patch.object(torch, "manual_seed", lambda number: real(number + 7_368_787 * seed)):
        yield


def judge(
    implementation: Implementation, seed: int = 0, order: int | None = None, select: tuple[str, ...] = ()
) -> dict[Key, Record]:
    """Return the records of one judgement; `order` shuffles the rules."""
    keys = list(plan(implementation, select=select))
    if order is not None:
        random.Random(order).shuffle(keys)
    examination = Examination(implementation, seed=seed)
    with generator_shifted(seed):
        return {key: examination.run_one(get_rule(key.rule), key.dtype) for key in keys}


def outcomes(records: Mapping[Key, Record]) -> dict[Key, Outcome]:
    """Return the outcomes alone."""
    return {key: record.outcome for key, record in records.items()}


def _repeat(number: int) -> list[str]:
    """Judge everybody once and return what differs from the judgement with seed 0."""
    torch.set_num_threads(1)
    changed = []
    for name, implementation in SOUND.items():
        records, expected = judge(implementation, number, number), _baseline(name)
        changed += [
            f"{name}: {key} {record.outcome} instead of {expected[key]}, seed {number}\n{record.message[:600]}"
            for key, record in records.items()
            if record.outcome is not expected[key]
        ]
    for name, implementation in FAULTY.items():
        found = verdict(
            implementation, judge(implementation, number, number, ("NUMERIC", "WEIGHTS", "OPTIONS")).values()
        )
        if found.value != "departs":
            changed.append(f"{name}: {found} with seed {number}")
    return changed


_known: dict[str, dict[Key, Outcome]] = {}


def _baseline(name: str) -> dict[Key, Outcome]:
    if name not in _known:
        _known[name] = outcomes(judge(SOUND[name]))
    return _known[name]


def main() -> int:
    """Repeat, print every change, and return 1 if there was one."""
    parser = argparse.ArgumentParser(prog="python -m tests.flakiness.measure", description=__doc__)
    parser.add_argument("--repeats", type=int, default=1000, help="how many judgements of each implementation")
    parser.add_argument("--workers", type=int, default=1, help="processes at a time")
    chosen = parser.parse_args()
    changes: Counter[str] = Counter()
    started = time.monotonic()
    # A new process now and then: what is expected under one seed is of no use to the next and would pile up.
    with multiprocessing.get_context("fork").Pool(chosen.workers, maxtasksperchild=50) as pool:
        for done, changed in enumerate(pool.imap_unordered(_repeat, range(1, chosen.repeats + 1)), 1):
            for text in changed:
                changes[text.split(",")[0]] += 1
                print(text, flush=True)
            if done % 50 == 0:
                print(f"{done} repeats, {changes.total()} changes, {time.monotonic() - started:.0f} s", flush=True)
    print(f"{chosen.repeats} repeats of {len(SOUND) + len(FAULTY)} implementations: {changes.total()} verdicts changed")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
