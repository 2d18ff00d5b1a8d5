"""The command: what it writes, says and refuses, and that what it writes is judged."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from attention_conformance import cli
from tests.starting.trees import KERNEL, MODULE, NUMPY, plant

Printed = pytest.CaptureFixture[str]

WRITTEN = '''"""Attention, held to its plain definition: one test for each rule and dtype."""

from attention_conformance import register

import mykernels.fast
import mykernels.plain

fast_attend = register(mykernels.fast.attend)
self_attention = register(mykernels.fast.SelfAttention)
plain_attend = register(mykernels.plain.attend, framework="numpy")
'''

FILES = {"mykernels/__init__.py": "", "mykernels/fast.py": KERNEL + MODULE, "mykernels/plain.py": NUMPY}


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with two functions and a module, in which commands run."""
    monkeypatch.chdir(plant(tmp_path, FILES))
    return tmp_path


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder."""
    return subprocess.run([sys.executable, *arguments], cwd=folder, capture_output=True, text=True, check=False)


def test_it_writes_a_module_and_says_what_comes_next(repository: Path, capsys: Printed) -> None:
    assert cli.run(["init"]) == 0
    assert (repository / "tests" / "test_attention.py").read_text() == WRITTEN
    said = capsys.readouterr().out
    assert "found    mykernels/fast.py:5 attend (function of query, key, value)\n" in said
    assert "found    mykernels/plain.py:5 attend (function of query, key, value, numpy)\n" in said
    assert "wrote    tests/test_attention.py\n" in said
    assert "  python -m pytest tests/test_attention.py\n" in said
    assert said.endswith("  attention-conformance probe tests/test_attention.py\n")


def test_what_it_writes_is_collected_and_judged(repository: Path) -> None:
    assert cli.run(["init"]) == 0
    done = run(repository, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "SHAPE-001 or NUMERIC-001")
    assert done.returncode == 0, done.stdout
    assert "attention conformance: 3 implementations, " in done.stdout


def test_nothing_is_executed_and_torch_stays_out(tmp_path: Path) -> None:
    plant(tmp_path, {"kernels.py": f"raise SystemExit('executed')\n{KERNEL}", "conftest.py": "raise SystemExit"})
    code = "import sys; from attention_conformance import cli; print(cli.run(['init']), 'torch' in sys.modules)"
    done = run(tmp_path, "-c", code)
    assert done.stdout.splitlines()[-1] == "0 False", done.stdout + done.stderr


def test_an_existing_file_is_left_as_it_is(repository: Path, capsys: Printed) -> None:
    plant(repository, {"tests/test_attention.py": "# mine\n"})
    assert cli.run(["init"]) == 2
    assert (repository / "tests" / "test_attention.py").read_text() == "# mine\n"
    printed = capsys.readouterr()
    assert "\nself_attention = register(mykernels.fast.SelfAttention)\n" in printed.out
    assert printed.err.startswith("error: tests/test_attention.py exists and is left as it is. Add to it what is new")


def test_a_link_to_nowhere_is_an_existing_file(repository: Path, capsys: Printed) -> None:
    (repository / "tests").mkdir()
    (repository / "tests" / "test_attention.py").symlink_to(repository / "elsewhere.py")
    assert cli.run(["init"]) == 2
    assert not (repository / "elsewhere.py").exists()


def test_output_names_another_file_or_prints(repository: Path, capsys: Printed) -> None:
    assert cli.run(["init", "--output", "test_mine.py"]) == 0
    text = (repository / "test_mine.py").read_text()
    capsys.readouterr()
    assert cli.run(["init", "-o", "-"]) == 0
    printed = capsys.readouterr()
    assert printed.out == text
    assert printed.err.startswith("found ")
    assert not (repository / "tests").exists()


def test_a_file_that_cannot_be_written_is_said(repository: Path, capsys: Printed) -> None:
    assert cli.run(["init", "-o", "mykernels/plain.py/test_a.py"]) == 2
    assert "Name a file that can be written: --output FILE." in capsys.readouterr().err


def test_nothing_found_says_what_was_looked_for(tmp_path: Path, capsys: Printed) -> None:
    plant(tmp_path, {"a.py": "def f(q, k): ...", "b.py": "def _f(q, k, v): ..."})
    assert cli.run(["init", str(tmp_path)]) == 3
    printed = capsys.readouterr()
    assert printed.out == "left out b.py:1 _f: its name is private\n"
    assert "(2 Python files read; " in printed.err
    assert "from attention_conformance import register\n" in printed.err
    assert not (tmp_path / "tests").exists()


def test_a_package_that_is_not_installed_is_installed_first(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(tmp_path, {"a repo/src/not_installed_here/kernels.py": KERNEL})
    monkeypatch.chdir(tmp_path)
    assert cli.run(["init", "a repo"]) == 0
    said = capsys.readouterr().out
    assert "\n  cd 'a repo'\n  PYTHONPATH=src python -m pytest tests/test_attention.py\n" in said
    plant(tmp_path, {"a repo/pyproject.toml": ""})
    assert cli.run(["init", "a repo", "-o", "other.py"]) == 0
    assert "\n  pip install -e . " in capsys.readouterr().out


def test_names_that_clash_are_told_apart(tmp_path: Path, capsys: Printed) -> None:
    files = {"attention.py": "def attention(q, k, v): ...\ndef Attention(q, k, v): ...\ndef register(q, k, v): ..."}
    assert cli.run(["init", str(plant(tmp_path, files)), "-o", "-"]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "attention_attention = register(attention.attention)",
        "attention_attention_2 = register(attention.Attention)",
        "register_function = register(attention.register)",
    ]


def test_hostile_names_are_printed_safely(tmp_path: Path, capsys: Printed) -> None:
    try:
        plant(tmp_path, {"a\x1b[31m\udce4.py": KERNEL, "kernels.py": KERNEL})
    except OSError:
        pytest.skip("this file system knows no such names")
    assert cli.run(["init", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "its path is no name that Python can import" in said
    assert "\x1b" not in said
    assert said.isascii()


def test_long_lines_are_broken_as_a_formatter_does(tmp_path: Path, capsys: Printed) -> None:
    name = "very_long_" * 7 + "attend"
    assert cli.run(["init", str(plant(tmp_path, {"kernels.py": f"def {name}(q, k, v): ..."})), "-o", "-"]) == 0
    assert capsys.readouterr().out.endswith(f"{name} = register(\n    kernels.{name}\n)\n")
