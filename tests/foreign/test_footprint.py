"""How much memory a process and all that it started take."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from attention_conformance.foreign import footprint

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")

MIB = 2**20
# It holds some memory, shares it with as many forked copies as asked for, says so, and waits for its input to end.
HOLDING = """
import os, sys
held = b"\\1" * (int(sys.argv[1]) << 20)
for _ in range(int(sys.argv[2])):
    if not os.fork():
        os.read(0, 1)
        os._exit(0)
print("held", flush=True)
os.read(0, 1)
"""


@contextmanager
def holding(megabytes: int, copies: int = 0) -> Iterator[int]:
    """Yield the group of a process that holds so much."""
    command = [sys.executable, "-c", HOLDING, str(megabytes), str(copies)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, start_new_session=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        assert process.stdin is not None
        process.stdin.close()


def test_what_a_process_holds_is_counted() -> None:
    with holding(64) as group:
        assert 64 * MIB < footprint.taken_by(group) < 128 * MIB


def test_a_limit_is_told_when_it_is_passed() -> None:
    with holding(64) as group:
        assert footprint.Scales(group, 256 * MIB).excess() is None
        assert footprint.Scales(group, None).excess() is None
        said = footprint.Scales(group, 32 * MIB).excess()
    assert said == "its process took 0.1 GiB of memory, more than the 0.0 GiB that one may take"


def test_what_is_shared_with_a_forked_copy_is_counted_once() -> None:
    with holding(64, copies=5) as group:
        assert footprint.taken_by(group, limit=96 * MIB) < 128 * MIB


def test_what_was_started_counts_as_well() -> None:
    with holding(1, copies=1) as group:
        leader = footprint._own_bytes(str(group))
        assert leader < footprint.taken_by(group)
        assert footprint.Scales(group, leader).excess() is not None


def test_weighing_takes_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    weighed = []
    monkeypatch.setattr(footprint, "taken_by", lambda group, limit: weighed.append(group) or 0)
    scales = footprint.Scales(1, 2**50)
    assert [scales.excess() for _ in range(3)] == [None] * 3
    assert weighed == [1]


def test_a_part_of_what_there_is_may_be_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(footprint, "_available", lambda: iter([2**40, 16 * 2**30, 64 * 2**30]))
    assert footprint.allowance(1) == 12 * 2**30
    assert footprint.allowance(4) == 3 * 2**30
    assert footprint.allowance(1000) == footprint.LEAST


def test_where_nothing_is_known_nothing_is_limited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(footprint, "_PROC", tmp_path / "proc")
    assert footprint.allowance(1) is None
    assert footprint.taken_by(os.getpgrp()) == 0
    footprint.first_to_die()


@pytest.mark.parametrize(
    ("line", "file"),
    [("0::/a/b\n", "a/memory.max"), ("0::/a/b\n", "memory.max"), ("4:memory:/a\n", "memory/a/memory.limit_in_bytes")],
)
def test_the_limit_of_a_control_group_counts(
    line: str, file: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    proc, groups = tmp_path / "proc", tmp_path / "groups"
    (proc / "self").mkdir(parents=True)
    (proc / "self/cgroup").write_text("7:blkio:/elsewhere\n" + line)
    (proc / "meminfo").write_text("MemTotal:        8388608 kB\nMemFree: 1 kB\n")
    (groups / file).parent.mkdir(parents=True)
    (groups / file).write_text(f"{4 * 2**30}\n")
    monkeypatch.setattr(footprint, "_PROC", proc)
    monkeypatch.setattr(footprint, "_GROUPS", groups)
    assert footprint.allowance(1) == 3 * 2**30
    (groups / file).write_text("max\n")
    assert footprint.allowance(1) == 6 * 2**30


def test_a_child_offers_itself_to_the_kernel() -> None:
    code = "from attention_conformance.foreign.footprint import first_to_die; first_to_die(); print(open('/proc/self/oom_score_adj').read())"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "1000"
