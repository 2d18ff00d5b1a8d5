"""Which real implementations are audited: one file for each group of packages, each with `ENTRIES`."""

from __future__ import annotations

import importlib
import pkgutil

from tests.survey.entry import Entry


def all_entries() -> tuple[Entry, ...]:
    """Return the entries of every file in this folder, in the order of the files' names."""
    modules = (importlib.import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__))
    return tuple(entry for module in modules for entry in module.ENTRIES)
