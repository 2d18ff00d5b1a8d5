"""`python -m tests.packaging.release FOLDER`: build what is released, check it and try it; FOLDER then holds it.

The archives are built twice and compared, `twine check` reads them, and the wheel is installed with what it requires
into the environment that runs this, which is to hold nothing of ours: `tox -e release` makes such a one.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.packaging.archives import build_twice, checksums

COMMAND = ("-m", "attention_conformance")
TRIED = ("audit", "--select", "SHAPE", "--min-records", "20")


def main(destination: Path) -> None:
    """Build, compare, check, install and try. Raises SystemExit or CalledProcessError at the first that fails."""
    if importlib.util.find_spec("attention_conformance") is not None:
        sys.exit("attention-conformance is installed here, so that a wheel could not be tried. Run tox -e release.")
    with tempfile.TemporaryDirectory() as folder:
        first, second = build_twice(Path(folder))
        if checksums(first) != checksums(second):
            sys.exit(f"two builds differ: {checksums(first)} and {checksums(second)}. See setup.py.")
        shutil.rmtree(destination, ignore_errors=True)
        shutil.copytree(first, destination)
    archives = [str(path) for path in sorted(destination.iterdir())]
    python("-m", "twine", "check", "--strict", *archives)
    (wheel,) = destination.glob("*.whl")
    python("-m", "pip", "install", "--quiet", str(wheel))
    with tempfile.TemporaryDirectory() as empty:
        python(*COMMAND, "--version", cwd=empty)
        python(*COMMAND, *TRIED, cwd=empty)
    for name, digest in checksums(destination).items():
        print(f"{digest}  {destination.name}/{name}")


def python(*arguments: str, cwd: str | os.PathLike[str] | None = None) -> None:
    """Run this interpreter. Raises CalledProcessError."""
    sys.stdout.flush()
    subprocess.run([sys.executable, *arguments], cwd=cwd, check=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
