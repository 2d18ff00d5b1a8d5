"""What the tests of snapshots share: a user's repository whose value can be changed, and how its runs are read."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

# What an inner run would import anew each time, because pytester forgets the modules of a run when it ends.
import hypothesis  # noqa: F401
import numpy as np  # noqa: F401
import pytest

import attention_conformance.collecting.collection
import attention_conformance.collecting.pinning
import attention_conformance.snapshot  # noqa: F401

PINNED = "snapshots/pinned"
TEST = """
import numpy as np
import values
from attention_conformance.snapshot import PinExtension


def test_value(snapshot):
    assert snapshot.use_extension(PinExtension) == values.value()
"""
VALUE = """{
    "output": np.array([[0.25, -0.5, np.nan], [1.0, 2.0, np.inf]], dtype=np.float32),
    "lengths": np.array([3, 5]),
    "answer": "uniform",
    "scale": 0.125,
}"""


def set_value(pytester: pytest.Pytester, expression: str) -> None:
    """Write `values.py`, whose `value()` returns what the expression gives."""
    text = f"import numpy as np\n\n\ndef value():\n    return {expression}\n"
    pytester.path.joinpath("values.py").write_text(text)


def set_test(pytester: pytest.Pytester, text: str = TEST, name: str = "tests/test_value.py") -> Path:
    """Write a test module of the repository, whose root is on the path."""
    path = pytester.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    pytester.path.joinpath("pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n")
    return path


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest in this process, with every file read anew: two edits of one second and size share their bytecode."""
    with mock.patch.object(sys, "dont_write_bytecode", True):
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", *arguments)


def update(pytester: pytest.Pytester, *arguments: str) -> None:
    """Pin what there is, in a run that has to pass."""
    assert run(pytester, "--snapshot-update", *arguments).ret == pytest.ExitCode.OK


def pins(pytester: pytest.Pytester) -> list[str]:
    """Return every file below `snapshots`, relative to it."""
    folder = pytester.path / "snapshots"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def only_pin(pytester: pytest.Pytester) -> Path:
    """Return the one pin that there is."""
    [path] = (pytester.path / PINNED).rglob("*.pin.json")
    return path


def edit(path: Path, **changes: Any) -> None:
    """Change entries of a pin file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
