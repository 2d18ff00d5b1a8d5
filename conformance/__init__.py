"""Conformance tests for attention implementations.

    from attention_conformance import register
    from mykernels import attend

    flash = register(attend)

The whole public surface is on this page; everything is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .version import __version__

if TYPE_CHECKING:
    from .auditing.workers import audit_many as audit_many
    from .bridges.modules import projected as projected
    from .calling.protocols import packed as packed
    from .calling.protocols import stepwise as stepwise
    from .capabilities import Capabilities as Capabilities
    from .deviations import Deviation as Deviation
    from .errors import ConformanceError as ConformanceError
    from .implementation import Implementation as Implementation
    from .implementation import register as register
    from .records import Outcome as Outcome
    from .records import Record as Record
    from .records import Verdict as Verdict
    from .runner import check as check
    from .verdicts import verdict as verdict

_HOMES = {
    "Capabilities": "capabilities",
    "ConformanceError": "errors",
    "Deviation": "deviations",
    "Implementation": "implementation",
    "Outcome": "records",
    "Record": "records",
    "Verdict": "records",
    "audit_many": "auditing.workers",
    "check": "runner",
    "packed": "calling.protocols",
    "projected": "bridges.modules",
    "register": "implementation",
    "stepwise": "calling.protocols",
    "verdict": "verdicts",
}

__all__ = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
