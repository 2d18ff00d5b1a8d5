"""The Python files of a repository that may hold attention. They are parsed; nothing of them is executed."""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from ..calling.names import built_role, called_role
from .arguments import Definition
from .findings import LeftOut, Place
from .layout import TEST_FOLDERS, Layout

SKIPPED = frozenset(
    (*TEST_FOLDERS, "testing", "build", "dist", "docs", "examples", "benchmarks", "node_modules", "site-packages")
)
"""Folders that are not entered, beside hidden ones and virtual environments: they hold no code of the package itself."""

LARGEST = 2_000_000
"""Bytes beyond which a file is taken for data."""

ATTENTION = ("attn", "attention", "mha", "msa")
"""What the name of a class holds that is attention."""

_NO_SOURCE = re.compile(r"(test_.*|.*_test|conftest|setup|noxfile|__main__)\.py")
_DEFINITION = re.compile(r"\bdef\s+\w+[^(:]*\((.{0,4000}?)\)\s*(?:->[^:]*)?:", re.DOTALL)
_CLASS = re.compile(rf"\bclass\s+\w*(?:{'|'.join(ATTENTION)})\w*", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class Source:
    """One file that may hold attention: its path in the repository, its import name (None: it has none), its syntax."""

    path: PurePosixPath
    module: str | None
    tree: ast.Module

    @property
    def definitions(self) -> Iterator[Definition | ast.ClassDef]:
        """Its outermost definitions, those under a condition or in a `try` among them."""
        return _outermost(self.tree.body)

    @cached_property
    def imported(self) -> frozenset[str]:
        """The top-level names of all modules that it imports."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
        return frozenset(found)


def _outermost(body: Iterable[ast.AST]) -> Iterator[Definition | ast.ClassDef]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node
        elif isinstance(node, (ast.If, ast.Try, ast.ExceptHandler, ast.With)):
            yield from _outermost(ast.iter_child_nodes(node))


@dataclass
class Scan:
    """What a repository holds: how many files were read, those that may hold attention, and those that are no Python."""

    files: int = 0
    sources: list[Source] = field(default_factory=list)
    unreadable: list[LeftOut] = field(default_factory=list)


def scan(layout: Layout) -> Scan:
    """Read every Python file of a repository, in the order of their paths."""
    found = Scan()
    for path in _python_files(layout.folder):
        found.files += 1
        place = PurePosixPath(path.relative_to(layout.folder).as_posix())
        try:
            tree = _parsed(path)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            found.unreadable.append(LeftOut(Place(place), f"it cannot be read as Python: {_told(error)}"))
            continue
        if tree is not None:
            found.sources.append(Source(place, layout.module_of(place), tree))
    return found


def _python_files(folder: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if _is_entered(Path(place, name)))
        # A pipe may be called a file of Python too, and reading it would never end.
        yield from (Path(place, name) for name in sorted(files) if _is_source(name) and Path(place, name).is_file())


def _is_entered(folder: Path) -> bool:
    # The hidden and the built ones go by name; an environment may have any name, and holds this file.
    return (
        not folder.name.startswith((".", "__")) and folder.name not in SKIPPED and not (folder / "pyvenv.cfg").exists()
    )


def _is_source(name: str) -> bool:
    return name.endswith(".py") and not name.startswith(".") and not _NO_SOURCE.fullmatch(name)


def _parsed(path: Path) -> ast.Module | None:
    """Return the syntax of a file, None if it holds no attention for certain: most files need no parsing."""
    if path.stat().st_size > LARGEST:
        return None
    data = path.read_bytes()
    if not _may_hold_attention(data.decode("utf-8", "replace")):
        return None
    with warnings.catch_warnings():
        # What the code is warned of, an invalid escape say, is no concern of whoever runs this.
        warnings.simplefilter("ignore")
        return ast.parse(data)


def _may_hold_attention(text: str) -> bool:
    """Say whether a definition takes what attention takes, or a class is called so."""
    for arguments in _DEFINITION.findall(text):
        words = set(_WORD.findall(arguments))
        roles = {found[0] for found in map(called_role, words) if found is not None}
        if {"key", "value"} <= roles or roles & {"qkv", "kv", "heads"} or "head_width" in map(built_role, words):
            return True
    return _CLASS.search(text) is not None


def _told(error: Exception) -> str:
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}, {error.msg}"
    return str(error) or type(error).__name__
