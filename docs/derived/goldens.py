"""How a golden vector is read: the README that lies beside the vectors, as a page of the site."""

from __future__ import annotations

from pathlib import Path

SOURCE = "snapshots/README.md"
ROOT = Path(__file__).parents[2]


def page() -> str:
    """Return the README as it is; it links to nothing."""
    return (ROOT / SOURCE).read_text(encoding="utf-8")
