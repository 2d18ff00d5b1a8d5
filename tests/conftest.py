"""The project's wheel, and an environment with it: built once per session, wherever a test asks for them."""

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


@pytest.fixture(scope="session")
def from_wheel(tmp_path_factory: pytest.TempPathFactory, wheel: Path, dependencies: Path) -> Environment:
    """An environment with the wheel. Nothing is installed into it later."""
    return create(tmp_path_factory.mktemp("from-wheel"), dependencies, str(wheel))
