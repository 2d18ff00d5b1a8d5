"""The sdist and the wheel: the same wherever they are built, and the sdist holds the tests and what they read."""

from __future__ import annotations

import re
import tarfile
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import pytest

from attention_conformance.version import __version__
from tests.packaging.archives import build_twice, checksums
from tests.packaging.environments import DISTRIBUTION, FILES, FOLDERS, MADE, ROOT

pytestmark = pytest.mark.packaging


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders, each with an sdist and a wheel."""
    return build_twice(tmp_path_factory.mktemp("builds"))


@pytest.fixture(scope="module")
def members(builds: tuple[Path, Path]) -> list[tarfile.TarInfo]:
    """What the sdist holds."""
    with tarfile.open(builds[0] / f"{DISTRIBUTION}-{__version__}.tar.gz") as archive:
        return archive.getmembers()


def test_two_builds_are_equal_byte_for_byte(builds: tuple[Path, Path]) -> None:
    first, second = map(checksums, builds)
    assert len(first) == 2
    assert first == second


def test_archives_tell_nothing_of_the_machine(builds: tuple[Path, Path], members: list[tarfile.TarInfo]) -> None:
    assert {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in members} == {(0, 0, "", "")}
    assert {entry.mode for entry in members} <= {0o644, 0o755}
    with zipfile.ZipFile(builds[1] / f"{DISTRIBUTION}-{__version__}-py3-none-any.whl") as wheel:
        assert {entry.external_attr >> 16 for entry in wheel.infolist()} == {0o100644}
        assert wheel.infolist()[-1].filename.endswith("/RECORD")


def test_the_sdist_holds_the_tests_and_what_they_read(members: list[tarfile.TarInfo]) -> None:
    found = {entry.name.partition("/")[2] for entry in members}
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    expected = {path.relative_to(ROOT).as_posix() for path in paths if path.is_file() and not _is_made(path)}
    assert sorted((expected | set(FILES)) - found) == [], "left out: see MANIFEST.in"


def _is_made(path: Path) -> bool:
    """Whether a file is a cache or a built page."""
    parts = path.relative_to(ROOT).parts[1:]
    return any(fnmatch(part, pattern) for part in parts for pattern in MADE)


def test_the_changelog_begins_with_this_version() -> None:
    [newest, *_] = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert newest == __version__
