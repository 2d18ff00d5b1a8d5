"""Which file belongs to which test: `<rootdir>/snapshots/pinned/<path of the test module>/<name>.pin.json`.

The path of the module is part of it, so that two modules of one name in different folders never meet.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from syrupy.location import PyTestLocation

from ..errors import ConformanceError

FOLDER = ("snapshots", "pinned")
OUTSIDE = "_outside_"
"""Where modules that do not lie below the root directory have their pins."""

Item = Any
"""An item of pytest, or what syrupy rebuilds of one in the controller of pytest-xdist: `nodeid` and `path` alone."""

SUFFIX = ".pin.json"
LONGEST = 200


class PinsInSitePackages(ConformanceError):
    """The root directory of the run lies in an installation, where nobody reviews what is pinned."""


def require_repository(item: Item) -> None:
    """Raise PinsInSitePackages where the root directory of the run is part of an installation."""
    root = Path(item.config.rootpath)
    if {"site-packages", "dist-packages"} & set(root.parts):
        raise PinsInSitePackages(
            f"the root directory of this run is {root}, an installation; pins belong into a repository. Run pytest "
            "from yours, or name it with --rootdir."
        )


def module_of(item: Item) -> tuple[str, ...]:
    """Return the parts of the folder for the module of a test, below `pinned`."""
    path, root = Path(item.path), item.config.rootpath
    if path.is_relative_to(root):
        return path.relative_to(root).with_suffix("").parts
    return (OUTSIDE, *path.with_suffix("").parts[-3:])


def folder_of(item: Item) -> Path:
    """Return the folder that holds the pins of a test's module."""
    return Path(item.config.rootpath).joinpath(*FOLDER, *module_of(item))


def is_in_folder_of(item: Item, location: str) -> bool:
    """Say whether a file is a pin of this test's module.

    The controller of pytest-xdist knows node id and path of a test, and not the root directory.
    """
    parent = Path(location).parent.parts
    inside = PurePosixPath(item.nodeid.split("::")[0])
    outside = (OUTSIDE, *Path(item.path).with_suffix("").parts[-3:])
    return any(parent[-len(own) - 2 :] == (*FOLDER, *own) for own in (_stem(inside), outside))


def _stem(path: PurePosixPath) -> tuple[str, ...]:
    return path.with_suffix("").parts if path.name else ()


def file_name(name: str) -> str:
    """Return a name that every file system takes, another one for each name: `a/b` becomes `a%2Fb`."""
    safe = "".join(c if c not in '\\/?*:|"<>%' and unicodedata.category(c)[0] != "C" else _escaped(c) for c in name)
    if len(safe.encode()) <= LONGEST:
        return safe
    digest = hashlib.sha256(safe.encode()).hexdigest()[:12]
    return safe.encode()[: LONGEST - 13].decode("utf-8", "ignore") + "~" + digest


def _escaped(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))


def pins_of(item: Item) -> Iterator[Path]:
    """Yield the pins of every module that this run has tests of, and those whose module is gone."""
    root = Path(item.config.rootpath)
    pinned = root.joinpath(*FOLDER)
    modules = set(map(module_of, {each.nodeid.split("::")[0]: each for each in item.session.items}.values()))
    for path in sorted(pinned.rglob(f"*{SUFFIX}")):
        parts = path.parent.relative_to(pinned).parts
        gone = parts and parts[0] != OUTSIDE and not _has_module(root.joinpath(*parts))
        if parts in modules or gone:
            yield path


def _has_module(path: Path) -> bool:
    """Say whether a file of any suffix is there that could be the test module."""
    return path.parent.is_dir() and any(each.stem == path.name and each.is_file() for each in path.parent.iterdir())


def ownerless(item: Item) -> Iterator[Path]:
    """Yield the pins that no test of this run can still want.

    Left out are those of tests that were deselected, skipped, stopped before or failed, any of which may not have
    reached its assertion; and all, where tests were named one by one or `--lf` dropped some before syrupy saw them.
    """
    config = item.config
    waiting = _waiting(config)
    if waiting is None or any("::" in str(argument) for argument in config.args) or config.getoption("lf", False):
        return
    for path in pins_of(item):
        name = path.name.removesuffix(SUFFIX)
        if not any(_may_be_of(name, own) for own, folder in waiting if folder == path.parent):
            yield path


def _waiting(config: Any) -> list[tuple[str, Path]] | None:
    """Return name and folder of each collected test that did not pass here; None where syrupy does not tell.

    These two attributes of syrupy are private and have been there from version 5.0 to 7.0; without them nothing is
    ever called unused.
    """
    session = getattr(config, "_syrupy", None)
    collected, selected = getattr(session, "_collected_items", None), getattr(session, "_selected_items", None)
    if collected is None or selected is None:
        return None
    found = []
    for item in collected.values() if isinstance(collected, dict) else collected:
        if getattr(selected.get(item.nodeid), "value", None) != "passed":
            found.append((file_name(PyTestLocation(item).snapshot_name), folder_of(item)))
    return found


def _may_be_of(name: str, own: str) -> bool:
    """Say whether a snapshot of this name may be one of the test whose first snapshot is called `own`."""
    return name == own or name.startswith((f"{own}.", f"{own}[")) or "~" in name
