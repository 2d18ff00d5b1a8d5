"""How fast an implementation is and how much memory it takes, beside its reference and torch's own, and how both grow.

for result in bench_many(["mykernels:attend"]):
    print(result)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import ConformanceError
from ..isolation import TIMEOUT
from .contenders import SDPA, covered
from .groups import Plan
from .listening import Hear, Task, work_through
from .measure import Failure, Measurement

DEFAULT_TARGETS = (SDPA,)
"""What is measured when no target is named."""


class InvalidSizes(ConformanceError, ValueError):
    """A list of lengths that holds something else."""


def bench_many(
    targets: Iterable[str],
    settings: Mapping[str, Any] | None = None,
    *,
    plan: Plan | None = None,
    threads: int | None = None,
    timeout: float = TIMEOUT,
    hear: Hear = lambda text: None,
) -> Iterator[Measurement | Failure]:
    """Measure targets one after another, each in a child process beside its reference and torch's own, and yield what
    comes of each group. One call may take `timeout` seconds; `hear` is told what is measured now.

    Raises WorkerFailed if no child starts.
    """
    given = tuple(dict.fromkeys(targets))
    for text in given if settings else covered(given):
        yield from work_through(Task(text, settings or {}, plan or Plan(), threads, timeout), hear)


def parse_sizes(text: str) -> tuple[int, ...]:
    """Return the lengths of `128,256,512`, sorted. Raises InvalidSizes."""
    words = [word.strip() for word in text.split(",") if word.strip()]
    if not words or not all(word.isascii() and word.isdigit() and int(word) > 0 for word in words):
        raise InvalidSizes(f"{text!r} is no list of lengths; write numbers above 0 with commas between: 128,256,512.")
    return tuple(sorted({int(word) for word in words}))
