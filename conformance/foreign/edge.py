"""The edge to foreign code: whatever it raises becomes one named error, whatever text it holds becomes safe."""

from __future__ import annotations

import os
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..errors import ConformanceError, FrameworkMissing, UnknownCall, UnknownParameters

T = TypeVar("T")


class Raised(ConformanceError):
    """The implementation raised. `kind` is the type's name, `text` its message made safe, `where` its last line."""

    def __init__(self, original: BaseException) -> None:
        self.kind = _kind(original)
        self.text = safe(_message(original))
        self.where = safe(_place(original))
        super().__init__(f"it raised {self.kind}: {_shortened(self.text)}{self.where}")


class Unreadable(ConformanceError):
    """What the implementation returned made a rule itself fail when it was looked at."""

    def __init__(self, original: BaseException) -> None:
        frames = traceback.extract_tb(original.__traceback__)
        own = [frame for frame in frames if frame.filename.startswith(OWN)] or list(frames)
        place = f" at {own[-1].filename.rsplit('/', 1)[-1]}:{own[-1].lineno}" if own else ""
        told = f"{_kind(original)}: {_shortened(safe(_message(original)))}"
        super().__init__(f"what it returned made this rule fail{place} with {told}")


class WrongResult(ConformanceError):
    """The implementation returned something that holds no output tensor."""


class DeviceLost(ConformanceError):
    """The device keeps an error: nothing can be found out in this process any more."""


FOREIGN = (Raised, WrongResult, UnknownCall, UnknownParameters, FrameworkMissing)
"""What foreign code, and looking into it, can raise."""


def safe(text: str, limit: int = 2000) -> str:
    """Return `text` without lone surrogates and control characters, cut to `limit` characters."""
    clean = text[: limit + 1].encode("utf-8", "backslashreplace").decode("utf-8")
    clean = "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in clean)
    return clean if len(clean) <= limit else clean[:limit] + " ..."


_DEVICE_IS_LOST = re.compile(
    r"\b(?:CUDA|HIP).*(?:illegal memory access|device-side assert|unspecified launch failure|misaligned address|illegal "
    r"instruction|invalid program counter|invalid address space|hardware stack error|launch timed out|uncorrectable)",
    re.IGNORECASE,
)


def device_is_lost(text: str) -> bool:
    """Say whether a text tells of an error that a device keeps: every later call in the same process raises it again."""
    return _DEVICE_IS_LOST.search(text) is not None


def _message(original: BaseException) -> str:
    try:
        return str(original)
    except BaseException as second:  # noqa: BLE001 - foreign __str__ may raise anything
        return f"(its message raised {_kind(second)})"


def _kind(original: BaseException) -> str:
    try:
        return safe(type(original).__name__, 200).replace("\n", "\\n")
    except BaseException:  # noqa: BLE001 - a foreign metaclass may raise anything
        return "an exception without a name"


def _shortened(text: str) -> str:
    lines = text.strip().splitlines() or ["(no message)"]
    return lines[0] if len(lines) == 1 else f"{lines[0]} (and {len(lines) - 1} more lines)"


def _place(original: BaseException) -> str:
    frames = traceback.extract_tb(original.__traceback__)
    foreign = [frame for frame in frames if not frame.filename.startswith(OWN)]
    return f" (at {os.path.basename(foreign[-1].filename)}:{foreign[-1].lineno})" if foreign else ""


OWN = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""The folder of this package: what lies in it is not foreign."""


class _Interrupt:
    """Remembers whether the terminal asked for an end, as opposed to foreign code raising KeyboardInterrupt."""

    def __init__(self) -> None:
        self.asked = False

    def __call__(self, number: int, frame: object) -> None:
        self.asked = True
        raise KeyboardInterrupt


_interrupt = _Interrupt()


@contextmanager
def telling_interrupts_apart() -> Iterator[None]:
    """While this runs, a real Ctrl-C passes through `foreign` and a raised KeyboardInterrupt does not."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    _interrupt.asked = False
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def is_interrupt(error: BaseException) -> bool:
    """Say whether an exception is a real Ctrl-C, which ends the run."""
    return isinstance(error, KeyboardInterrupt) and _interrupt.asked


def foreign(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Call foreign code. Raises Raised for everything it raises, SystemExit and pytest's outcomes included."""
    try:
        return function(*args, **kwargs)
    except BaseException as original:
        if is_interrupt(original) or isinstance(original, (WrongResult, UnknownCall, FrameworkMissing)):
            raise
        raise Raised(original) from original


def spared(function: Callable[[], T], otherwise: T) -> T:
    """Return what a function gives that calls foreign code once more, or looks at what came back; where that raises,
    `otherwise`."""
    try:
        return function()
    except BaseException as error:
        if is_interrupt(error):
            raise
        return otherwise
