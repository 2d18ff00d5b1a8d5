"""What holds for every test of benchmarks."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let inner sessions measure: pytest-benchmark takes them for part of an outer session under pytest-xdist."""
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
