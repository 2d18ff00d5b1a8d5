"""The child's side of a probe: one process that loads a target and makes experiments with what it holds.

It is started and talks as `worker` does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..auditing.worker import Channel, end_process, load_and_tell, place_kept


def serve() -> None:
    """Work through the task on standard input, then end without giving foreign exit handlers a chance to hang."""
    channel = Channel()
    task = channel.task()
    from . import probe  # noqa: F401 - imports torch and the conventions before the clock starts

    channel.send("ready")
    with place_kept(task["folder"]):
        _target(channel, task)
    channel.send("done")
    os._exit(0)


def _target(channel: Channel, task: Mapping[str, Any]) -> None:
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
