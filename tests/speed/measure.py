"""Measure how fast the suite is. Run `python -m tests.speed.measure`; several minutes, nothing is written.

Prints the seconds of a check, warm and cold, beside scikit-learn's check of an estimator; where the time of a warm
check goes; the seconds and memory of audits of up to a hundred kernels; and what the plugin costs other people's runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import torch

from . import audits, checks, kernels, plugin_cost
from .shares import shares

SIZES = (10, 25, 50, 100)


def check_lines(rounds: int) -> Iterator[str]:
    """Tell the seconds of a check."""
    found = checks.measured(rounds)
    ratio = found.to_estimator
    yield f"check, warm          {found.warm}"
    yield f"check_estimator      {found.estimator}"
    yield f"  ratio              {ratio.median:.2f} ({min(ratio.rounds):.2f} to {max(ratio.rounds):.2f})"
    yield f"check, cold          {found.cold}"
    yield f"  cold to warm       {found.to_warm:.2f}"


def share_lines(rounds: int) -> Iterator[str]:
    """Tell where the time of a warm check goes."""
    found = [shares() for _ in range(rounds)]
    for name in found[0]:
        yield f"  {name:22} {100 * median(each[name] for each in found):3.0f} %"


def audit_lines(title: str, made: Iterator[kernels.Kernel], sizes: Sequence[int]) -> Iterator[str]:
    """Tell the seconds and the memory of audits of several sizes."""
    yield f"audit -n 2, {title}"
    with tempfile.TemporaryDirectory() as folder:
        targets = kernels.write(Path(folder), made, max(sizes))
        done = []
        for size in sizes:
            done.append(audits.audited(targets[:size], Path(folder)))
            yield f"  {size:3} kernels          {done[-1].seconds:6.1f} s, {done[-1].records} records"
    if len(done) > 1:
        line = audits.growth(done)
        yield f"  line               {line.start:.1f} s + {line.each:.2f} s per kernel, {100 * line.off:.0f} % off at most"
        yield f"  exponent           {line.exponent:.2f}"
        yield f"  parent's memory    {line.per_record / 1000:.1f} KB per record"


def plugin_lines(rounds: int) -> Iterator[str]:
    """Tell what the plugin costs a run of pytest that does not use it, from its bytecode and from its source."""
    with tempfile.TemporaryDirectory() as empty:
        sources = {"PYTHONPYCACHEPREFIX": empty, "PYTHONDONTWRITEBYTECODE": "1"}
        for title, settings in (("with bytecode", {}), ("without bytecode", sources)):
            found = [_plugin(settings) for _ in range(rounds)]
            milliseconds = [1000 * each["seconds"] for each in found]
            yield f"plugin, {title:16} {median(milliseconds):4.1f} ms ({min(milliseconds):.1f} to {max(milliseconds):.1f})"
    yield f"  modules            {', '.join(found[0]['modules'])}"


def _plugin(settings: dict[str, str]) -> dict[str, object]:
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **settings}
    ran = subprocess.run([sys.executable, plugin_cost.__file__], env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, object] = json.loads(ran.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.speed.measure", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="how often a short thing is timed")
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=SIZES, help="how many kernels are audited; none: no audit"
    )
    given = parser.parse_args()
    torch.set_num_threads(1)
    parts = [check_lines(given.rounds), share_lines(given.rounds), plugin_lines(given.rounds)]
    if given.sizes:
        parts.append(audit_lines("sound kernels", kernels.sound(), given.sizes))
        parts.append(audit_lines("one in five faulty", kernels.with_faults(5), given.sizes))
    for part in parts:
        for line in part:
            print(line, flush=True)


if __name__ == "__main__":
    main()
