"""README.md followed from top to bottom with the installed wheel, and what covers the commands of the other pages."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.docs.links import pages
from tests.docs.pages import Command, File, commands, missing, steps
from tests.packaging.environments import ROOT, Environment

README = ROOT / "README.md"
PAGES = [page for page in (*pages(), *sorted((ROOT / "examples").rglob("*.md"))) if page != README and commands(page)]

NOT_RUN = {
    r"python3? -m venv \.venv && \. \.venv/bin/activate": ".ci/run",
    r"python3 -m venv .*/tox -e \w+": ".ci/run",
    "pip install -e . && python -m pytest": "tests/examples/test_examples.py",
    "pip install .*": "tests/packaging/test_installations.py",
    "tox( -e docs)?": "tox.ini",
}
"""Commands that install or download, with what covers them."""

ELSEWHERE = {
    "attention-conformance audit": ".ci/run",
    "attention-conformance audit .*transformers\\..*": "tests/adapters/test_transformers.py",
    "attention-conformance audit mykernels.*": "tests/cli/test_cli.py",
    "attention-conformance rules( MASK)?": "tests/snapshots/test_printed.py",
    "attention-conformance bench.*": "tests/benching/test_command.py",
    "attention-conformance report .*": "tests/docs/test_ci.py",
    "pytest --attention-report .*": "tests/docs/test_ci.py",
    "(python|node) snapshots/judge_.*": "tests/goldens/test_judges.py",
    "python -m (tests.rules.enter|pytest tests/rules .*)": "tests/docs/test_contributing.py",
    "attention-conformance rules SYMMETRY-014": "tests/docs/test_contributing.py",
}
"""Commands of other pages, with the tests that run the like."""

EXITS = {"attention-conformance audit mykernels.py:attend": 1}
"""Commands that end otherwise than with 0: this kernel is shown because it departs."""


def covered(command: str, table: Mapping[str, str]) -> bool:
    """Whether a table names what covers a command."""
    return any(re.fullmatch(pattern, command) for pattern in table)


@pytest.mark.packaging
def test_the_readme_does_what_it_says(from_wheel: Environment, tmp_path: Path) -> None:
    """Files are written and commands run in the order in which they stand there."""
    ran = 0
    for step in steps(README):
        if isinstance(step, File):
            (tmp_path / step.path).parent.mkdir(exist_ok=True)
            (tmp_path / step.path).write_text(step.text, encoding="utf-8")
        elif not covered(step.text, NOT_RUN):
            run(step, from_wheel, tmp_path)
            ran += 1
    assert ran >= 5


def run(step: Command, environment: Environment, folder: Path) -> None:
    """Run one command in the environment, and compare what it prints with what is shown of it."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "PYTHON"))}
    path = f"{Path(environment.script('python')).parent}{os.pathsep}{own['PATH']}"
    done = subprocess.run(
        step.text, shell=True, cwd=folder, env=own | {"PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == EXITS.get(step.text, 0), f"$ {step.text}\n{done.stdout}"
    assert missing(step.shown, done.stdout) is None, f"$ {step.text}\n{done.stdout}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_of_other_pages_are_run_somewhere(page: Path) -> None:
    known = commands(README)
    unknown = [text for text in commands(page) if text not in known and not covered(text, NOT_RUN | ELSEWHERE)]
    assert unknown == [], "show them in README.md, or name in this module what covers them"


@pytest.mark.parametrize("place", sorted({*NOT_RUN.values(), *ELSEWHERE.values()}))
def test_what_covers_a_command_is_there(place: str) -> None:
    assert (ROOT / place).is_file()


def test_a_line_that_is_not_printed_is_found() -> None:
    printed = "kernel  conforms  275  0  0.34\n======= 275 passed in 4.22s =======\n"
    assert missing(("kernel conforms   275 0 0.5", "...", "===== 275 passed in 61.0s ====="), printed) is None
    assert missing(("kernel  conforms  274  0  0.34",), printed) is not None
    assert missing(("===== 275 passed in 4.2s =====", "kernel ..."), printed) == "kernel ...", "another order"
