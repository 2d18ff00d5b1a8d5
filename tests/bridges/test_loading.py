"""A framework is imported when it is needed, and its absence is told."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from attention_conformance import Outcome, check
from attention_conformance.bridges import bridge, bridge_for, defaults_of, underflow_of
from attention_conformance.errors import FrameworkMissing
from attention_conformance.implementation import describe


def kernel(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Never called."""
    raise AssertionError


@pytest.fixture
def no_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jax", None)
    bridge_for.cache_clear()
    yield
    bridge_for.cache_clear()


def test_registering_imports_no_framework() -> None:
    code = (
        "import sys, attention_conformance as a; a.register(print, framework='jax', mask=()); "
        "sys.exit('jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.usefixtures("no_jax")
def test_what_to_install_is_told_once() -> None:
    with pytest.raises(FrameworkMissing, match="pip install jax"):
        bridge_for("jax")
    records = list(check(describe(kernel, framework="jax"), select=["SHAPE-001", "fp64"]))
    assert records[0].outcome is Outcome.ERROR
    assert "pip install jax" in records[0].message


def test_torch_needs_no_bridge() -> None:
    assert bridge_for("torch") is None
    assert defaults_of("torch") == {}
    assert underflow_of("torch") == 0.0


def test_values_are_exchanged_wherever_they_stand() -> None:
    given = {"a": (1, [2, None]), "b": slice(3)}
    assert bridge.mapped(lambda value: value * 10 if isinstance(value, int) else value, given) == {
        "a": (10, [20, None]), "b": slice(3),
    }  # fmt: skip
