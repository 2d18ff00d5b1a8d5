"""What pyproject.toml cannot say: the same sources give the same archives, byte for byte.

setuptools writes times, owners and modes of the machine that builds into the sdist, and modes into the wheel. Both are
written once more in one form: sorted names, modes 644 and 755, no owner, and one time, which is SOURCE_DATE_EPOCH or else
the earliest that a wheel can state. Wheels name the version of setuptools, so builds are compared with the same one.
"""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
import time
import zipfile
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.sdist import sdist

EARLIEST = 315532800  # 1980-01-01


def epoch() -> int:
    """Return the time that every file in an archive has, in seconds."""
    return max(int(os.environ.get("SOURCE_DATE_EPOCH", EARLIEST)), EARLIEST)


def mode(executable: bool) -> int:
    """Return the permissions of a file."""
    return 0o755 if executable else 0o644


class Sdist(sdist):
    """An sdist in one form."""

    def make_archive(
        self, base_name: str, kind: str, root_dir: str | None = None, base_dir: str | None = None, **owners: object
    ) -> str:
        """Write the files below `base_dir` into one tar, whatever `kind` is asked for, and return its path."""
        path = f"{base_name}.tar.gz"
        files = sorted(file for file in Path(root_dir or ".", base_dir or ".").rglob("*") if file.is_file())
        with (
            open(path, "wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=epoch()) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
        ):
            for file in files:
                add(archive, file)
        return path


def add(archive: tarfile.TarFile, file: Path) -> None:
    """Write one file without what the machine knows of it."""
    entry = tarfile.TarInfo(file.as_posix())
    entry.size, entry.mtime = file.stat().st_size, epoch()
    entry.mode = mode(bool(file.stat().st_mode & stat.S_IXUSR))
    with file.open("rb") as content:
        archive.addfile(entry, content)


class Wheel(bdist_wheel):
    """A wheel in one form."""

    def run(self) -> None:
        """Build the wheel, then write it again."""
        super().run()
        for _, _, path in self.distribution.dist_files:
            if path.endswith(".whl"):
                rewrite(Path(path))


def rewrite(path: Path) -> None:
    """Write a wheel's files again, in their order, which has RECORD last."""
    whole = path.with_suffix(".tmp")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as new:
        for entry in old.infolist():
            fresh = zipfile.ZipInfo(entry.filename, time.gmtime(epoch())[:6])
            fresh.compress_type = zipfile.ZIP_DEFLATED
            fresh.external_attr = (stat.S_IFREG | mode(False)) << 16
            fresh.create_system = 3  # Unix, wherever it is built
            new.writestr(fresh, old.read(entry))
    whole.replace(path)


setup(cmdclass={"sdist": Sdist, "bdist_wheel": Wheel})
