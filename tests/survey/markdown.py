"""Pieces of Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table."""
    lines = [tuple(map(cell, head)), ("---",) * len(head), *(tuple(map(cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cell(value: object) -> str:
    """Return a value as the text of one cell."""
    return " ".join(str(value).split()).replace("|", "\\|")


def plain(text: str) -> str:
    """Return a text in which nothing is taken for Markdown or HTML."""
    return re.sub(r"([*_`<\\[\]])", r"\\\1", text)


def code(text: str) -> str:
    """Return a text as code."""
    return f"`{text}`"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
