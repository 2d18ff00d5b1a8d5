"""The file of a benchmark, in the format of pytest-benchmark, so that `pytest-benchmark compare FILE...` reads it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import IO, Any

import torch

from ..foreign.edge import safe
from ..version import __version__
from .growth import Growth
from .measure import WARMUPS
from .series import Line, Row, Section


def write(file: IO[str], found: Iterable[Section]) -> None:
    """Write the sections as one JSON object."""
    json.dump(document(found), file, indent=4, ensure_ascii=True, allow_nan=False)
    file.write("\n")


def document(found: Iterable[Section]) -> dict[str, Any]:
    """Return what pytest-benchmark writes for `--benchmark-json`; what is ours stands in each `extra_info`."""
    # Through importlib: pytest-benchmark's own modules carry no types.
    plugin = importlib.import_module("pytest_benchmark.plugin")
    utils = importlib.import_module("pytest_benchmark.utils")
    return {
        "machine_info": _finite(plugin.pytest_benchmark_generate_machine_info()),
        "commit_info": _finite(utils.get_commit_info()),
        "benchmarks": [_benchmark(row, line) for section in found for line in section.lines for row in line.rows],
        "datetime": datetime.now(timezone.utc).isoformat(),
        "version": importlib.import_module("pytest_benchmark").__version__,
    }


def _benchmark(row: Row, line: Line) -> dict[str, Any]:
    group = row.group
    return {
        "group": group.name,
        "name": safe(row.label),
        "fullname": safe(f"attention-conformance bench::{row.name}::{group.name}"),
        "params": {"L": group.length, "direction": group.direction, "dtype": group.dtype, "mask": group.mask},
        "param": f"{group.direction}-{group.length}",
        "extra_info": {
            **extra(row.name, row.role, group.plain(), row.told, row.threads, row.peak),
            "ratio_to_reference": row.ratio,
            "waited": row.waited,
            **_growth("time", line.time),
            **_growth("memory", line.memory),
        },
        "options": {
            "disable_gc": True, "timer": "perf_counter", "min_rounds": len(row.seconds), "max_time": 0.0, "min_time": 0.0,
            "warmup": WARMUPS,
        },
        "stats": statistics_of(row.seconds),
    }  # fmt: skip


def statistics_of(seconds: Iterable[float]) -> dict[str, Any]:
    """Return pytest-benchmark's own statistics of some rounds, the rounds included."""
    stats = importlib.import_module("pytest_benchmark.stats").Stats()
    for value in seconds:
        stats.update(value)
    return {**stats.as_dict(), "data": list(stats.data), "iterations": 1}


def extra(
    name: str, role: str, group: Mapping[str, Any], told: str, threads: int, peak: int | None
) -> dict[str, Any]:  # fmt: skip
    """Return what stands in `extra_info` beside pytest-benchmark's own figures."""
    return {
        "implementation": safe(name),
        "role": role,
        **group,
        "mask_told": told,
        "threads": threads,
        "peak_bytes": peak,
        "torch": torch.__version__,
        "attention_conformance": __version__,
    }


def _growth(what: str, growth: Growth | None) -> dict[str, Any]:
    if growth is None:
        return {}
    exponent, error = round(growth.exponent, 4), round(growth.error, 4)
    return {f"{what}_exponent": exponent, f"{what}_exponent_error": error, f"{what}_exponent_over": list(growth.sizes)}


def _finite(found: Any) -> Any:
    """Return what a machine says of itself as JSON takes it."""
    return json.loads(json.dumps(found, default=str))
