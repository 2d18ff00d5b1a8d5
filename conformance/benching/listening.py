"""The parent's side of a benchmark: each target has a child process, so that a crash or a hang costs that target."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..auditing.batch import never_started
from ..isolation.child import Child, Death
from .groups import Group, Plan
from .measure import Failure, Measurement, to_failure, to_measurement

Hear = Callable[[str], None]
"""Is told in a few words what is measured now."""


@dataclass(frozen=True)
class Task:
    """One target with its settings. `threads` None leaves the number to torch; a call may take `timeout` seconds."""

    target: str
    settings: Mapping[str, Any]
    plan: Plan
    threads: int | None
    timeout: float
    folder: str = field(default_factory=os.getcwd)

    def order(self, skip: Sequence[str]) -> dict[str, Any]:
        """Return the task as the child takes it, without the implementations that are done."""
        order = {"target": self.target, "settings": dict(self.settings), "plan": asdict(self.plan), "skip": list(skip)}
        return {**order, "threads": self.threads, "timeout": self.timeout, "folder": self.folder}


@dataclass
class _State:
    """What a child has said so far."""

    ready: bool = False
    done: bool = False
    left: bool = False
    names: list[str] | None = None
    current: str | None = None
    group: Group | None = None


def work_through(task: Task, hear: Hear = lambda text: None) -> Iterator[Measurement | Failure]:
    """Yield what comes of a task. A target that ends its process is left out, with the reason as a Failure.

    Raises WorkerFailed if no child starts.
    """
    skip: list[str] = []
    while True:
        state, child = _State(), Child(task.order(skip), task.folder, task.timeout, module=f"{__package__}.serving")
        try:
            yield from _listen(child, task, state, skip, hear)
        finally:
            child.end()
        if state.done or (state.left and set(state.names or ()) <= set(skip)):
            return
        if state.left:
            continue
        yield _buried(task, state, child.death())
        if state.current is None or set(state.names or ()) <= {*skip, state.current}:
            return
        skip.append(state.current)


def _listen(
    child: Child, task: Task, state: _State, skip: list[str], hear: Hear
) -> Iterator[Measurement | Failure]:  # fmt: skip
    for event in child.events(threading.Event()):
        kind = event.pop("type")
        if kind == "measured":
            yield to_measurement(event)
        elif kind == "failed":
            yield to_failure(event)
        elif kind == "unloadable":
            yield Failure(task.target, "target", None, event["why"], loaded=False)
        elif kind == "end":
            skip.append(event["name"])
            state.current = state.group = None
        elif kind in ("done", "leave"):
            state.done, state.left = kind == "done", kind == "leave"
            return
        else:
            _note(state, kind, event, hear)


def _note(state: _State, kind: str, event: Mapping[str, Any], hear: Hear) -> None:
    if kind == "ready":
        state.ready = True
    elif kind == "loaded":
        state.names = event["names"]
    elif kind == "begin":
        state.current = event["name"]
    elif kind == "group":
        state.group = Group(**event["group"])
        hear(f"{state.current}  {state.group.name}")


def _buried(task: Task, state: _State, death: Death) -> Failure:
    """Return what is to be said of a dead child."""
    if not state.ready:
        raise never_started(death, f"{__package__}.serving")
    if state.current is None:
        return Failure(task.target, "target", None, f"while it was loaded, {death.how}{death.where}", loaded=False)
    return Failure(state.current, "target", state.group, f"{death.how}{death.where}; nothing after it was measured")
