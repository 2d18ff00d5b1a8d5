"""How a target is called, how its modules are built, and what comes back: recognised by names where that is safe.

Everything is imported when it is first used, so that the table of names is read without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .building import Construction as Construction
    from .building import construction_of as construction_of
    from .form import Form as Form
    from .packing import settled as settled
    from .recognising import answers_of as answers_of
    from .recognising import form_of as form_of
    from .returned import Found as Found
    from .returned import split as split

_HOMES = {
    "Construction": "building",
    "Form": "form",
    "Found": "returned",
    "answers_of": "recognising",
    "construction_of": "building",
    "form_of": "recognising",
    "settled": "packing",
    "split": "returned",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
