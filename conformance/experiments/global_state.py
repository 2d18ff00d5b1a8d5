"""What belongs to the whole process and is left alone by a call: read, and compared."""

from __future__ import annotations

import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from ..foreign.process_state import readings, saved_tensors_are_packed


def same(first: object, second: object) -> bool:
    """Say whether two readings are equal."""
    both = isinstance(first, Tensor) and isinstance(second, Tensor)
    return torch.equal(first, second) if both else bool(first == second)  # type: ignore[arg-type]


def shown_change(before: object, after: object) -> str:
    """Return the words that follow the name of what has changed."""
    if isinstance(before, dict) and isinstance(after, dict):
        # By name: the value of a variable can be a secret, and reports are passed on.
        changed = sorted(str(name) for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        return f": {', '.join(changed)}"
    return f": {before} before, {after} after"


@contextmanager
def elsewhere() -> Iterator[None]:
    """Work in another folder, under other warning filters and seeds, so that setting what an earlier call set shows.

    The generators are put back with the rest of the process when the rule is over.
    """
    folder = os.getcwd()
    with warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.filterwarnings("ignore", message="set by the suite to see whether it stays")
        torch.manual_seed(20_240_229)
        random.seed(20_240_229)
        np.random.seed(20_240_229)  # noqa: NPY002 - it is the global generator that is watched
        os.chdir(os.path.abspath(os.sep))
        try:
            yield
        finally:
            os.chdir(folder)


_COMPILERS = ("TORCHINDUCTOR_", "TRITON_")
"""How variables begin in which torch's compilers note, at every call, where their caches are."""


def global_state() -> dict[str, object]:
    """Return a reading of everything that is watched, by the name under which it is told."""
    return {
        "state of the random generator": torch.get_rng_state(),
        "state of Python's random generator": torch.tensor(random.getstate()[1], device="cpu"),
        "state of NumPy's random generator": _drawn_by_numpy(),
        **readings(),
        "number of threads": torch.get_num_threads(),
        "inference mode": torch.is_inference_mode_enabled(),
        "multithreading of the backward pass": torch.autograd.is_multithreading_enabled(),
        "working folder": os.getcwd(),
        "environment variables": {name: value for name, value in os.environ.items() if not name.startswith(_COMPILERS)},
        "warning filters": [str(entry) for entry in warnings.filters],
        "recursion limit": sys.getrecursionlimit(),
        "hooks for saved tensors": saved_tensors_are_packed(),
    }


def _drawn_by_numpy() -> Tensor:
    state = np.random.get_state(legacy=False)  # noqa: NPY002 - it is the global generator that is watched
    keys: list[int] = state["state"]["key"].tolist()
    return torch.tensor([*keys, state["state"]["pos"]], device="cpu")
