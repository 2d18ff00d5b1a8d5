"""pytest: benchmark items, one for each group and contender, run and reported by pytest-benchmark.

    tests/test_attention.py            pytest's Module
        flash                          collection.RegisteredImplementation
            benchmark-forward-128                   flash itself
            benchmark-forward-128-reference         beside it, on the same inputs
            benchmark-forward-128-torch

No brackets: pytest 9.2 reads them in ids as those of its own parametrization. They are pytest functions, unlike the rules, because pytest-benchmark is a fixture.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ..errors import ConformanceError
from ..foreign.process_state import process_state_kept
from ..implementation import Implementation
from .benchfile import extra
from .benchmark import parse_sizes
from .contenders import Contender, contenders
from .groups import Group, NotMeasured, Plan, case_for, groups
from .measure import WARMUPS
from .meter import peak_bytes
from .series import label
from .workload import Workload

ROUNDS = 10

UNDER_XDIST = (
    "benchmarks are not run under pytest-xdist: its processes disturb each other's times, so that pytest-benchmark "
    "switches itself off there. Run them without -n."
)


def benchmark_items(owner: pytest.Collector, implementation: Implementation) -> Iterator[pytest.Item]:
    """Yield the items that the capabilities allow, group by group. Raises pytest.UsageError."""
    if not owner.config.pluginmanager.hasplugin("benchmark"):
        raise pytest.UsageError("--attention-benchmark needs pytest-benchmark: take -p no:benchmark away.")
    try:
        plan = Plan(sizes=parse_sizes(owner.config.getini("attention_benchmark_sizes")))
    except ConformanceError as error:
        raise pytest.UsageError(f"attention_benchmark_sizes: {error}") from None
    entries = contenders(owner.name, implementation)
    try:
        found = groups(plan, implementation)
    except NotMeasured:
        return
    for group in found:
        yield from (_item(owner, group, entry) for entry in entries if _takes_part(group, entry))


def _takes_part(group: Group, entry: Contender) -> bool:
    try:
        case_for(group, entry.implementation)
    except NotMeasured:
        return False
    return True


def _item(owner: pytest.Collector, group: Group, entry: Contender) -> BenchmarkItem:
    beside = "" if entry.asked else f"-{entry.role}"
    direction = "forward" if group.direction == "forward" else "backward"
    name = f"benchmark-{direction}-{group.length}{beside}"
    shown = owner.name if entry.asked else f"{label(entry.name, entry.role)} (beside {owner.name})"
    item: BenchmarkItem = BenchmarkItem.from_parent(owner, name=name, callobj=_function(group, entry, shown))
    item.add_marker("attention")
    item.add_marker("attention_benchmark")
    item.add_marker(pytest.mark.benchmark(group=group.name))
    return item


class BenchmarkItem(pytest.Function):
    """One contender in one group. What it raises is shown as one sentence."""

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return the test module and what failures are headed with."""
        return self.path, 0, f"{self.parent.name if self.parent is not None else ''} {self.name}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the text of our own errors alone; anything else is shown as usual."""
        if isinstance(excinfo.value, ConformanceError):
            return f"{self.nodeid}: {excinfo.value}"
        return super().repr_failure(excinfo)


def _function(group: Group, entry: Contender, shown: str) -> Callable[..., None]:
    def attention_benchmark(benchmark: Any, request: pytest.FixtureRequest) -> None:
        if os.environ.get("PYTEST_XDIST_WORKER") or request.config.getoption("dist", "no") != "no":
            pytest.skip(UNDER_XDIST)
        with process_state_kept():
            _run(benchmark, group, entry, shown)

    return attention_benchmark


def _run(benchmark: Any, group: Group, entry: Contender, shown: str) -> None:
    import torch

    workload = Workload(entry.implementation, group)
    about = extra(entry.name, entry.role, group.plain(), workload.told, torch.get_num_threads(), None)
    # The group says the rest, so that pytest-benchmark's table compares names at a glance.
    benchmark.name = shown
    benchmark.extra_info.update(about)
    benchmark.pedantic(workload, rounds=ROUNDS, warmup_rounds=WARMUPS, iterations=1)
    if benchmark.enabled:
        benchmark.extra_info["peak_bytes"] = peak_bytes(workload, group.device)
