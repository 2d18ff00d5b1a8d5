"""One worker process as its parent sees it: started, listened to, ended, and asked what it died of."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, cast

from ..foreign.edge import OWN
from ..foreign.footprint import Scales, allowance

START_SECONDS = 300.0
"""How long importing torch and this package may take in a new process."""

GRACE_SECONDS = 20.0
"""How much longer than its own clock allows a child may be silent, in case that clock was switched off."""

TRACE_SECONDS = 2.0
"""How long a child that is ended from outside may take to say where it was."""

_MOST_SAID = 2_000_000

_CODE = "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from {} import serve; serve()"
_FRAME = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.*)')
_STDLIB = sysconfig.get_path("stdlib")


@dataclass(frozen=True)
class Death:
    """How a child ended, where it was by then (" (at file.py:12)" or nothing), and the end of what it said."""

    how: str
    where: str
    said: str


class Child:
    """A process that works through an order, by `serve` of `module`. It is never forked, and Ctrl-C does not reach it."""

    def __init__(
        self, module: str, order: dict[str, Any], folder: str, timeout: float, *, threads: int | None = None,
        memory: int | None = None, workers: int = 1,
    ) -> None:  # fmt: skip
        """`memory` is what it may take in bytes; by default its part, as one of `workers`, of what there is."""
        self._timeout = timeout
        self._silenced = self._killed = False
        self._excess: str | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `death`
        environment = dict(os.environ)
        if threads is not None:
            environment.setdefault("OMP_NUM_THREADS", str(threads))
        path = json.dumps([os.path.abspath(entry) for entry in sys.path])
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE.format(module), path], cwd=folder, env=environment, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=self._errors, **_own_group(),
        )  # fmt: skip
        self._stdin = cast("IO[bytes]", self._process.stdin)
        self._stdout = cast("IO[bytes]", self._process.stdout)
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._scales = Scales(self._process.pid, allowance(workers) if memory is None else memory)
        threading.Thread(target=self._read, daemon=True).start()
        self._order(order)

    def _order(self, order: dict[str, Any]) -> None:
        # Where it died at its start, `death` tells what it said.
        with suppress(OSError):
            self._stdin.write(json.dumps(order, ensure_ascii=True).encode() + b"\n")
            self._stdin.flush()

    def _read(self) -> None:
        with suppress(OSError, ValueError):
            for line in self._stdout:
                self._lines.put(line)
        self._lines.put(None)

    def events(self, stopped: threading.Event) -> Iterator[dict[str, Any]]:
        """Yield what the child sends until it ends, stays silent for too long, takes too much memory, or `stopped` is
        set."""
        heard, patience = time.monotonic(), START_SECONDS
        while not stopped.is_set():
            self._excess = self._scales.excess()
            if self._excess:
                return
            try:
                line = self._lines.get(timeout=0.2)
            except queue.Empty:
                # A grandchild may hold the pipe open: a dead process sends nothing more.
                if self._process.poll() is not None and self._lines.empty():
                    return
                if time.monotonic() - heard > patience:
                    self._silenced = True
                    return
                continue
            if line is None:
                return
            heard, patience = time.monotonic(), self._timeout + GRACE_SECONDS
            event = _event(line)
            if event is not None:
                yield event

    def end(self) -> None:
        """End the process and everything that it started."""
        if self._silenced or self._excess:
            self._ask_where()
        else:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.5)
        self._killed = self._process.poll() is None
        if os.name == "posix":
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        elif self._killed:
            self._process.kill()
        self._process.wait()
        for pipe in (self._stdin, self._stdout):
            with suppress(OSError):
                pipe.close()

    def _ask_where(self) -> None:
        """Have the child write its traces and end."""
        if os.name == "posix":
            self._process.send_signal(signal.SIGABRT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(TRACE_SECONDS)

    def death(self) -> Death:
        """Say what ended it. To be asked once, after `end`."""
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _MOST_SAID))
        said = self._errors.read().decode("utf-8", "backslashreplace")
        self._errors.close()
        return Death(self._how(said), _where(said), said[-2000:].strip())

    def _how(self, said: str) -> str:
        code = self._process.returncode
        if self._excess:
            return self._excess
        if self._silenced or "Timeout (" in said:
            return f"it hung: nothing came back within {self._timeout:g} seconds"
        if self._killed:
            return "it closed the connection on which its process reports"
        if code < 0:
            return f"its process died of {_signal_name(-code)}"
        return f"it ended its process with exit code {code}"


def _own_group() -> dict[str, Any]:
    if os.name == "posix":
        return {"start_new_session": True}
    return {"creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}


def _event(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "type" in event else None


def _signal_name(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = str(number)
    return f"signal {name}" + (" (sent, for one, where memory runs out)" if name == "SIGKILL" else "")


def _where(said: str) -> str:
    """Return the innermost line of the last trace (of the thread that died, or of the main thread) that is neither ours
    nor Python's nor torch's; any that is not ours where there is no other."""
    blocks = re.split(r"^(?=(?:Current thread|Thread) )", said, flags=re.MULTILINE)
    traces = [block for block in blocks if block.startswith(("Current thread", "Thread"))]
    chosen = next((block for block in reversed(traces) if block.startswith("Current")), traces[-1] if traces else "")
    frames = [frame for frame in map(_FRAME.fullmatch, chosen.splitlines()) if frame is not None]
    foreign = [frame for frame in frames if not frame["file"].startswith(OWN)]
    told = next((frame for frame in foreign if not _is_of_others(frame["file"])), foreign[0] if foreign else None)
    return "" if told is None else f" (at {os.path.basename(told['file'])}:{told['line']})"


def _is_of_others(file: str) -> bool:
    """Say whether a file belongs to Python or torch, where code waits on behalf of somebody."""
    *_, package = re.split(r"[/\\](?:site|dist)-packages[/\\]", file)
    return re.match(r"torch[/\\]", package) is not None if package != file else file.startswith((_STDLIB, "<"))
