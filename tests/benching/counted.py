"""Fakes whose time and memory are counted, so that no test depends on a machine: work instead of seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from attention_conformance.benching.contenders import Contender
from attention_conformance.benching.groups import Group, Plan, groups
from attention_conformance.benching.measure import Failure, Measurement, measure
from attention_conformance.implementation import describe
from attention_conformance.reference.attention import attention

SIZES = (8, 16, 32, 64)


class Machine:
    """Counts work: its clock shows the units so far, its meter what one call took."""

    def __init__(self) -> None:
        self.work = 0.0
        self.calls: list[str] = []

    def clock(self) -> float:
        """Return the units of work so far."""
        return self.work

    def meter(self, call: Callable[[], object], device: str) -> int | None:
        """Return the units of one call as if they were bytes."""
        before = self.work
        call()
        return round(self.work - before)

    def kernel(self, name: str, units: Callable[[int], float]) -> Callable[..., Any]:
        """Return the document's kernel, whose call at length L takes `units(L)`."""

        def kernel(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
            self.work += units(query.shape[-2])
            self.calls.append(name)
            return attention(query, key, value, mask)

        return kernel

    def contender(self, name: str, role: str, units: Callable[[int], float]) -> Contender:
        """Return such a kernel as somebody in a run."""
        return Contender(name, role, describe(self.kernel(name, units), name=name), asked=role == "target")

    def race(self, *entries: Contender, rounds: int | None = 3) -> list[Measurement | Failure]:
        """Measure contenders forward at every size."""
        found: list[Measurement | Failure] = []
        for group in small_groups(entries[0]):
            found += measure(group, entries, rounds=rounds, clock=self.clock, processor=self.clock, meter=self.meter)
        return found


def small_groups(entry: Contender, sizes: Sequence[int] = SIZES) -> list[Group]:
    """Return small forward groups."""
    return groups(Plan(sizes=tuple(sizes), directions=("forward",), heads=2, width=4), entry.implementation)


def measured(results: Sequence[Measurement | Failure], name: str) -> list[Measurement]:
    """Return the measurements of one contender."""
    return [each for each in results if isinstance(each, Measurement) and each.name == name]


def failed(results: Sequence[Measurement | Failure]) -> list[Failure]:
    """Return the failures."""
    return [each for each in results if isinstance(each, Failure)]


def made(
    name: str = "kernels:attend", role: str = "target", *, direction: str = "forward",
    units: Callable[[int], float] = float, sizes: Sequence[int] = SIZES, ratio: float = 1.0, peak: bool = True,
) -> list[Measurement]:  # fmt: skip
    """Return made-up measurements whose time and memory are `units(L)` milliseconds and KiB."""
    found = []
    for size in sizes:
        group = Group(size, direction, "none", "fp32", "cpu", 1, 2, 4)
        seconds = tuple(units(size) * 1e-3 * (1 + noise) for noise in (-0.01, 0.0, 0.01))
        memory = round(units(size) * 1024) if peak else None
        found.append(Measurement(name, role, group, seconds, (ratio,) * 3, memory, 1, "no mask"))
    return found


def threads() -> int:
    """Return torch's number of threads."""
    return torch.get_num_threads()
