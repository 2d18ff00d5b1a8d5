"""The parts of the documentation that are made from the code, and the Sphinx extension that makes them.

Each file below `docs/_derived` is made by one function, named in `PAGES`. The pages of `docs/` include them, so that
nothing that the code holds is written down twice. `python -m docs.derived` makes them without Sphinx.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from . import capabilities, conventions, figures, goldens, rooms, rules
from .docstrings import with_code_marked

if TYPE_CHECKING:
    from sphinx.application import Sphinx

FOLDER = Path(__file__).parents[1] / "_derived"

PAGES: Mapping[str, Callable[[], str]] = {
    "capabilities.md": capabilities.page,
    "conventions.md": conventions.page,
    "figures.md": figures.page,
    "rooms.md": rooms.page,
    "families.md": rules.overview,
    goldens.SOURCE: goldens.page,
}
"""What makes each file; the pages of the rules' families come from `rules.pages`."""


def made() -> dict[str, str]:
    """Return the text of every derived file by its name."""
    return {name: make() for name, make in PAGES.items()} | rules.pages()


def write(folder: Path = FOLDER) -> None:
    """Write what changed, and remove what is made no more."""
    texts = made()
    for path in (path for path in folder.rglob("*.md") if path.relative_to(folder).as_posix() not in texts):
        path.unlink()
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def within_site(text: str) -> str:
    """Return a page whose links to Markdown outside of `docs/` work in the site too: to its copy, or to the file."""
    text = text.replace(f"](../{goldens.SOURCE})", f"](_derived/{goldens.SOURCE})")
    return re.sub(r"\]\((\.\./[^)#]+\.md)\)", r"](path:\1)", text)


def setup(app: Sphinx) -> dict[str, bool]:
    """Make the derived files before Sphinx looks for its pages, and have it follow their links."""

    def read(app: Sphinx, name: str, source: list[str]) -> None:
        source[0] = within_site(source[0])

    def document(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
        lines[:] = with_code_marked(lines)

    app.connect("builder-inited", lambda _: write())
    app.connect("autodoc-process-docstring", document)
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
