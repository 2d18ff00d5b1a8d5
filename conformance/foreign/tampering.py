"""What an implementation has done to its process that nothing puts back, so that the next one needs a fresh process.

A `Watch` remembers which functions, classes and modules stand where, and what else is shared, and names what is
different later. It sees accidents (a library that replaces a function of torch, a thread that goes on), not disguises.
"""

from __future__ import annotations

import builtins
import decimal
import inspect
import json
import math
import os
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch

from .process_state import readings, saved_tensors_are_packed

_SHARED: tuple[Any, ...] = (
    builtins, inspect, json, math, os, random, re, sys, threading, time, np, np.random, torch, torch.Tensor, torch.linalg,
    torch.random, torch.autograd, torch.autograd.Function, torch.nn, torch.nn.Module, torch.nn.Linear,
    torch.nn.MultiheadAttention, torch.nn.functional, torch.nn.init,
)  # fmt: skip
"""Where everybody looks functions up; what is ours is added."""


class Watch:
    """How the process is now. `changes` says what is no longer so."""

    def __init__(self) -> None:
        self._modules = dict(sys.modules)
        self._functions = [(place, set(vars(place)), _functions(place)) for place in _places()]
        self._threads = set(threading.enumerate())
        self._rest = _rest()

    def changes(self) -> list[str]:
        """Return in a few words each what has changed since; nothing where all is as it was."""
        try:
            return [*self._replaced(), *self._running(), *self._different()]
        except BaseException as error:  # noqa: BLE001 - whatever was replaced may raise anything
            return [f"what has changed cannot be told ({type(error).__name__})"]

    def _replaced(self) -> Iterator[str]:
        for place, known, functions in self._functions:
            now = vars(place)
            hidden = {name for name in now.keys() - known if any(name in vars(base) for base in _bases(place))}
            replaced = [name for name, function in functions.items() if not _is_the_same(function, now.get(name))]
            yield from (f"{_name(place)}.{name} is another one" for name in (*replaced, *sorted(hidden)))
        for name, module in self._modules.items():
            if sys.modules.get(name) is not module:
                yield f"the module {name} is another one"

    def _running(self) -> Iterator[str]:
        yield from (f"a thread goes on ({each.name})" for each in threading.enumerate() if each not in self._threads)

    def _different(self) -> Iterator[str]:
        now = _rest()
        yield from (
            f"{name}: {value} before, {now[name]} now" for name, value in self._rest.items() if now[name] != value
        )


def _places() -> list[Any]:
    """Return every module and class whose functions are watched."""
    own = [module for name, module in sys.modules.items() if name.partition(".")[0] == _PACKAGE]
    classes = [value for module in own for value in vars(module).values() if isinstance(value, type)]
    return [*_SHARED, *own, *{each for each in classes if each.__module__.partition(".")[0] == _PACKAGE}]


def _bases(place: Any) -> tuple[type, ...]:
    return place.__mro__[1:] if isinstance(place, type) else ()


_PACKAGE = __name__.partition(".")[0]


def _functions(place: Any) -> Mapping[str, Any]:
    named = {name: value for name, value in vars(place).items() if callable(value) or isinstance(value, ModuleType)}
    if place is torch:
        # torch's compiler wraps it when it is first imported.
        named.pop("manual_seed", None)
    return named


def _is_the_same(known: Any, now: Any) -> bool:
    # torch's compiler wraps what it needs when it is first used.
    return now is known or str(getattr(now, "__module__", "")).startswith("torch._dynamo")


def _name(place: Any) -> str:
    return f"{place.__module__}.{place.__qualname__}" if isinstance(place, type) else str(place.__name__)


def _rest() -> dict[str, Any]:
    """Return what else belongs to the whole process, in a form that can be compared."""
    return {**readings(), **{name: _told(read) for name, read in _READ.items()}}


def _told(read: Callable[[], Any]) -> str:
    try:
        return str(read())
    except Exception as error:  # noqa: BLE001 - not every system and torch has everything
        return str(error)


def _umask() -> int:
    # It can be read only by being set; for that moment to one that keeps others out.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _handlers() -> list[Any]:
    return [signal.getsignal(number) for number in sorted(signal.valid_signals())]


def _limits() -> list[Any]:
    import resource

    return [resource.getrlimit(kind) for kind in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_NOFILE)]


_READ: dict[str, Callable[[], Any]] = {
    "file mode mask": _umask,
    "signal handlers": _handlers,
    "alarm clock": lambda: signal.getitimer(signal.ITIMER_REAL),
    "limits of the process": _limits,
    "decimal arithmetic": decimal.getcontext,
    "inter-op threads": torch.get_num_interop_threads,
    "printing of tensors": lambda: vars(torch._tensor_str.PRINT_OPTS),
    "modes that intercept torch": lambda: (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
    "level of forward differentiation": lambda: torch.autograd.forward_ad._current_level,
    "hooks for saved tensors": saved_tensors_are_packed,
    "a closed standard stream": lambda: [stream.closed for stream in (sys.stdin, sys.stdout, sys.stderr)],
}
