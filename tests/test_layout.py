"""The layout of the package: data flows one way, so no room imports one that, by some way, imports it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

import attention_conformance

ROOT = Path(attention_conformance.__file__).parent
FLOW = ("cases", "oracle", "trials", "rulebook", "runner", "auditing", "cli")
FINDS_ITS_RULES = ("rulebook", "rules")
"""The catalogue looks into the folder of rules when it is first asked, and each rule is marked by its decorator."""


def rooms(root: Path) -> dict[str, list[Path]]:
    """Return the files of each room: a module of the top level, or a package with all that it holds."""
    found: dict[str, list[Path]] = {}
    for path in sorted(root.rglob("*.py")):
        inner = path.relative_to(root).with_suffix("").parts
        if inner[0] not in ("reference", "snapshots"):
            found.setdefault(inner[0], []).append(path)
    return found


def imported(path: Path, root: Path) -> Iterator[str]:
    """Yield the rooms that a file imports from, inside functions and for type checkers too."""
    package = ("", *path.relative_to(root).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            above = (*package[1 : len(package) - node.level + 1], *(node.module or "").split("."))
            if any(above):
                yield next(filter(None, above))
            else:
                yield from (alias.name for alias in node.names)


def arrows(root: Path) -> dict[str, set[str]]:
    """Return which rooms each room imports. The public page imports everything, and nothing imports it."""
    found = {
        room: {other for path in paths for other in imported(path, root)} - {room}
        for room, paths in rooms(root).items()
    }
    del found["__init__"]
    found[FINDS_ITS_RULES[0]].discard(FINDS_ITS_RULES[1])
    return found


def reached(start: str, arrows: Mapping[str, set[str]]) -> set[str]:
    """Return every room that is imported from one, at any distance."""
    found, waiting = set(), [start]
    while waiting:
        new = arrows.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


def test_no_room_imports_one_that_imports_it() -> None:
    try:
        TopologicalSorter(arrows(ROOT)).prepare()
    except CycleError as error:
        pytest.fail(f"these import each other in a circle: {' <- '.join(error.args[1])}")


@pytest.mark.parametrize(("earlier", "later"), list(pairwise(FLOW)))
def test_what_comes_later_in_the_flow_imports_what_comes_earlier(earlier: str, later: str) -> None:
    assert earlier in reached(later, arrows(ROOT))


def test_a_circle_is_seen(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "__init__.py").touch()
    (tmp_path / "rulebook.py").touch()
    (tmp_path / "cases.py").write_text("def late():\n    from .rules.masks import rule\n", encoding="utf-8")
    (tmp_path / "rules" / "masks.py").write_text("from .. import cases\n", encoding="utf-8")
    with pytest.raises(CycleError):
        TopologicalSorter(arrows(tmp_path)).prepare()
