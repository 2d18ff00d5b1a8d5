"""The parent's side of an audit: implementations judged in child processes, so that each costs at most itself.

A task is a batch of targets that one child works through. The child says what it is about to do before it does it
and sends each result as it comes; when it dies, the record in flight becomes an `error`, the rest of that
implementation `not-run`, and a fresh child goes on with the next. The parent knows the plan: nothing is lost silently.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field
from typing import Any

from .child import Child, Death
from .errors import ConformanceError
from .loading import holds_one
from .records import Key, Outcome, Record, Verdict, counts
from .results import (
    Audited,
    Described,
    Judged,
    Line,
    described_line,
    diagnoses,
    judged_line,
    record_line,
    to_described,
    to_judged,
    to_record,
    unloadable,
)
from .rulebook import get_rule
from .sharding import WHOLE, Shard, parse_shard

TIMEOUT = 60.0
"""Seconds that one record may take unless told otherwise."""

Emit = Callable[[Line], None]


class WorkerFailed(ConformanceError, RuntimeError):
    """A worker process did not start: nothing can be judged."""


def never_started(death: Death, module: str) -> WorkerFailed:
    """Return the error for a child that died before it was ready to serve by `module`."""
    return WorkerFailed(
        f"a worker process did not start ({death.how}). It needs this Python, torch and this package: try "
        f"python -c 'import {module}'. It said:\n{death.said}"
    )


@dataclass(frozen=True)
class Ordered:
    """A target with its settings, its place among all targets, and the part of a run that is judged here."""

    text: str
    settings: Mapping[str, Any]
    place: int = 0
    shard: Shard = WHOLE


@dataclass(frozen=True)
class Task:
    """A batch of targets, and how to judge them. A child may take `memory` bytes, by default its part, as one of
    `workers`, of what there is where it runs."""

    targets: tuple[Ordered, ...]
    tier: str = "default"
    select: tuple[str, ...] = ()
    seed: int = 0
    timeout: float = TIMEOUT
    infer: bool = False
    folder: str = field(default_factory=os.getcwd)
    threads: int | None = None
    memory: int | None = None
    workers: int = 1


@dataclass
class _Pending:
    """A target that is not finished: the names it turned out to hold, and those that are done."""

    target: Ordered
    names: list[str] | None = None
    done: set[str] = field(default_factory=set)

    @property
    def order(self) -> Line:
        """The target as a child is told of it."""
        shard = asdict(self.target.shard)
        own = {"text": self.target.text, "settings": self.target.settings, "place": self.target.place, "shard": shard}
        return {**own, "skip": sorted(self.done)}

    @property
    def finished(self) -> bool:
        return self.names is not None and self.done >= set(self.names)


@dataclass
class _Current:
    """The implementation that the child works on."""

    name: str
    keys: list[Key] = field(default_factory=list)
    records: dict[Key, Record] = field(default_factory=dict)
    running: Key | None = None

    @property
    def missing(self) -> list[Key]:
        return [key for key in self.keys if key not in self.records]


class _Batch:
    """Works through one task with as many children as it takes."""

    def __init__(self, task: Task, emit: Emit, stopped: threading.Event) -> None:
        self.task, self.emit, self.stopped = task, emit, stopped
        self.pending = [_Pending(target) for target in task.targets]
        self.current: _Current | None = None
        self.ready = False
        self.begun: str | None = None

    def run(self) -> None:
        while self.pending and not self.stopped.is_set():
            self.ready, self.begun = False, None
            task = self.task
            child = Child(self._order(), task.folder, task.timeout, task.threads, task.memory, task.workers)
            try:
                left = self._listen(child)
            finally:
                child.end()
            death = child.death()
            if not left and self.pending and not self.stopped.is_set():
                self._bury(death)

    def _order(self) -> Line:
        task = self.task
        order = {
            "targets": [each.order for each in self.pending],
            "tier": task.tier,
            "select": list(task.select),
            "seed": task.seed,
        }
        return {**order, "timeout": task.timeout, "infer": task.infer, "folder": task.folder}

    def _listen(self, child: Child) -> bool:
        """Take what comes. Return whether the child has left by itself, for a fresh one to go on."""
        for event in child.events(self.stopped):
            if event["type"] in ("done", "leave"):
                return bool(event["type"] == "leave")
            self._heard(event)
        return False

    def _heard(self, event: Line) -> None:
        """Take one event from the child."""
        kind = event["type"]
        if kind == "ready":
            self.ready = True
        elif kind == "target":
            self.begun = event["target"]
        elif kind == "unloadable":
            self._unloaded(event["why"])
        elif kind == "loaded":
            self.pending[0].names = event["names"]
            if self.pending[0].finished:
                self.pending.pop(0)
        elif kind == "implementation":
            self.current = _Current(event["name"])
            self.emit(event)
        elif self.current is not None and event["implementation"] == self.current.name:
            self._heard_of(self.current, event)

    def _heard_of(self, current: _Current, event: Line) -> None:
        kind = event["type"]
        if kind == "plan":
            current.keys = [Key(rule, dtype) for rule, dtype in event["keys"]]
            self.emit({"type": "planned", "implementation": current.name, "records": len(current.keys)})
        elif kind == "start":
            current.running = Key(event["rule"], event["dtype"])
        elif kind == "record":
            record = to_record(event)
            current.records[record.key] = record
            current.running = None
            self.emit(event)
        elif kind == "lost":
            self._leave_out(current, f"{Key(event['rule'], event['dtype'])}: the device keeps its error")
            self._finish(current, Verdict.BROKEN)
        elif kind == "verdict":
            lost = current.missing
            if lost:
                self._fill(current, lost[0], "its record never came")
            verdict = Verdict.BROKEN if lost else Verdict(event["verdict"])
            self._finish(current, verdict, tuple(event["stale"]), event["changes"])

    def _finish(
        self, current: _Current, verdict: Verdict, stale: tuple[str, ...] = (), changes: Sequence[str] = ()
    ) -> None:  # fmt: skip
        records = current.records.values()
        told = (f"it leaves its process changed: {'; '.join(changes[:3])}",) if changes else ()
        self.emit(judged_line(Judged(current.name, verdict, counts(records), (*diagnoses(records), *told), stale)))
        self.current = None
        self._done(current.name)

    def _done(self, name: str) -> None:
        self.pending[0].done.add(name)
        if self.pending[0].finished:
            self.pending.pop(0)

    def _unloaded(self, why: str) -> None:
        """Write down a target of which nothing is known; what no part of a run could load, one of them tells."""
        target = self.pending.pop(0).target
        if target.shard.holds(target.place):
            self._unloadable(target.text, why)

    def _unloadable(self, name: str, why: str) -> None:
        described, judged = unloadable(name, why)
        self.emit(described_line(described))
        self.emit(judged_line(judged))

    # After a death

    def _bury(self, death: Death) -> None:
        """Write down what a dead child leaves behind."""
        if not self.ready:
            raise never_started(death, f"{__package__}.worker")
        current, target = self.current, self.pending[0]
        if current is None and self.begun not in (None, target.target.text):
            # It died of what the target before this one left behind; a fresh process loads this one.
            return
        if current is not None:
            at = current.running or next(iter(current.missing), None)
            if at is not None:
                self._fill(current, at, f"{death.how}{death.where}")
            self._finish(current, Verdict.BROKEN)
        elif target.names is None:
            self._unloaded(f"{target.target.text}: while it was loaded, {death.how}{death.where}.")
        else:
            name = next(name for name in target.names if name not in target.done)
            self._unloadable(name, f"{name}: before anything was judged, {death.how}{death.where}.")
            self._done(name)

    def _fill(self, current: _Current, at: Key, how: str) -> None:
        """Write the record at which it ended as an error, and all others that are missing as not run."""
        self._put(current, at, Outcome.ERROR, f"{get_rule(at.rule).sentence}\n  seen      {how}")
        self._leave_out(current, f"{at}: {how}")

    def _leave_out(self, current: _Current, why: str) -> None:
        for key in current.missing:
            self._put(current, key, Outcome.NOT_RUN, why)

    def _put(self, current: _Current, key: Key, outcome: Outcome, message: str) -> None:
        record = Record(current.name, key.rule, key.dtype, None, outcome, message, None, (), 0.0)
        current.records[key] = record
        self.emit(record_line(record))


def work_through(task: Task, emit: Emit, stopped: threading.Event | None = None) -> None:
    """Judge a batch in children of this process and emit lines as they come, `planned` lines among them.

    Setting `stopped` ends it, and the child, early. Raises WorkerFailed.
    """
    _Batch(task, emit, stopped or threading.Event()).run()


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
    from .selection import check_selection

    pairs = [(target, {}) if isinstance(target, str) else target for target in targets]
    chosen = tuple(sorted(check_selection(select)))
    part = None if shard is None else parse_shard(shard)
    how = {"tier": tier, "select": chosen, "seed": seed, "timeout": timeout, "infer": infer, "memory": memory}
    tasks = batches(pairs, workers, shard=part, **how)
    yield from gather(lines(tasks, executor))
