"""Implementations that the suite knows how to call: one table, an entry for each way to call one target.

An entry is picked whenever its target is recognised, however it was named, and says what the implementation does
as it is, not as it ought to be: where that breaks a rule, the entry carries a deviation with its reason.
"""

from __future__ import annotations

from .adapter import Adapter, Built
from .table import ADAPTERS, DEFAULT_TARGETS, find

__all__ = ["ADAPTERS", "DEFAULT_TARGETS", "Adapter", "Built", "find"]
