"""Throwaway environments that see the running one's dependencies but not its copy of this project.

Nothing is downloaded and torch is not installed again: an environment's site-packages points to a folder of
links to what the running interpreter has installed, this project left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "conformance": "attention_conformance",
    "reference": "attention_conformance.reference",
    "snapshots": "attention_conformance.snapshots",
}
DISTRIBUTION = "attention_conformance"
FOLDERS = (*PACKAGES, "tests", "docs", "examples", ".ci", ".github")
FILES = (
    "pyproject.toml",
    "setup.py",
    "MANIFEST.in",
    "tox.ini",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
    ".gitattributes",
)
MADE = ("__pycache__", ".*", "_build", "_derived", "*.egg-info")
"""Names of what is made in a checkout, below its folders."""

MINUTES = 5


@dataclass(frozen=True)
class Environment:
    """One virtual environment, with an empty folder in which its commands run."""

    home: Path
    empty: Path

    def run(self, *arguments: str, program: str = "python", cwd: Path | None = None, given: str = "") -> str:
        """Run one of the environment's programs; return its output, raise AssertionError if it failed."""
        return run(self.script(program), *arguments, cwd=cwd or self.empty, given=given)

    def script(self, name: str) -> str:
        """Return the path of a command that is installed in this environment."""
        return str(self.home / ("Scripts" if os.name == "nt" else "bin") / name)


def run(*command: str, cwd: Path, given: str = "") -> str:
    """Run a command without a network or an outer pytest's settings, and return its standard output."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTEST_", "PYTHONPATH", "PIP_", "VIRTUAL_ENV"))
    }
    environment |= {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        command,
        cwd=cwd,
        input=given,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60 * MINUTES,
        check=False,
    )
    if done.returncode:
        raise AssertionError(f"{' '.join(command)} exited with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout


def copy_project(destination: Path) -> Path:
    """Copy what a build reads, and what it has to leave out, away from the checkout's caches."""
    destination.mkdir()
    for folder in FOLDERS:
        if (ROOT / folder).is_dir():
            shutil.copytree(ROOT / folder, destination / folder, ignore=shutil.ignore_patterns(*MADE))
    for name in FILES:
        shutil.copy2(ROOT / name, destination / name)
    return destination


def folder_of(package: str) -> Path:
    """Return the repository's folder that is installed as `package`."""
    return ROOT / {name: folder for folder, name in PACKAGES.items()}[package]


def shipped_files() -> Iterator[tuple[str, Path]]:
    """Yield (package, file) for every file of the folders that are shipped whole."""
    for folder, package in PACKAGES.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield package, path.relative_to(ROOT / folder)


def build_wheel(project: Path, destination: Path) -> Path:
    """Build the project's wheel with the running environment's setuptools."""
    options = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(destination)]
    run(sys.executable, "-m", "pip", "wheel", *options, str(project), cwd=project)
    (wheel,) = destination.glob("*.whl")
    return wheel


def link_dependencies(destination: Path) -> Path:
    """Fill a folder with links to everything installed here but this project."""
    destination.mkdir()
    for folder in map(Path, sys.path):
        if folder.name not in {"site-packages", "dist-packages"} or not folder.is_dir():
            continue
        for entry in folder.iterdir():
            link = destination / entry.name
            foreign = DISTRIBUTION not in entry.name and entry.suffix != ".pth"
            if foreign and entry.name != "__pycache__" and not link.exists():
                link.symlink_to(entry)
    return destination


def create(folder: Path, dependencies: Path, *install: str) -> Environment:
    """Create an environment in `folder` and install the project into it with pip's arguments `install`."""
    home, empty = folder / "venv", folder / "empty"
    empty.mkdir(parents=True)
    venv.create(home, with_pip=False, symlinks=os.name != "nt")
    environment = Environment(home, empty)
    purelib = environment.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    (Path(purelib) / "dependencies.pth").write_text(f"{dependencies}\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", environment.script("python"), "install"]
    run(*pip, "--no-deps", "--no-build-isolation", *install, cwd=empty)
    return environment
