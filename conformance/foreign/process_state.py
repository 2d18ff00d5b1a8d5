"""What foreign code may change for its whole process, and how it is put back.

`Setting.read` says how things are and `Setting.write` brings that back; nothing is written where nothing changed. What
decides how numbers are computed is put back after every call, so that no expectation is made under somebody else's
settings; the rest after every record.
"""

from __future__ import annotations

import gc
import locale
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch


@dataclass(frozen=True)
class Setting:
    """One thing that belongs to the whole process. What `read` returns can be compared and given to `write`."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]


_SMALLEST = 5e-324


def _flushes() -> bool:
    """Say whether this thread takes the smallest numbers for zero."""
    return _SMALLEST * 1.0 == 0.0


def _device() -> torch.device:
    return torch.empty(0).device


def _set_device(device: torch.device) -> None:
    # None also takes away the mode that intercepts every call of torch and keeps it from its fast paths.
    torch.set_default_device(None if device.type == "cpu" else device)


def _autocast() -> tuple[tuple[str, bool, torch.dtype], ...]:
    return tuple((kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda"))


def _set_autocast(state: tuple[tuple[str, bool, torch.dtype], ...]) -> None:
    for kind, enabled, dtype in state:
        torch.set_autocast_enabled(kind, enabled)
        torch.set_autocast_dtype(kind, dtype)


def _anomaly() -> tuple[bool, bool]:
    return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _kernels() -> tuple[bool, ...]:
    """Return which kernels torch's own attention may choose from."""
    of = torch.backends.cuda
    return of.flash_sdp_enabled(), of.mem_efficient_sdp_enabled(), of.math_sdp_enabled(), of.cudnn_sdp_enabled()


def _set_kernels(state: tuple[bool, ...]) -> None:
    of = torch.backends.cuda
    switches = (of.enable_flash_sdp, of.enable_mem_efficient_sdp, of.enable_math_sdp, of.enable_cudnn_sdp)
    for switch, enabled in zip(switches, state, strict=True):
        switch(enabled)


COMPUTING = (
    Setting("default dtype", torch.get_default_dtype, torch.set_default_dtype),
    Setting("default device", _device, _set_device),
    Setting("grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
    Setting("autocast", _autocast, _set_autocast),
    Setting("anomaly mode", _anomaly, lambda state: torch.autograd.set_detect_anomaly(*state)),
    Setting("flushing of denormal numbers", _flushes, torch.set_flush_denormal),
    Setting("float32 matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    Setting(
        "deterministic algorithms", _deterministic,
        lambda state: torch.use_deterministic_algorithms(state[0], warn_only=state[1]),
    ),
    Setting("kernels of torch's attention", _kernels, _set_kernels),
    Setting("error handling of NumPy", np.geterr, lambda state: np.seterr(**state)),
)  # fmt: skip
"""What decides how numbers are computed."""


def _environment() -> dict[Any, Any]:
    # A mapping of its own for every variable costs more than all else here; on POSIX its data are bytes.
    return dict(getattr(os.environ, "_data", os.environ))


def _put_environment(state: dict[Any, Any]) -> None:
    named = {os.fsdecode(name): os.fsdecode(value) for name, value in state.items()}
    for name in set(os.environ) - set(named):
        del os.environ[name]
    os.environ.update(named)


def _streams() -> tuple[Any, ...]:
    return sys.stdin, sys.stdout, sys.stderr


def _put_streams(state: tuple[Any, ...]) -> None:
    sys.stdin, sys.stdout, sys.stderr = state


def _filters() -> tuple[Any, list[Any], Any]:
    return warnings.filters, list(warnings.filters), warnings.showwarning


def _put_filters(state: tuple[Any, list[Any], Any]) -> None:
    warnings.filters, warnings.showwarning = state[0], state[2]
    state[0][:] = state[1]


_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGALRM") if hasattr(signal, name)]


def _handlers() -> list[Any]:
    return [signal.getsignal(number) for number in _SIGNALS]


def _put_handlers(state: list[Any]) -> None:
    for number, handler in zip(_SIGNALS, state, strict=True):
        # None is one that was not set from Python.
        if handler is not None:
            signal.signal(number, handler)


PROCESS = (
    Setting("number of threads", torch.get_num_threads, torch.set_num_threads),
    Setting("working folder", os.getcwd, os.chdir),
    Setting("environment variables", _environment, _put_environment),
    Setting("standard streams", _streams, _put_streams),
    Setting("warning filters", _filters, _put_filters),
    Setting("signal handlers", _handlers, _put_handlers),
    Setting("recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    Setting("trace function", sys.gettrace, sys.settrace),
    Setting("profile function", sys.getprofile, sys.setprofile),
    Setting("locale", lambda: locale.setlocale(locale.LC_ALL), lambda name: locale.setlocale(locale.LC_ALL, name)),
    Setting("garbage collection", gc.isenabled, lambda enabled: gc.enable() if enabled else gc.disable()),
)
"""What decides nothing about numbers, and yet would meet whoever comes next."""


def readings() -> dict[str, Any]:
    """Return by name how everything is that decides how numbers are computed."""
    return {setting.name: value for setting, value in zip(COMPUTING, _read(COMPUTING), strict=True)}


def saved_tensors_are_packed() -> bool:
    """Say whether a hook of torch.autograd.graph.saved_tensors_hooks is in force."""
    leaf = torch.ones(1, requires_grad=True)
    with torch.enable_grad():
        saved = (leaf * leaf).grad_fn
    return getattr(saved, "_saved_self", leaf) is not leaf


@contextmanager
def computing_state_kept() -> Iterator[None]:
    """Put back what decides how numbers are computed."""
    before = _read(COMPUTING)
    try:
        # Nothing but leaving such a block switches off an inference mode that somebody has entered and not left.
        with torch.inference_mode(torch.is_inference_mode_enabled()):
            yield
    finally:
        _put_back(COMPUTING, before)


@contextmanager
def process_state_kept() -> Iterator[None]:
    """Put back what foreign code may have changed for the process, random generators included."""
    before = _read(PROCESS)
    drawn = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002 - the global one is put back
    on_device = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None
    try:
        with computing_state_kept():
            yield
    finally:
        _put_back(PROCESS, before)
        random.setstate(drawn[0])
        np.random.set_state(drawn[1])  # noqa: NPY002
        torch.set_rng_state(drawn[2])
        if on_device is not None:
            with suppress(RuntimeError):  # an error that the device keeps
                torch.cuda.set_rng_state_all(on_device)


def _put_back(settings: tuple[Setting, ...], before: list[Any]) -> None:
    now = _read(settings)
    if now == before:
        return
    for setting, value, changed in zip(settings, before, now, strict=True):
        if value != changed:
            # What cannot be put back (a folder that is gone, a handler in another thread) keeps nobody else.
            with suppress(Exception):
                setting.write(value)


def _read(settings: tuple[Setting, ...]) -> list[Any]:
    """Return how everything is; instead of what cannot even be told, its error's text."""
    try:
        return [setting.read() for setting in settings]
    except Exception:  # noqa: BLE001 - torch and the system raise several kinds
        return [_read_alone(setting) for setting in settings]


def _read_alone(setting: Setting) -> Any:
    try:
        return setting.read()
    except Exception as error:  # noqa: BLE001
        return str(error)
