"""Other frameworks: kernels of arrays are judged by the same rules, through a bridge that hands them arrays for tensors.

numpy    shares memory with the tensors, strides included; no gradients
jax      copies, since its arrays cannot be written to; gradients by its own `vjp`, as often as it can be differentiated

A bridge imports its framework when it is first asked for. Other array libraries are reached by a `call=` of a few lines
over the numpy bridge, or over torch itself.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from .bridge import Bridge

_HOMES = {"numpy": "numpy_arrays", "jax": "jax_arrays"}

FRAMEWORKS = ("torch", *_HOMES)
"""Values of `framework=`."""


@lru_cache(maxsize=len(FRAMEWORKS))
def bridge_for(framework: str) -> Bridge | None:
    """Return the bridge of a framework, None for torch. Raises FrameworkMissing."""
    return _class(framework)() if framework in _HOMES else None


def defaults_of(framework: str) -> Mapping[str, Any]:
    """Return the capabilities in which a framework differs from the references, without importing it."""
    return _class(framework).defaults if framework in _HOMES else {}


def underflow_of(framework: str) -> float:
    """Return what a result of this framework may lose to subnormal numbers that become zero."""
    return _class(framework).underflow if framework in _HOMES else 0.0


def _class(framework: str) -> type[Bridge]:
    found: type[Bridge] = importlib.import_module(f"{__name__}.{_HOMES[framework]}").BRIDGE
    return found
