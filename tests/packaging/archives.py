"""The sdist and the wheel, built twice from the same sources on what might be two machines."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.packaging.environments import copy_project, run

BUILD = """
import os, sys
from setuptools import build_meta
_, umask, destination = sys.argv  # setuptools puts its own there
os.umask(int(umask, 8))
build_meta.build_sdist(destination)
build_meta.build_wheel(destination)
"""
IN_2001 = 981173106


def build_twice(folder: Path) -> tuple[Path, Path]:
    """Build the project in two folders below `folder`, with other times and permissions; return where the archives are."""
    folder.mkdir(parents=True, exist_ok=True)
    here, there = copy_project(folder / "here"), copy_project(folder / "somewhere-else")
    make_other(there)
    return _build(here, folder / "first", "022"), _build(there, folder / "second", "077")


def make_other(project: Path) -> None:
    """Give every file another time and take every permission of others away."""
    for path in project.rglob("*"):
        os.utime(path, (IN_2001, IN_2001))
        path.chmod(path.stat().st_mode & 0o700)


def _build(project: Path, destination: Path, umask: str) -> Path:
    destination.mkdir()
    run(sys.executable, "-c", BUILD, umask, str(destination), cwd=project)
    return destination


def checksums(folder: Path) -> Mapping[str, str]:
    """Return the checksum of each archive."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}
