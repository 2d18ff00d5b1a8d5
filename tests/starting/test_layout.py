"""Which files are read, what they are called in an import, and where tests stand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from attention_conformance.starting.layout import layout_of
from attention_conformance.starting.recognise import recognise
from attention_conformance.starting.scan import scan
from tests.starting.trees import KERNEL, plant

FIND = '[tool.setuptools.packages.find]\nwhere = ["lib"]\n'
MAPPED = '[tool.setuptools.package-dir]\n"mypackage" = "code"\n'


@pytest.mark.parametrize(
    ("files", "path", "module"),
    [
        ({}, "kernels.py", "kernels"),
        ({}, "package/kernels.py", "package.kernels"),
        ({}, "package/__init__.py", "package"),
        ({}, "src/package/kernels.py", "package.kernels"),
        ({}, "python/package/kernels.py", "package.kernels"),
        ({"src/__init__.py": ""}, "src/kernels.py", "src.kernels"),
        ({"pyproject.toml": FIND}, "lib/package/kernels.py", "package.kernels"),
        ({"pyproject.toml": MAPPED}, "code/sub/kernels.py", "mypackage.sub.kernels"),
        ({"pyproject.toml": "not = [toml"}, "package/kernels.py", "package.kernels"),
        ({"pyproject.toml": "tool = 3"}, "package/kernels.py", "package.kernels"),
        ({"pyproject.toml": "", "__init__.py": ""}, "kernels.py", "kernels"),
        ({}, "my-kernels.py", None),
        ({}, "class.py", None),
        ({}, "2d/kernels.py", None),
        ({}, "register.py", None),
    ],
)
def test_import_names_follow_the_layout(
    tmp_path: Path, files: Mapping[str, str], path: str, module: str | None
) -> None:
    layout = layout_of(plant(tmp_path, {**files, path: KERNEL}))
    assert layout.module_of(PurePosixPath(path)) == module


def test_a_folder_inside_a_package_keeps_the_packages_name(tmp_path: Path) -> None:
    plant(tmp_path, {"package/__init__.py": "", "package/sub/__init__.py": "", "package/sub/kernels.py": KERNEL})
    layout = layout_of(tmp_path / "package" / "sub")
    assert layout.module_of(PurePosixPath("kernels.py")) == "package.sub.kernels"
    assert layout.search_path(PurePosixPath("kernels.py")) == PurePosixPath("../..")


@pytest.mark.parametrize(
    ("files", "folder"),
    [
        ({}, "tests"),
        ({"test/test_a.py": ""}, "test"),
        ({"test/test_a.py": "", "tests/test_a.py": ""}, "tests"),
        ({"checks/test_a.py": "", "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["checks"]'}, "checks"),
        ({"pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = "nowhere"'}, "tests"),
    ],
)
def test_tests_stand_where_the_others_do(tmp_path: Path, files: Mapping[str, str], folder: str) -> None:
    assert layout_of(plant(tmp_path, files)).tests == folder


@pytest.mark.parametrize(
    "path",
    [
        ".hidden/a.py", "__pycache__/a.py", "build/a.py", "tests/a.py", "package/tests/a.py", "node_modules/a.py", "docs/a.py",
        "lib/site-packages/a.py", "environment/lib/a.py", "test_a.py", "conftest.py", "setup.py", "package/__main__.py", "a.txt",
    ],
)  # fmt: skip
def test_what_holds_no_code_of_the_package_is_not_read(tmp_path: Path, path: str) -> None:
    plant(tmp_path, {"environment/pyvenv.cfg": "", path: KERNEL})
    assert scan(layout_of(tmp_path)).files == 0


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"def attend(q, k, v):\nreturn", "line 2, "),
        (b"def attend(q, k, v): ...\n\0", "null bytes"),
        (b"def attend(q, k, v): return '\xff'", "(unicode error)"),
        (b"def attend(q, k, v): return " + b"(" * 5000, "line 1, "),
    ],
)
def test_a_file_that_is_no_python_costs_that_file_only(tmp_path: Path, content: bytes, why: str) -> None:
    found = scan(layout_of(plant(tmp_path, {"broken.py": content, "kernels.py": KERNEL})))
    assert [str(source.path) for source in found.sources] == ["kernels.py"]
    assert [(str(each.place), why in each.why) for each in found.unreadable] == [("broken.py", True)], found.unreadable


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "kernels.py")
    assert scan(layout_of(tmp_path)).files == 0


@pytest.mark.parametrize(
    "text", ["def f(" * 100_000, f"class F({'a.' * 3000}Module):\n def forward(self, q, k, v): ..."]
)
def test_a_file_made_to_be_slow_or_deep_ends(tmp_path: Path, text: str) -> None:
    recognise(scan(layout_of(plant(tmp_path, {"kernels.py": text}))).sources)


def test_a_coding_line_is_honoured(tmp_path: Path) -> None:
    text = "# coding: latin-1\ndef attend(q, k, v): return 'ü'\n".encode("latin-1")
    assert len(scan(layout_of(plant(tmp_path, {"kernels.py": text}))).sources) == 1
