"""The project installed in each way that users install it, once per session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.environments import Environment, copy_project, create


@pytest.fixture(scope="session", params=["wheel", "editable", "strict"])
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, dependencies: Path
) -> Environment:
    """An environment with the project installed from its wheel, editable, or strictly editable."""
    if request.param == "wheel":
        found: Environment = request.getfixturevalue("from_wheel")
        return found
    folder = tmp_path_factory.mktemp(request.param)
    strictly = ["--config-settings", "editable_mode=strict"] if request.param == "strict" else []
    return create(folder, dependencies, "--editable", str(copy_project(folder / "project")), *strictly)
