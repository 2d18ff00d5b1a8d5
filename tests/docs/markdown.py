"""Markdown files of this repository: their code blocks, links and anchors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FENCED = re.compile(r"^(```+)(\S*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: what stands behind its fence, and its text."""

    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in order."""
    return [Block(found[2], found[3]) for found in _FENCED.finditer(page.read_text(encoding="utf-8"))]


def links(page: Path) -> list[str]:
    """Return where the links and pictures of a page lead, those inside of code left out."""
    text = re.sub(r"`[^`\n]*`", "", _FENCED.sub("", page.read_text(encoding="utf-8")))
    return _LINK.findall(text)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them of their text."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ +(.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def pages() -> Iterator[Path]:
    """Yield every page that a person writes: the README, the pages of the site, what lies beside the golden vectors."""
    yield from (ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "snapshots" / "README.md")
    yield from sorted((ROOT / "docs").glob("*.md"))
