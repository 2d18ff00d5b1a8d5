"""Docstrings as Sphinx reads them: this project indents code in them, and Sphinx wants a `::` before it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def with_code_marked(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a docstring with a `::` before each indented block that follows an empty line."""
    inside, previous = False, "text"
    for line in lines:
        indented = line.startswith("    ")
        if indented and not inside and not previous.strip():
            yield from ("::", "")
        inside = indented or (inside and not line.strip())
        previous = line
        yield line
