"""How a repository is laid out: what its files are called in an import, and where its tests stand."""

from __future__ import annotations

import importlib
import importlib.util
import keyword
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

SOURCE_FOLDERS = ("src", "python")
"""Folders that hold packages and are none themselves."""

PROJECT_FILES = ("pyproject.toml", "setup.py")
"""Files by which pip can install a folder."""

TEST_FOLDERS = ("tests", "test")

HIDING = "register"
"""The name that the written module imports; a module of the same name could not stand beside it."""


@dataclass(frozen=True)
class Layout:
    """A repository. `roots` maps folders, relative to it, to the package that their files belong to ("" for none)."""

    folder: Path
    roots: Mapping[PurePosixPath, str]
    tests: str

    def module_of(self, path: PurePosixPath) -> str | None:
        """Return the import name of a file, given relative to the repository; None where it has none."""
        root = self._root(path)
        parts = path.relative_to(root).with_suffix("").parts
        names = [*filter(None, self.roots[root].split(".")), *(parts[:-1] if parts[-1] == "__init__" else parts)]
        usable = names and names[0] != HIDING and all(map(_is_name, names))
        return ".".join(names) if usable else None

    def search_path(self, path: PurePosixPath) -> PurePosixPath:
        """Return the folder that has to be on Python's path for a file to be imported."""
        root = self._root(path)
        return root.joinpath(*[".."] * len(list(filter(None, self.roots[root].split(".")))))

    def _root(self, path: PurePosixPath) -> PurePosixPath:
        return max((each for each in self.roots if path.is_relative_to(each)), key=lambda each: len(each.parts))

    @property
    def is_installable(self) -> bool:
        """Whether pip can install the repository."""
        return _is_project(self.folder)

    def needs_installing(self, module: str) -> bool:
        """Say whether a module is found neither from the repository's folder nor in this environment."""
        top = module.partition(".")[0]
        if any((self.folder / name).exists() for name in (top, f"{top}.py")):
            return False
        # The top level alone is looked up, for which Python imports nothing.
        return importlib.util.find_spec(top) is None


def layout_of(folder: Path) -> Layout:
    """Read the layout of a repository from its folders and, as far as it is plain, its pyproject.toml."""
    settings = _tool_settings(folder)
    roots = {PurePosixPath(): _package_of(folder.resolve())}
    roots |= {PurePosixPath(name): "" for name in SOURCE_FOLDERS if _holds_packages(folder / name)}
    roots |= dict(_declared_roots(settings.get("setuptools")))
    return Layout(folder, roots, _tests(folder, settings.get("pytest")))


def _is_project(folder: Path) -> bool:
    return any((folder / name).exists() for name in PROJECT_FILES)


def _package_of(folder: Path) -> str:
    """Return the package that a folder is; "" for a repository, where an `__init__.py` at the top means nothing."""
    names: list[str] = []
    while (folder / "__init__.py").exists() and not _is_project(folder) and not (folder / ".git").exists():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names)


def _is_name(text: str) -> bool:
    return text.isidentifier() and not keyword.iskeyword(text)


def _holds_packages(folder: Path) -> bool:
    return folder.is_dir() and not (folder / "__init__.py").exists()


def _tool_settings(folder: Path) -> Mapping[str, Any]:
    """Return the tables below `tool`; none where there is no file or it cannot be read, which others will complain of."""
    # pytest, which this package needs, brings tomli where Python has no tomllib.
    toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        text = (folder / "pyproject.toml").read_text(encoding="utf-8")
        return _table(toml.loads(text), "tool")
    except (OSError, ValueError):
        return {}


def _table(settings: object, *names: str) -> Mapping[str, Any]:
    for name in names:
        settings = settings.get(name) if isinstance(settings, dict) else None
    return settings if isinstance(settings, dict) else {}


def _declared_roots(setuptools: object) -> Iterator[tuple[PurePosixPath, str]]:
    """Yield what setuptools' `package-dir` and `packages.find.where` say."""
    where = _table(setuptools, "packages", "find").get("where")
    for place in where if isinstance(where, list) else ():
        yield PurePosixPath(str(place)), ""
    for package, place in _table(setuptools, "package-dir").items():
        yield PurePosixPath(str(place)), str(package)


def _tests(folder: Path, pytest: object) -> str:
    paths = _table(pytest, "ini_options").get("testpaths")
    named = [paths] if isinstance(paths, str) else list(map(str, paths)) if isinstance(paths, list) else []
    known = [name for name in (*named, *TEST_FOLDERS) if (folder / name).is_dir()]
    return known[0] if known else TEST_FOLDERS[0]
