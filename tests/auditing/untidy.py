"""Implementations that compute well and leave their process changed, each named for what it changes."""

from __future__ import annotations

import atexit
import decimal
import gc
import locale
import math
import os
import random
import signal
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

import attention_conformance.oracle.definition
from attention_conformance.reference.attention import attention

HELD: list[Any] = []
Kernel = Callable[..., Any]


def _after(change: Callable[[], object]) -> Kernel:
    """Return a sound kernel after each of whose calls a change is made."""

    def untidy(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        result = attention(query, key, value, mask)
        change()
        return result

    return untidy


def _enter(context: Any) -> None:
    """Enter a block, and never leave it."""
    context.__enter__()
    HELD.append(context)


# What is put back

changes_the_default_dtype = _after(lambda: torch.set_default_dtype(torch.float16))
changes_the_default_device = _after(lambda: torch.set_default_device("meta"))
switches_gradients_off = _after(lambda: torch.set_grad_enabled(False))
enters_inference_mode = _after(lambda: _enter(torch.inference_mode()))
enters_autocast = _after(lambda: _enter(torch.autocast("cpu", torch.float16)))
turns_anomaly_mode_on = _after(lambda: torch.autograd.set_detect_anomaly(True))
flushes_denormal_numbers = _after(lambda: torch.set_flush_denormal(True))
lowers_the_precision = _after(lambda: torch.set_float32_matmul_precision("medium"))
wants_deterministic_algorithms = _after(lambda: torch.use_deterministic_algorithms(True))
raises_on_underflow = _after(lambda: np.seterr(all="raise"))
changes_the_number_of_threads = _after(lambda: torch.set_num_threads(3))
goes_elsewhere = _after(lambda: os.chdir(os.sep))
sets_variables = _after(lambda: os.environ.update(OMP_NUM_THREADS="9", PYTHONHASHSEED="1", PATH=""))
forgets_variables = _after(os.environ.clear)
closes_the_streams = _after(lambda: [stream.close() for stream in (sys.stdin, sys.stdout, sys.stderr)])
replaces_the_streams = _after(lambda: setattr(sys, "stdout", None))
makes_warnings_errors = _after(lambda: warnings.simplefilter("error"))
ignores_interrupts = _after(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
lets_nothing_recurse = _after(lambda: sys.setrecursionlimit(500))
traces_everything = _after(lambda: sys.settrace(lambda *arguments: None))
profiles_everything = _after(lambda: sys.setprofile(lambda *arguments: None))
changes_the_locale = _after(lambda: locale.setlocale(locale.LC_ALL, "C"))
switches_garbage_collection_off = _after(gc.disable)
prolongs_the_path = _after(lambda: sys.path.insert(0, "/nowhere"))
hangs_at_exit = _after(lambda: atexit.register(time.sleep, 3600))


def _seeds() -> None:
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the fault is to seed the global generator


seeds_the_generators = _after(_seeds)


# What only a fresh process is free of


def _replace_softmax() -> None:
    wrong = torch.Tensor.sigmoid
    torch.softmax = torch.nn.functional.softmax = lambda tensor, dim, dtype=None: wrong(tensor)  # type: ignore[assignment]
    torch.Tensor.softmax = lambda self, dim, dtype=None: wrong(self)  # type: ignore[assignment, method-assign]


def _replace_math() -> None:
    fake = types.ModuleType("math")
    fake.__dict__.update(vars(math), sqrt=lambda number: 1.0)
    sys.modules["math"] = fake


replaces_softmax = _after(_replace_softmax)
replaces_the_oracle = _after(lambda: setattr(attention_conformance.oracle.definition, "solve", None))
replaces_a_module = _after(_replace_math)
leaves_a_thread = _after(lambda: threading.Thread(target=time.sleep, args=(3600,)).start())
sets_an_alarm = _after(lambda: signal.setitimer(signal.ITIMER_REAL, 20.0))
changes_decimals = _after(lambda: setattr(decimal.getcontext(), "prec", 2))
changes_the_file_mode = _after(lambda: os.umask(0))
changes_how_tensors_are_printed = _after(lambda: torch.set_printoptions(precision=1))
