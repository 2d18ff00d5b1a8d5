"""Audits of more and more kernels: their seconds, whether these grow in a line, and the memory of the parent."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

_PARENT = """
import re, sys
from attention_conformance.cli import run
code = run(sys.argv[1:])
print(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1], file=sys.stderr)
sys.exit(code)
"""
"""Runs the command and prints the most memory that this very process had, in KB. Children are not in it."""


@dataclass(frozen=True)
class Audit:
    """One audit: how many kernels and records, its seconds, and the parent's peak of memory in bytes."""

    kernels: int
    records: int
    seconds: float
    peak: int


@dataclass(frozen=True)
class Growth:
    """A line through audits of several sizes: `start` + `each` * kernels, the largest distance from it as a share of
    the seconds, the exponent of a power law, and the parent's bytes for each record."""

    start: float
    each: float
    off: float
    exponent: float
    per_record: float


def audited(targets: Sequence[str], folder: Path, workers: int = 2) -> Audit:
    """Audit some kernels by the command, in a process of its own."""
    file = folder / "result.jsonl"
    arguments = ["audit", "-n", str(workers), "-q", "--json", str(file), *targets]
    started = time.perf_counter()
    ran = subprocess.run([sys.executable, "-c", _PARENT, *arguments], capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if ran.returncode not in (0, 1):
        raise RuntimeError(f"the audit ended with exit code {ran.returncode}:\n{ran.stderr}")
    footer = json.loads(file.read_text(encoding="ascii").splitlines()[-1])
    return Audit(len(targets), footer["records"], seconds, int(ran.stderr.split()[-1]) * 1024)


def growth(audits: Sequence[Audit]) -> Growth:
    """Fit a line to the seconds over the kernels, and the parent's peak over the records."""
    kernels, seconds = [audit.kernels for audit in audits], [audit.seconds for audit in audits]
    each, start = np.polyfit(kernels, seconds, 1)
    off = max(abs(start + each * audit.kernels - audit.seconds) / audit.seconds for audit in audits)
    exponent = np.polyfit([math.log(number) for number in kernels], [math.log(one) for one in seconds], 1)[0]
    per_record = np.polyfit([audit.records for audit in audits], [audit.peak for audit in audits], 1)[0]
    return Growth(float(start), float(each), float(off), float(exponent), float(per_record))
