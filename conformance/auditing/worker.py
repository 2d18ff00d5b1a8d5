"""The child's side of an audit: one process that loads targets and judges them, one after another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..isolation.channel import Channel
from ..isolation.serving import end_process, load_and_tell, place_kept, serve_with
from .sharding import Shard

if TYPE_CHECKING:
    from ..foreign.tampering import Watch
    from ..records import Key, Record
    from ..runner import Examination


def serve() -> None:
    """Judge the targets of the task on standard input."""
    serve_with(_warm, _work)


def _warm() -> None:
    from ..loading import load  # noqa: F401
    from ..rulebook import catalogue

    catalogue()


def _work(channel: Channel, task: Mapping[str, Any]) -> None:
    from ..foreign.tampering import Watch

    clean = Watch()
    for entry in task["targets"]:
        channel.send("target", target=entry["text"])
        _target(channel, entry, task, clean)


def _target(channel: Channel, entry: Mapping[str, Any], task: Mapping[str, Any], clean: Watch) -> None:
    """Judge what one target holds. The process ends afterwards if it was not `clean` by then, or not meanwhile: what is
    expected is kept for the next ones, and was worked out under what the import had set."""
    from ..foreign.process_state import process_state_kept
    from ..foreign.tampering import Watch

    shard, place = Shard(**entry["shard"]), entry["place"]
    with place_kept(task["folder"]), process_state_kept():
        loaded = load_and_tell(
            channel, entry["text"], entry["settings"], task["timeout"], lambda number: shard.holds(place + number)
        )
        as_imported, is_clean = Watch(), not clean.changes()
        for each in loaded:
            if each.name not in entry["skip"]:
                _judge(channel, each, task, as_imported)
    if not is_clean or clean.changes():
        end_process(channel)


def _judge(channel: Channel, loaded: Any, task: Mapping[str, Any], watch: Watch) -> None:
    """Send an implementation, its plan, its records, and the verdict."""
    from ..environment import described
    from ..foreign.edge import safe
    from ..results import described_line
    from ..runner import Examination
    from ..selection import plan
    from ..verdicts import stale, verdict

    loaded, inferred = _inferred(channel, loaded, task) if task["infer"] else (loaded, {})
    keys = plan(loaded.implementation, tier=task["tier"], select=task["select"])
    channel.line(described_line(described(loaded, inferred)))
    channel.send("plan", implementation=loaded.name, keys=[[key.rule, key.dtype] for key in keys])
    examination = Examination(loaded.implementation, name=loaded.name, seed=task["seed"])
    records = _examine(channel, examination, keys, task["timeout"])
    own, changes = loaded.implementation, watch.changes()
    channel.send(
        "verdict",
        implementation=loaded.name,
        verdict=str(verdict(own, records)),
        stale=[] if task["select"] else stale(loaded.name, own.device, own.deviations, records),
        changes=[safe(change, 200) for change in changes],
    )
    if changes:
        end_process(channel)


def _examine(channel: Channel, examination: Examination, keys: Iterable[Key], seconds: float) -> list[Record]:
    """Send a start and a record for every key, and return the records. A device that is lost ends the process."""
    from ..foreign.edge import device_is_lost
    from ..results import record_line
    from ..rulebook import get_rule

    records = []
    for key in keys:
        channel.send("start", implementation=examination.name, rule=key.rule, dtype=key.dtype)
        channel.arm(seconds)
        records.append(examination.run_one(get_rule(key.rule), key.dtype))
        channel.line(record_line(records[-1]))
        if device_is_lost(records[-1].message):
            channel.send("lost", implementation=examination.name, rule=key.rule, dtype=key.dtype)
            end_process(channel)
    return records


def _inferred(channel: Channel, loaded: Any, task: Mapping[str, Any]) -> tuple[Any, Mapping[str, str]]:
    """Return what was loaded under the answers that a probe finds, and what it saw."""
    from ..errors import UnknownParameters
    from ..foreign.edge import DeviceLost
    from ..probing.inferring import infer

    try:
        implementation, evidence = infer(loaded.implementation, channel.pulse(task["timeout"]))
    except (UnknownParameters, DeviceLost):
        # The rules say the same, with more.
        return loaded, {}
    return replace(loaded, implementation=implementation), evidence
