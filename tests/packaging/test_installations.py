"""The three installations behave alike: wheel, editable, strictly editable."""

from __future__ import annotations

import hashlib
import json
import textwrap
from pathlib import Path

import pytest

from attention_conformance.version import __version__
from tests.packaging.environments import PACKAGES, Environment, folder_of, shipped_files

pytestmark = pytest.mark.packaging

READ_DATA = """
import hashlib, importlib.resources, json, sys
for package, name in json.load(sys.stdin):
    file = importlib.resources.files(package).joinpath(*name.split("/"))
    print(package, name, hashlib.sha256(file.read_bytes()).hexdigest() if file.is_file() else "missing")
"""

FIND_SHORT_NAMES = """
import importlib.util
print([name for name in ["conformance", "reference", "snapshots"] if importlib.util.find_spec(name)])
"""

IMPORT_LIGHTLY = """
import sys
import attention_conformance, attention_conformance.plugin, attention_conformance.version
import attention_conformance.snapshots
print("torch" in sys.modules, attention_conformance.version.__version__)
"""

VERSION = "import importlib.metadata as m; print(m.version('attention-conformance'))"


def test_the_packages_import(installed: Environment) -> None:
    for package in PACKAGES.values():
        assert installed.run("-c", f"import {package} as p; print(p.__name__)").strip() == package


def test_importing_package_and_plugin_leaves_torch_alone(installed: Environment) -> None:
    assert installed.run("-c", IMPORT_LIGHTLY).split() == ["False", __version__]


def test_the_installed_version_is_the_source_version(installed: Environment) -> None:
    assert installed.run("-c", VERSION).strip() == __version__


def test_data_files_are_read_as_resources(installed: Environment) -> None:
    files = [(package, path) for package, path in shipped_files() if path.suffix != ".py"]
    expected = [
        f"{package} {path.as_posix()} {hashlib.sha256((folder_of(package) / path).read_bytes()).hexdigest()}"
        for package, path in files
    ]
    wanted = json.dumps([(package, path.as_posix()) for package, path in files])
    assert installed.run("-c", READ_DATA, given=wanted).splitlines() == expected
    assert len(expected) > 1


def test_no_short_name_is_importable(installed: Environment) -> None:
    assert installed.run("-c", FIND_SHORT_NAMES).strip() == "[]"


def test_the_command_and_the_module_are_one_program(installed: Environment) -> None:
    assert "audit" in installed.run("--help", program="attention-conformance")
    assert "audit" in installed.run("-m", "attention_conformance", "--help")


LAYOUTS = {
    "tests on the path": ("", "conformance"),
    "tests as a package": ("tests/__init__.py", "tests.conformance"),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_users_own_conformance_package_stays_importable(installed: Environment, tmp_path: Path, layout: str) -> None:
    marker, module = LAYOUTS[layout]
    tests = tmp_path / "tests"
    (tests / "conformance").mkdir(parents=True)
    (tests / "conformance" / "__init__.py").write_text("ANSWER = 42\n")
    if marker:
        (tmp_path / marker).touch()
    (tests / "conftest.py").write_text(f"from {module} import ANSWER\n\nassert ANSWER == 42\n")
    (tests / "test_theirs.py").write_text(
        textwrap.dedent(
            f"""
            from {module} import ANSWER

            def test_answer(pytestconfig):
                assert pytestconfig.pluginmanager.hasplugin("attention_conformance")
                assert ANSWER == 42
            """
        )
    )
    out = installed.run("-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=tmp_path)
    assert "1 passed" in out
