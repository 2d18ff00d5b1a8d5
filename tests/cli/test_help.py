"""What --help says of every command: complete, and on one screen."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from attention_conformance import __version__, cli

SCREEN = (40, 100)
COMMANDS = [(), *((name,) for name in cli.command.commands)]


def shown(*arguments: str) -> str:
    """Return what --help prints on a terminal of 100 columns."""
    done = CliRunner().invoke(
        cli.command, [*arguments, "--help"], prog_name="attention-conformance", terminal_width=100
    )
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: " ".join(command) or "the group")
def test_it_fits_one_screen_with_an_example_and_exit_codes(command: tuple[str, ...]) -> None:
    lines = shown(*command).splitlines()
    assert len(lines) <= SCREEN[0]
    assert [line for line in lines if len(line) > SCREEN[1]] == []
    assert [line for line in lines if line.startswith(" ".join(("  $ attention-conformance", *command)))]
    assert "Exit codes: 0 " in "\n".join(lines)


@pytest.mark.parametrize("name", cli.command.commands)
def test_every_option_is_explained_with_its_default(name: str) -> None:
    options = [each for each in cli.command.commands[name].params if isinstance(each, click.Option)]
    said = " ".join(shown(name).partition("Options:")[2].split())
    for option in options:
        assert option.help, option.opts
        wanted = option.show_default if isinstance(option.show_default, str) else option.default
        if not option.is_flag and isinstance(wanted, (str, int, float)) and wanted != "":
            assert re.search(rf"{re.escape(option.help)} \[default: \(?{re.escape(str(wanted))}", said), option.opts


def test_the_module_is_the_command() -> None:
    command = [sys.executable, "-m", "attention_conformance", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"attention-conformance {__version__}\n"


def test_words_are_completed() -> None:
    variables = {
        "_ATTENTION_CONFORMANCE_COMPLETE": "bash_complete",
        "COMP_WORDS": "attention-conformance au",
        "COMP_CWORD": "1",
    }
    code = "from attention_conformance.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | variables, capture_output=True, text=True, check=True
    )
    assert done.stdout == "plain,audit\n"
