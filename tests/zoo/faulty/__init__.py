"""The population of faulty implementations, one file per place of the fault.

`MUTANTS` holds them all: what the files of this folder call `mutants`. Every one departs from its reference in a single
respect and is sound otherwise.
"""

from __future__ import annotations

import importlib
import pkgutil

from ..mutant import Mutant
from . import edges, state

MUTANTS: tuple[Mutant, ...] = tuple(
    mutant
    for info in pkgutil.iter_modules(__path__)
    for mutant in getattr(importlib.import_module(f"{__name__}.{info.name}"), "mutants", ())
)

TRACES = state.TRACES | edges.TRACES
"""Names of those that change a setting of the whole process: run them in a process of their own, or restore it."""

ARGUABLE = frozenset(
    {
        "masked_nan_leaks",
        "qk_overflow_before_scale_fp16",
        "weights_returned_after_dropout",
    }
)
"""Names of those whose behaviour well-known implementations share. A rule that rejects them says why it may."""
