"""The child's end of the protocol between a parent and its child.

The child is started with `python -c` and talks over what were its standard streams: the task comes on standard input,
one line of JSON; events go to standard output, one line of ASCII JSON each. Both are moved to other descriptors before
anything foreign is imported, so that nothing an implementation prints or reads meets the protocol. Standard error
keeps what `faulthandler` writes when the process dies or hangs.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, BinaryIO

from ..foreign.footprint import first_to_die

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
