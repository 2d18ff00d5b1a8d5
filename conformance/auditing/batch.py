"""One batch of targets, judged in child processes of this one, so that each implementation costs at most itself.

The child says what it is about to do before it does it and sends each result as it comes; when it dies, the record in
flight becomes an `error`, the rest of that implementation `not-run`, and a fresh child goes on with the next. The
parent knows the plan: nothing is lost silently.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..isolation import TIMEOUT
from ..isolation.child import Death
from ..isolation.hearing import Talk
from ..records import Key, Outcome, Record, Verdict, counts
from ..results import Judged, Line, described_line, diagnoses, judged_line, record_line, to_record, unloadable
from ..rulebook import get_rule
from .sharding import WHOLE, Shard

SERVING = f"{__package__}.worker"
"""The module by whose `serve` a child works."""

Emit = Callable[[Line], None]


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
        self.begun: str | None = None

    def run(self) -> None:
        while self.pending and not self.stopped.is_set():
            self.begun = None
            task = self.task
            limits = {"threads": task.threads, "memory": task.memory, "workers": task.workers}
            with Talk(SERVING, self._order(), task.folder, task.timeout, **limits) as talk:
                for event in talk.events(self.stopped):
                    self._heard(event)
            if not talk.left and self.pending and not self.stopped.is_set():
                self._bury(talk.death())

    def _order(self) -> Line:
        task = self.task
        how = {name: getattr(task, name) for name in ("tier", "select", "seed", "timeout", "infer", "folder")}
        return {"targets": [each.order for each in self.pending], **how}

    def _heard(self, event: Line) -> None:
        """Take one event from the child."""
        kind = event["type"]
        if kind == "target":
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
