"""What the wheel holds and says of itself."""

from __future__ import annotations

import ast
import email
import sys
import zipfile
from email.message import Message
from pathlib import Path, PurePosixPath

import pytest

from attention_conformance.version import __version__
from tests.packaging.environments import DISTRIBUTION, folder_of, shipped_files

pytestmark = pytest.mark.packaging

LATE = ("adapters", "bridges")
"""Folders whose functions import what a target uses, which is there wherever the target is."""

DIST_INFO = f"{DISTRIBUTION}-{__version__}.dist-info"


@pytest.fixture(scope="module")
def names(wheel: Path) -> set[str]:
    """The names of all files in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    """The wheel's core metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return email.message_from_bytes(archive.read(f"{DIST_INFO}/METADATA"))


def test_every_file_of_the_packages_is_shipped_and_nothing_else(names: set[str]) -> None:
    expected = {(PurePosixPath(*package.split(".")) / path.as_posix()).as_posix() for package, path in shipped_files()}
    found = {name for name in names if not name.startswith(f"{DIST_INFO}/")}
    assert sorted(expected - found) == [], (
        "not shipped: list a new subpackage under [tool.setuptools] packages in pyproject.toml, "
        "a new kind of data file under package-data"
    )
    assert sorted(found - expected) == [], "shipped, but not in the repository's folders"


@pytest.mark.parametrize(
    "name", ["py.typed", "reference/attention.pyi", "reference/self_attention.pyi", "snapshots/__init__.py"]
)
def test_typing_and_data_files_have_their_place(names: set[str], name: str) -> None:
    assert f"{DISTRIBUTION}/{name}" in names


def test_metadata_states_licence_version_and_python(metadata: Message, names: set[str]) -> None:
    assert metadata["Name"] == "attention-conformance"
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Requires-Python"] == ">=3.10"
    assert f"{DIST_INFO}/licenses/LICENSE" in names


def test_every_third_party_import_is_required(metadata: Message) -> None:
    required = {
        entry.split(">=")[0].lower().replace("-", "_")
        for entry in metadata.get_all("Requires-Dist", [])
        if "extra ==" not in entry
    }
    known = required | sys.stdlib_module_names | {DISTRIBUTION}
    undeclared = {
        f"{package}/{path}: {name}" for package, path in shipped_files() for name in imports(package, path) - known
    }
    assert sorted(undeclared) == []


def imports(package: str, path: Path) -> set[str]:
    """Return the top-level modules that a shipped Python file imports: anywhere, or where it may do so late, at import."""
    if path.suffix != ".py":
        return set()
    names: set[str] = set()
    tree = ast.parse((folder_of(package) / path).read_text(encoding="utf-8"))
    for node in tree.body if path.parts[0] in LATE else ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names
