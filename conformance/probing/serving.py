"""The child's side of a probe: one process that loads a target and makes experiments with what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..isolation.channel import Channel
from ..isolation.serving import end_process, load_and_tell, place_kept, serve_with


def serve() -> None:
    """Probe the target of the task on standard input."""
    serve_with(_warm, _work)


def _warm() -> None:
    from . import probe  # noqa: F401


def _work(channel: Channel, task: Mapping[str, Any]) -> None:
    with place_kept(task["folder"]):
        for each in load_and_tell(channel, task["target"], task["settings"], task["timeout"]):
            if each.name not in task["skip"]:
                _one(channel, each, task["timeout"])


def _one(channel: Channel, loaded: Any, timeout: float) -> None:
    from ..errors import ConformanceError
    from ..foreign.edge import DeviceLost, safe
    from . import probe
    from .plain import plain

    def beat(text: str) -> None:
        channel.arm(timeout)
        channel.send("experiment", name=loaded.name, text=safe(text))

    try:
        profile = probe(loaded.implementation, beat)
    except ConformanceError as error:
        channel.send("failed", name=loaded.name, why=safe(str(error)))
        if isinstance(error, DeviceLost):
            end_process(channel)
        return
    channel.send("profile", **plain(loaded.name, loaded.target, profile))
