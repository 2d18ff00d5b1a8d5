"""The child's side of an audit: one process that loads targets and judges them, one after another.

It is started with `python -c` and talks over what were its standard streams: the task comes on standard input, one
line of JSON; events go to standard output, one line of ASCII JSON each. Both are moved to other descriptors before
anything foreign is imported, so that nothing an implementation prints or reads meets the protocol. Standard error
keeps what `faulthandler` writes when the process dies or hangs.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from ..foreign.footprint import first_to_die
from .sharding import WHOLE, Shard

if TYPE_CHECKING:
    from ..foreign.tampering import Watch
    from ..records import Key, Record
    from ..runner import Examination

BEAT_SECONDS = 1.0
"""How often the parent is told that all is well. More often would disturb what is measured."""


class Channel:
    """The two ends of the protocol, and the file for traces."""

    def __init__(self) -> None:
        self._task = os.fdopen(os.dup(0), "rb")
        self._events = os.fdopen(os.dup(1), "w", encoding="ascii")
        self._traces = os.fdopen(os.dup(2), "w")
        self._process = os.getpid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(nowhere, standard)
        _write_no_core_file()
        first_to_die()
        faulthandler.enable(self._traces)

    def task(self) -> dict[str, Any]:
        """Return the task; afterwards this process ends as soon as the parent does."""
        task: dict[str, Any] = json.loads(self._task.readline())
        _have_the_kernel_end_it_with(self._task)
        threading.Thread(target=_end_with, args=(self._task,), daemon=True).start()
        return task

    def send(self, kind: str, **fields: Any) -> None:
        """Send one event."""
        self.line({"type": kind, **fields})

    def line(self, line: Mapping[str, Any]) -> None:
        """Send one line. A copy of this process that foreign code has forked ends here."""
        if os.getpid() != self._process:
            os._exit(1)
        self._events.write(json.dumps(line, ensure_ascii=True, allow_nan=False) + "\n")
        self._events.flush()

    def pulse(self, seconds: float) -> Callable[[str], None]:
        """Return what is to be told of every step of a long work, each of which may take `seconds`."""
        return _Pulse(self, seconds)

    def arm(self, seconds: float) -> None:
        """From now on, end the process with a trace unless this is called again within `seconds`."""
        faulthandler.dump_traceback_later(seconds, exit=True, file=self._traces)


class _Pulse:
    """Arms the clock anew whenever something is begun, and tells the parent now and then that all is well."""

    def __init__(self, channel: Channel, seconds: float) -> None:
        self._channel, self._seconds = channel, seconds
        self._told = time.monotonic()

    def __call__(self, what: str) -> None:
        self._channel.arm(self._seconds)
        if time.monotonic() - self._told > BEAT_SECONDS:
            self._told = time.monotonic()
            self._channel.send("beat", name=what)


def _write_no_core_file() -> None:
    """Leave no picture of the memory in somebody's folder when this process crashes."""
    # The module is missing on Windows.
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def _have_the_kernel_end_it_with(parent: BinaryIO) -> None:
    """On Linux, have this process and all it starts killed when the pipe from the parent closes.

    A thread that waits for that is held up by foreign code that never gives the interpreter's lock away.
    """
    with suppress(ImportError, AttributeError, OSError):
        import fcntl

        if os.getpgrp() == os.getpid():
            fcntl.fcntl(parent, fcntl.F_SETSIG, signal.SIGKILL)  # type: ignore[attr-defined, unused-ignore]
            fcntl.fcntl(parent, fcntl.F_SETOWN, -os.getpid())
            fcntl.fcntl(parent, fcntl.F_SETFL, fcntl.fcntl(parent, fcntl.F_GETFL) | os.O_ASYNC)


def _end_with(parent: BinaryIO) -> None:
    parent.read()
    # With all that foreign code has started, if this process leads a group of its own.
    if os.name == "posix" and os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os._exit(0)


def serve() -> None:
    """Work through the task on standard input, then end without giving foreign exit handlers a chance to hang."""
    channel = Channel()
    task = channel.task()
    from ..foreign.tampering import Watch
    from ..loading import load  # noqa: F401 - imports torch and the catalogue before the clock starts
    from ..rulebook import catalogue

    catalogue()
    channel.send("ready")
    clean = Watch()
    for entry in task["targets"]:
        channel.send("target", target=entry["text"])
        _target(channel, entry, task, clean)
    channel.send("done")
    os._exit(0)


def _target(channel: Channel, entry: Mapping[str, Any], task: Mapping[str, Any], clean: Watch) -> None:
    """Judge what one target holds. The process ends afterwards if it was not `clean` by then, or not meanwhile: what is
    expected is kept for the next ones, and was worked out under what the import had set."""
    from ..foreign.process_state import process_state_kept
    from ..foreign.tampering import Watch

    with place_kept(task["folder"]), process_state_kept():
        here = Shard(**entry["shard"])
        loaded = load_and_tell(channel, entry["text"], entry["settings"], task["timeout"], here, entry["place"])
        as_imported, is_clean = Watch(), not clean.changes()
        for each in loaded:
            if each.name not in entry["skip"]:
                _judge(channel, each, task, as_imported)
    if not is_clean or clean.changes():
        end_process(channel)


def end_process(channel: Channel) -> None:
    """End this process, which is no longer as it was, for the parent to go on with a fresh one."""
    channel.send("leave")
    os._exit(0)


def load_and_tell(
    channel: Channel, target: str, settings: Mapping[str, Any], seconds: float, shard: Shard = WHOLE, place: int = 0
) -> tuple[Any, ...]:
    """Load a target and tell the parent what it holds of a part of a run; nothing, and why, where it cannot be loaded."""
    from ..errors import ConformanceError
    from ..foreign.edge import safe
    from ..loading import load

    channel.arm(seconds)
    try:
        everything = load(target, settings)
    except ConformanceError as error:
        channel.send("unloadable", target=target, why=safe(str(error)))
        return ()
    loaded = tuple(each for number, each in enumerate(everything) if shard.holds(place + number))
    channel.send("loaded", target=target, names=[each.name for each in loaded])
    return loaded


def _judge(channel: Channel, loaded: Any, task: Mapping[str, Any], watch: Watch) -> None:
    """Send an implementation, its plan, its records, and the verdict."""
    from ..environment import described
    from ..foreign.edge import safe
    from ..results import described_line
    from ..runner import Examination, stale, verdict
    from ..selection import plan

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


@contextmanager
def place_kept(folder: str) -> Iterator[None]:
    """Start in `folder`, importable; afterwards forget what a target put on the path and imported from there."""
    os.chdir(folder)
    path, modules = list(sys.path), set(sys.modules)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        added = {entry for entry in sys.path if entry not in path} - {folder}
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if _home(str(name).split(".")[0]) in added:
                del sys.modules[name]


def _home(module: str) -> str | None:
    """Return the folder in which a top-level module or package lies."""
    try:
        file = getattr(sys.modules.get(module), "__dict__", {}).get("__file__")
    except BaseException:  # noqa: BLE001 - anything can stand among the modules
        return None
    if not isinstance(file, str):
        return None
    path = Path(file)
    return str(path.parent.parent if path.stem == "__init__" else path.parent)
