"""What the plugin costs a session that registers nothing: three modules, no file, no torch."""

from __future__ import annotations

import ast
import inspect
import sys
from pathlib import Path

import pytest

import attention_conformance.plugin
from attention_conformance.collecting.collection import RECORD
from attention_conformance.implementation import REGISTERED
from tests.plugin.suites import repository

pytest_plugins = ["pytester"]

WATCH = """
import sys

WATCHED = ("torch", "numpy", "hypothesis", "syrupy", "click", "rich", "jinja2", "attention_conformance")

def watched():
    return sorted(name for name in sys.modules if name.partition(".")[0] in WATCHED)

def pytest_collection_finish(session):
    print("collected", *watched())

def pytest_unconfigure(config):
    print("ended", *watched())
"""
THEIRS = """
import pytest

class TestTheirs:
    @pytest.mark.parametrize("number", [1, 2])
    def test_number(self, number):
        assert number

def test_fails():
    assert False
"""
OWN = "attention_conformance attention_conformance.plugin attention_conformance.version"


@pytest.fixture
def alone(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A folder in which new processes of pytest load this plugin and no other."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p attention_conformance.plugin -p no:cacheprovider")
    return pytester


def test_the_plugin_is_one_page() -> None:
    assert len(inspect.getsource(attention_conformance.plugin).splitlines()) < 60


def test_the_plugin_imports_the_standard_library_and_pytest_only() -> None:
    tree = ast.parse(inspect.getsource(attention_conformance.plugin))
    at_import = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = {alias.name for node in at_import if isinstance(node, ast.Import) for alias in node.names}
    names |= {"." * node.level + (node.module or "") for node in at_import if isinstance(node, ast.ImportFrom)}
    assert {name for name in names if name.partition(".")[0] not in {*sys.stdlib_module_names, "pytest"}} == set()


def test_the_plugin_looks_for_the_names_under_which_modules_remember_and_reports_carry() -> None:
    assert (attention_conformance.plugin.REGISTERED, attention_conformance.plugin.RECORD) == (REGISTERED, RECORD)


def test_a_session_without_registrations_loads_nothing_and_writes_nothing(alone: pytest.Pytester) -> None:
    alone.makeconftest(WATCH)
    alone.makepyfile(test_theirs=THEIRS)
    before = files(alone.path)
    result = alone.runpytest_subprocess("-s", "--basetemp", str(alone.path.parent / "elsewhere"))
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines([f"collected {OWN}", f"ended {OWN}"])
    result.stdout.no_fnmatch_line("*attention conformance*")
    assert files(alone.path) == before


def test_a_module_that_registers_nothing_but_imports_the_package_stays_light(alone: pytest.Pytester) -> None:
    alone.makeconftest(WATCH)
    alone.makepyfile("import attention_conformance\n\n\ndef test_version():\n    attention_conformance.__version__")
    alone.runpytest_subprocess("-s").stdout.fnmatch_lines([f"collected {OWN}", f"ended {OWN}"])


def test_the_plugin_is_found_by_its_entry_point(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--help")
    result.stdout.fnmatch_lines(["conformance of attention implementations:", "*--attention-tier*"])


def test_a_run_with_registrations_writes_no_file(alone: pytest.Pytester) -> None:
    repository(alone, "flash = register(kernels.attend, dtypes=('fp32',))")
    before = files(alone.path)
    result = alone.runpytest_subprocess("--basetemp", str(alone.path.parent / "elsewhere"))
    assert result.ret == pytest.ExitCode.OK
    assert files(alone.path) == before


def files(folder: Path) -> set[str]:
    """Return every file below a folder but the record that pytester itself keeps of a run."""
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    return found - {"stdout", "stderr"}
