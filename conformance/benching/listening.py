"""The parent's side of a benchmark: each target has a child process, so that a crash or a hang costs that target."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ..isolation.child import Death
from ..isolation.hearing import Talk
from .groups import Group, Plan
from .measure import Failure, Measurement, to_failure, to_measurement

SERVING = f"{__package__}.serving"
"""The module by whose `serve` a child works."""

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

    names: Sequence[str] = ()
    current: str | None = None
    group: Group | None = None


def work_through(task: Task, hear: Hear = lambda text: None) -> Iterator[Measurement | Failure]:
    """Yield what comes of a task. A target that ends its process is left out, with the reason as a Failure.

    Raises WorkerFailed if no child starts.
    """
    skip: list[str] = []
    while True:
        state = _State()
        with Talk(SERVING, task.order(skip), task.folder, task.timeout) as talk:
            yield from _listen(talk, task, state, skip, hear)
        if talk.died:
            yield _buried(task, state, talk.death())
            if state.current is None:
                return
            skip.append(state.current)
        if talk.done or set(state.names) <= set(skip):
            return


def _listen(
    talk: Talk, task: Task, state: _State, skip: list[str], hear: Hear
) -> Iterator[Measurement | Failure]:  # fmt: skip
    for event in talk.events():
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
        else:
            _note(state, kind, event, hear)


def _note(state: _State, kind: str, event: Mapping[str, Any], hear: Hear) -> None:
    if kind == "loaded":
        state.names = event["names"]
    elif kind == "begin":
        state.current = event["name"]
    elif kind == "group":
        state.group = Group(**event["group"])
        hear(f"{state.current}  {state.group.name}")


def _buried(task: Task, state: _State, death: Death) -> Failure:
    """Return what is to be said of a dead child."""
    if state.current is None:
        return Failure(task.target, "target", None, f"while it was loaded, {death.how}{death.where}", loaded=False)
    return Failure(state.current, "target", state.group, f"{death.how}{death.where}; nothing after it was measured")
