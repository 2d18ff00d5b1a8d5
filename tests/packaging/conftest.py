"""The project installed in each way that users install it, once per session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging.environments import Environment, build_wheel, copy_project, create, link_dependencies


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    return build_wheel(copy_project(folder / "project"), folder / "dist")


@pytest.fixture(scope="session")
def dependencies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to put on `sys.path`, with the running environment's packages but this project."""
    return link_dependencies(tmp_path_factory.mktemp("dependencies") / "links")


@pytest.fixture(scope="session", params=["wheel", "editable", "strict"])
def installed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, wheel: Path, dependencies: Path
) -> Environment:
    """An environment with the project installed from its wheel, editable, or strictly editable."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "wheel":
        return create(folder, dependencies, str(wheel))
    strictly = ["--config-settings", "editable_mode=strict"] if request.param == "strict" else []
    return create(folder, dependencies, "--editable", str(copy_project(folder / "project")), *strictly)
