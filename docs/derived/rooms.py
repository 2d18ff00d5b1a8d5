"""The rooms of the house: every package and module with the first line of its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.survey.markdown import code, table

ROOT = Path(__file__).parents[2]


def page() -> str:
    """Return a table of the package's top level, one for each package in it, and one of the folders beside it."""
    house = ROOT / "conformance"
    sections = [("conformance/", house), *((f"conformance/{each.name}/", each) for each in packages(house))]
    return "\n".join(f"### {title}\n\n{first_line(folder)}\n\n{rooms(folder)}" for title, folder in sections)


def rooms(folder: Path) -> str:
    """Return the table of the modules and packages of a folder."""
    paths = (path for path in sorted(folder.iterdir()) if path.suffix == ".py" and path.name != "__init__.py")
    rows = [(code(f"{each.name}/"), first_line(each)) for each in packages(folder)]
    return table(("name", "what it is"), rows + [(code(path.name), first_line(path)) for path in paths])


def packages(folder: Path) -> Iterator[Path]:
    """Yield the packages in a folder by name."""
    return (path.parent for path in sorted(folder.glob("*/__init__.py")))


def first_line(path: Path) -> str:
    """Return the first line of the docstring of a module or package."""
    source = path / "__init__.py" if path.is_dir() else path
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())
