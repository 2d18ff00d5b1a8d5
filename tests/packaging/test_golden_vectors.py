"""Golden vectors of an installed wheel are read-only: no flag of a user's run rewrites, deletes or reports them."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT, Environment

pytestmark = pytest.mark.packaging

WRONG_KERNEL = """
import torch
from attention_conformance import register

def attend(query, key, value, mask=None):
    scores = query @ key.mT / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return scores.softmax(-1) @ value * 1.01

wrong = register(attend)
"""

OWN_SNAPSHOT = """
def test_of_their_own(snapshot):
    assert {"a": 1} == snapshot
"""

RUNS = {
    "whole": ["--snapshot-update", "--snapshot-details"],
    "a subset": ["--snapshot-update", "-k", "SNAPSHOT or own"],
    "with xdist": ["--snapshot-update", "-n", "2"],
}


@pytest.fixture(scope="module")
def shipped(from_wheel: Environment) -> Path:
    """The installed folder of the vectors."""
    script = "import attention_conformance.snapshots as s; print(s.__path__[0])"
    folder = Path(from_wheel.run("-c", script).strip())
    assert ROOT not in folder.parents
    return folder


def checksums(folder: Path) -> dict[str, str]:
    """Return a checksum and the time of change of every file but what Python compiled."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            found[path.relative_to(folder).as_posix()] = f"{digest} {path.stat().st_mtime_ns}"
    return found


def pytest_in(environment: Environment, folder: Path, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the environment's pytest, whatever its exit status."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHONPATH"))}
    command = [environment.script("python"), "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize("run", RUNS)
def test_a_wrong_kernel_still_fails_and_the_vectors_stay(
    run: str, from_wheel: Environment, shipped: Path, tmp_path: Path
) -> None:
    (tmp_path / "test_attention.py").write_text(WRONG_KERNEL, encoding="utf-8")
    (tmp_path / "test_own.py").write_text(OWN_SNAPSHOT, encoding="utf-8")
    before = checksums(shipped)
    assert len(before) > 100
    done = pytest_in(from_wheel, tmp_path, RUNS[run])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "FAILED test_attention.py::wrong::SNAPSHOT-001[fp32]" in done.stdout
    assert checksums(shipped) == before
    assert "ATTN-0" not in done.stdout, "no vector is reported"
    assert "unused" not in done.stdout
    assert "deleted" not in done.stdout
