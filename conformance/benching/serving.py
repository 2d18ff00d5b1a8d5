"""The child's side of a benchmark: one process that loads a target and measures it beside the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..isolation.channel import Channel
from ..isolation.serving import end_process, load_and_tell, place_kept, serve_with


def serve() -> None:
    """Measure the target of the task on standard input."""
    serve_with(_warm, _work)


def _warm() -> None:
    from . import contenders, measure  # noqa: F401
    from .meter import peak_bytes

    # torch's profiler imports a great deal when it is first used.
    peak_bytes(lambda: None, "cpu")


def _work(channel: Channel, task: Mapping[str, Any]) -> None:
    from ..foreign.process_state import process_state_kept

    with place_kept(task["folder"]), process_state_kept():
        _target(channel, task)


def _target(channel: Channel, task: Mapping[str, Any]) -> None:
    import torch

    for each in load_and_tell(channel, task["target"], task["settings"], task["timeout"]):
        if each.name not in task["skip"]:
            # Set anew: what was imported may have changed it.
            torch.set_num_threads(task["threads"] or torch.get_num_threads())
            channel.send("begin", name=each.name)
            _one(channel, each, task)
            channel.send("end", name=each.name)


def _one(channel: Channel, loaded: Any, task: Mapping[str, Any]) -> None:
    from ..foreign.edge import device_is_lost, safe
    from .contenders import contenders
    from .groups import NotMeasured, Plan, groups
    from .measure import Failure, Measurement, measure_all

    plan, pulse = Plan(**task["plan"]), channel.pulse(task["timeout"])
    entries = contenders(loaded.name, loaded.implementation)
    try:
        found = groups(plan, loaded.implementation)
    except NotMeasured as error:
        channel.send("failed", **Failure(loaded.name, entries[0].role, None, safe(str(error)), excused=True).plain())
        return
    results = measure_all(
        found, entries, rounds=plan.rounds, beat=pulse, hear=lambda group: channel.send("group", group=group.plain())
    )
    for result in results:
        channel.send("measured" if isinstance(result, Measurement) else "failed", **result.plain())
        if isinstance(result, Failure) and device_is_lost(result.why):
            # What follows is the same error, and the fault of nobody else.
            channel.send("end", name=loaded.name)
            end_process(channel)
