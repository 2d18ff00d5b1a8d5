"""Memory: how much a process and all that it started take, how much one may take, and who dies first.

Read from Linux's /proc; elsewhere nothing is known and nothing is limited.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

SHARE = 0.75
"""Which part of the memory there is all workers together may take."""

LEAST = 2**30
"""Bytes that each may take however many there are: torch alone takes a quarter of it."""

_WEIGH_SECONDS = 0.2
_WEIGH_ALL_SECONDS = 1.0
_PROC = Path("/proc")
_GROUPS = Path("/sys/fs/cgroup")


def first_to_die() -> None:
    """Have the kernel end this process, not its parent or somebody else's, when memory runs out."""
    with suppress(OSError):
        (_PROC / "self/oom_score_adj").write_text("1000")


def allowance(workers: int) -> int | None:
    """Return the bytes that one of some workers may take; None where it is unknown how many there are."""
    total = min(_available(), default=None)
    return None if total is None else max(LEAST, int(SHARE * total) // workers)


def _available() -> Iterator[int]:
    """Yield the memory of the machine and the limits of the control groups of this process."""
    for line in _lines(_PROC / "meminfo"):
        if line.startswith("MemTotal:"):
            yield int(line.split()[1]) * 1024
    for line in _lines(_PROC / "self/cgroup"):
        _, kind, path = line.split(":", 2)
        base, name = ("", "memory.max") if not kind else (kind, "memory.limit_in_bytes")
        if base in ("", "memory"):
            root = _GROUPS / base
            folder = root / path.lstrip("/")
            for place in (folder, *folder.parents):
                if place.is_relative_to(root):
                    yield from (int(text) for text in _lines(place / name) if text.isdecimal())


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def taken_by(group: int, limit: int = 0) -> int:
    """Return the bytes of memory that belong to the processes of a group alone; 0 where that is unknown.

    Up to `limit` it may be more than they take: what they share after a fork is then counted for each, which is quick.
    """
    if not _PROC.is_dir():
        return 0
    members = [entry for entry in os.listdir(_PROC) if entry.isdecimal() and _group(entry) == group]
    taken = sum(map(_own_bytes, members))
    return sum(map(_exact_bytes, members)) if taken > limit and len(members) > 1 else taken


def _group(process: str) -> int:
    # The name, in brackets, can hold anything; state, parent and group follow it.
    for line in _lines(_PROC / process / "stat")[-1:]:
        return int(line.rpartition(")")[2].split()[2])
    return -1


def _own_bytes(process: str) -> int:
    for line in _lines(_PROC / process / "statm"):
        _, resident, shared, *_ = map(int, line.split())
        return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _exact_bytes(process: str) -> int:
    """Return its bytes and its part of those that it shares, which takes the kernel much longer to tell."""
    for line in _lines(_PROC / process / "smaps_rollup"):
        if line.startswith("Pss_Anon:"):
            return int(line.split()[1]) * 1024
    return _own_bytes(process)


class Scales:
    """Weighs the leader of a group of processes often, and the whole group as often as takes next to no time: all
    processes of the machine are looked through for it."""

    def __init__(self, group: int, limit: int | None) -> None:
        self._group, self._limit = group, limit
        self._next = self._next_of_all = 0.0

    def excess(self) -> str | None:
        """Return what is to be said of a group that takes more than it may; None if it does not."""
        now = time.monotonic()
        if self._limit is None or now < self._next:
            return None
        self._next = now + _WEIGH_SECONDS
        taken = _own_bytes(str(self._group))
        if taken <= self._limit and now >= self._next_of_all:
            taken = taken_by(self._group, self._limit)
            after = time.monotonic()
            self._next_of_all = after + max(_WEIGH_ALL_SECONDS, 200 * (after - now))
        if taken <= self._limit:
            return None
        return f"its process took {_told(taken)} of memory, more than the {_told(self._limit)} that one may take"


def _told(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
