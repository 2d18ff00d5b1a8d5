"""The parent's side of a probe: each target has a child process, so that a crash or a hang costs that target."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..isolation import TIMEOUT
from ..isolation.child import Death
from ..isolation.hearing import Talk
from .plain import Told, told

SERVING = f"{__package__}.serving"
"""The module by whose `serve` a child works."""

Hear = Callable[[str], None]
"""Is told in a few words what is tried now."""


@dataclass(frozen=True)
class Failure:
    """Why nothing can be told of an implementation; `loaded` says whether it was found at all."""

    name: str
    why: str
    loaded: bool = True


@dataclass
class _State:
    """What is done of a target, and what is tried now."""

    names: list[str] = field(default_factory=list)
    skip: list[str] = field(default_factory=list)
    name: str = ""
    text: str = ""


def probe_many(
    targets: Iterable[str],
    settings: Mapping[str, Any] | None = None,
    *,
    timeout: float = TIMEOUT,
    hear: Hear = lambda text: None,
) -> Iterator[Told | Failure]:
    """Probe targets one after another, each in a child process, and yield what there is to be told of each.

    Raises WorkerFailed if no child starts.
    """
    for target in dict.fromkeys(targets):
        order = {"target": target, "settings": dict(settings or {}), "timeout": timeout, "folder": os.getcwd()}
        yield from _through(order, timeout, hear)


def _through(order: dict[str, Any], timeout: float, hear: Hear) -> Iterator[Told | Failure]:
    state = _State()
    while True:
        state.names, state.name, state.text = [], "", ""
        with Talk(SERVING, {**order, "skip": state.skip}, order["folder"], timeout) as talk:
            yield from _listen(talk, state, hear)
        if talk.died:
            yield _buried(order["target"], state, talk.death())
        if talk.done or not set(state.names) - set(state.skip):
            return


def _listen(talk: Talk, state: _State, hear: Hear) -> Iterator[Told | Failure]:
    for event in talk.events():
        kind = event.pop("type")
        if kind == "loaded":
            state.names = event["names"]
        elif kind == "unloadable":
            yield Failure(event["target"], event["why"], loaded=False)
        elif kind == "experiment":
            state.name, state.text = event["name"], event["text"]
            hear(f"{state.name}  {state.text}")
        else:
            state.skip.append(event["name"])
            yield told(event) if kind == "profile" else Failure(**event)


def _buried(target: str, state: _State, death: Death) -> Failure:
    """Return what is to be said of a dead child."""
    name = state.name or target
    state.skip.append(name)
    when = f"with {state.text}" if state.text else "while it was loaded"
    return Failure(name, f"{when}, {death.how}{death.where}")
