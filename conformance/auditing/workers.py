"""Implementations judged in child processes: targets dealt out to batches, here or on an executor, and what comes of them."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from typing import Any

from ..isolation import TIMEOUT
from ..loading import holds_one
from ..records import Record
from ..results import Audited, Described, Line, to_described, to_judged, to_record
from .batch import Ordered, Task, work_through
from .sharding import WHOLE, Shard, parse_shard


def run_task(task: str) -> list[str]:
    """Work through a task given as JSON and return its lines as JSON: what an executor is given to run."""
    fields = json.loads(task)
    targets = tuple(Ordered(**{**each, "shard": Shard(**each["shard"])}) for each in fields.pop("targets"))
    fields["select"] = tuple(fields["select"])
    lines: list[str] = []
    work_through(Task(targets, **fields), lambda line: lines.append(json.dumps(line)))
    return lines


def batches(
    targets: Iterable[tuple[str, Mapping[str, Any]]], number: int, *, shard: Shard | None = None, **how: Any
) -> list[Task]:
    """Deal targets out to `number` tasks, in turn; a target that occurs twice is judged once, and what belongs to another
    part of a run (`shard`) is left out."""
    settings = dict(targets)
    ordered = [Ordered(text, settings[text], place, shard or WHOLE) for place, text in enumerate(settings)]
    chosen = [each for each in ordered if each.shard.holds(each.place) or not holds_one(each.text)]
    number = max(1, min(number, len(chosen)))
    dealt = [tuple(chosen[start::number]) for start in range(number)]
    threads = max(1, (os.cpu_count() or 1) // number)
    return [Task(each, threads=threads, workers=number, **how) for each in dealt if each]


def lines(tasks: Sequence[Task], executor: Executor | None = None) -> Iterator[Line]:
    """Yield the lines of some tasks as they come: from threads of this process, or from an executor task by task.

    Closing the iterator, as Ctrl-C does, ends the children. Raises WorkerFailed.
    """
    if executor is None:
        yield from _from_threads(tasks)
        return
    futures = [executor.submit(run_task, json.dumps(asdict(task))) for task in tasks]
    try:
        for future in futures:
            for line in future.result():
                yield json.loads(line)
    finally:
        for future in futures:
            future.cancel()


def _from_threads(tasks: Sequence[Task]) -> Iterator[Line]:
    arrived: queue.Queue[Line | BaseException | None] = queue.Queue()
    stopped = threading.Event()

    def work(task: Task) -> None:
        try:
            work_through(task, arrived.put, stopped)
            arrived.put(None)
        except BaseException as error:  # noqa: BLE001 - raised again where the lines are read
            arrived.put(error)

    threads = [threading.Thread(target=work, args=(task,), daemon=True) for task in tasks]
    for thread in threads:
        thread.start()
    try:
        running = len(threads)
        while running:
            try:
                line = arrived.get(timeout=0.5)  # without it Windows would not hear Ctrl-C
            except queue.Empty:
                continue
            if isinstance(line, BaseException):
                raise line
            if line is None:
                running -= 1
            else:
                yield line
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def gather(lines: Iterable[Line]) -> Iterator[Audited]:
    """Yield each implementation when its verdict comes."""
    described: dict[str, Described] = {}
    records: dict[str, list[Record]] = {}
    for line in lines:
        if line["type"] == "implementation":
            described[line["name"]] = to_described(line)
        elif line["type"] == "record":
            records.setdefault(line["implementation"], []).append(to_record(line))
        elif line["type"] == "verdict":
            name = line["implementation"]
            yield Audited(described.pop(name), tuple(records.pop(name, ())), to_judged(line))


def audit_many(
    targets: Iterable[str | tuple[str, Mapping[str, Any]]],
    executor: Executor | None = None,
    *,
    workers: int = 1,
    tier: str = "default",
    select: Iterable[str] = (),
    seed: int = 0,
    timeout: float = TIMEOUT,
    infer: bool = False,
    shard: str | None = None,
    memory: int | None = None,
) -> Iterator[Audited]:
    """Judge targets, each given as text or as (text, keywords of `register`), and yield each as it is finished.

    They are dealt out to `workers` tasks; each task runs in its own child process. With an `executor` (of
    `concurrent.futures`, or anything with its `submit`) the tasks run there, and each starts its child there. A
    record may take `timeout` seconds and a child `memory` bytes (by default its part of what there is, on Linux);
    another `seed` draws other values for every case. With `infer` undeclared capabilities are found out by a probe
    first. `shard`, as `I/N`, judges a part of the implementations. A target that cannot be loaded comes as
    `loaded == False`.

    Raises UnknownShard, UnknownRule for a selection that selects nothing, WorkerFailed if no child starts.
    """
    from ..selection import check_selection

    pairs = [(target, {}) if isinstance(target, str) else target for target in targets]
    chosen = tuple(sorted(check_selection(select)))
    part = None if shard is None else parse_shard(shard)
    how = {"tier": tier, "select": chosen, "seed": seed, "timeout": timeout, "infer": infer, "memory": memory}
    tasks = batches(pairs, workers, shard=part, **how)
    yield from gather(lines(tasks, executor))
