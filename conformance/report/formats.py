"""The reports that are written to files, each by an option of its own name. A new one is a module and an entry here."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .combining import Combined


@dataclass(frozen=True)
class Format:
    """One form of report. `module` of this package makes it: `page(combined)` returns its text. `help` is the option's."""

    name: str
    module: str
    help: str

    def page(self, combined: Combined) -> str:
        """Return the report over all results."""
        text: str = importlib.import_module(f"{__package__}.{self.module}").page(combined)
        return text


FORMATS = (
    Format("html", "html", "Write one page to look at, without network."),
    Format("markdown", "markdown", "Write a page for the summary of a CI job."),
    Format("badge", "badge", "Write a badge, as shields.io's endpoint reads it."),
)
