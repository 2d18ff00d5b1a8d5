"""`docs/contributing.md` is done as it says, in a copy of this repository: the rule arrives everywhere."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.packaging.environments import ROOT

from .pages import Command, File, missing, steps

STEPS = steps(ROOT / "docs" / "contributing.md")
RULE = "SYMMETRY-014"
FOLDERS = ("conformance", "reference", "snapshots", "tests", "docs")
SPOKEN: Mapping[str, tuple[str, ...]] = {"python": (), "attention-conformance": ("-m", "attention_conformance")}
"""Commands of the page that are run, with what the interpreter is told in their place; setting up is left out."""


class Copy:
    """A copy of this repository whose code is imported in place of the installed package."""

    def __init__(self, home: Path) -> None:
        self.home = home
        skipped = shutil.ignore_patterns("__pycache__", "_build", "_derived", "recipes", "history")
        for name in FOLDERS:
            shutil.copytree(ROOT / name, home / name, ignore=skipped)
        shutil.copy(ROOT / "pyproject.toml", home)
        for name in ("reference", "snapshots"):
            (home / "conformance" / name).symlink_to(home / name, target_is_directory=True)
        (home / "imported").mkdir()
        (home / "imported" / "attention_conformance").symlink_to(home / "conformance", target_is_directory=True)

    def add(self, part: File) -> None:
        """Add a block of code to the end of the file that its first line names."""
        with (self.home / part.path).open("a", encoding="utf-8") as file:
            file.write("\n\n" + part.text.partition("\n")[2])

    def run(self, command: str) -> str:
        """Run one command and return what it prints. Raises AssertionError if it fails."""
        program, *arguments = shlex.split(command)
        outer = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        environment = {**outer, "PYTHONPATH": str(self.home / "imported"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(
            [sys.executable, *SPOKEN[program], *arguments],
            cwd=self.home, env=environment, capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        return done.stdout


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Everything that the page says is done, and what each of its commands printed."""
    copy, told = Copy(tmp_path_factory.mktemp("copy")), {}
    for step in STEPS:
        if isinstance(step, File):
            copy.add(step)
        elif shlex.split(step.text)[0] in SPOKEN:
            told[step.text] = copy.run(step.text)
    copy.run("python -m docs.derived")
    told["page"] = (copy.home / "docs" / "_derived" / "rules" / "symmetry.md").read_text(encoding="utf-8")
    return told


def test_commands_print_what_the_page_shows(printed: Mapping[str, str]) -> None:
    shown = {step.text: step.shown for step in STEPS if isinstance(step, Command) and step.shown}
    assert shown
    for command, lines in shown.items():
        assert missing(lines, printed[command]) is None


def test_the_tests_run_with_the_rule_and_its_faulty_program(printed: Mapping[str, str]) -> None:
    [told] = (told for command, told in printed.items() if command.startswith("python -m pytest"))
    assert re.search(r"\d+ passed", told)


def test_the_rule_is_in_the_catalogue_with_the_fault_that_it_catches(printed: Mapping[str, str]) -> None:
    told = printed[f"attention-conformance rules {RULE}"]
    assert told.startswith(RULE)
    assert "Adds one to the denominator" in told


def test_the_rule_is_in_the_pages_of_the_site(printed: Mapping[str, str]) -> None:
    section = printed["page"].partition(f"({RULE})=")[2]
    assert "Sending every key and its value twice" in section
    assert "Adds one to the denominator" in section
