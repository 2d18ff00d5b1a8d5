"""The pages that people write, where their links lead, and the anchors of their headings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.packaging.environments import ROOT

from .pages import FENCED


def pages() -> Iterator[Path]:
    """Yield the README, the pages of the site, and what lies beside golden vectors and examples."""
    yield from (ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "snapshots" / "README.md")
    yield from sorted((ROOT / "docs").glob("*.md"))
    yield from sorted((ROOT / "examples").rglob("*.md"))


def links(page: Path) -> list[str]:
    """Return where the links and pictures of a page lead, those inside of code left out."""
    text = re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text(encoding="utf-8")))
    return re.findall(r"!?\[[^\]]*\]\(([^)\s]+)\)", text)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them of their text."""
    headings = re.findall(r"^#+ +(.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
