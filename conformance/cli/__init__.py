"""The command `attention-conformance`, a module for each subcommand. It holds no judgement of its own.

Exit codes: 0 conforms, 1 departs (or a deviation is stale), 2 bad usage or a target that cannot be loaded, 3 nothing
ran, 4 the run itself failed. torch is imported inside the commands, so that --help is quick.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from ..errors import ConformanceError, UnknownRule, WorkerFailed
from ..version import __version__
from .audit import audit
from .bench import bench
from .ending import CONFORMS, DEPARTS, FAILED, NOTHING, USAGE, Stop, complain
from .probe import probe
from .report import report
from .rules import rules

__all__ = ["CONFORMS", "DEPARTS", "FAILED", "NOTHING", "USAGE", "command", "main", "run"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True})
@click.version_option(__version__, "-V", "--version", prog_name="attention-conformance", message="%(prog)s %(version)s")
def command() -> None:
    """Judge attention implementations against the plain definition of attention.

    \b
    $ attention-conformance audit mykernels.py:attend    judge a function, class or instance
    $ attention-conformance COMMAND --help               options, with an example

    Exit codes: 0 conforms, 1 departs, 2 bad usage or a target that cannot be loaded, 3 nothing ran, 4 the run itself failed.

    \b
    python -m attention_conformance is the same command. Completion, in bash (zsh_source in zsh):
    $ eval "$(_ATTENTION_CONFORMANCE_COMPLETE=bash_source attention-conformance)"
    """


for _subcommand in (audit, probe, rules, bench, report):
    command.add_command(_subcommand)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; what a user can put right is one line on standard error."""
    try:
        given = None if arguments is None else list(arguments)
        code = command.main(given, "attention-conformance", standalone_mode=False)
        return code if isinstance(code, int) else CONFORMS
    except Stop as stop:
        complain(stop.text)
        return stop.code
    except click.UsageError as error:
        return _bad_usage(error)
    except UnknownRule as error:
        complain(f"{error}")
        return USAGE
    except ConformanceError as error:
        complain(str(error))
        return FAILED if isinstance(error, WorkerFailed) else USAGE
    except (KeyboardInterrupt, click.Abort):
        complain("interrupted; nothing was concluded, and a result file that was begun is not whole. Run it again.")
        return FAILED
    except BrokenPipeError:
        # Whoever read the output has gone; a second complaint at exit would only add a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        complain(f"the run failed: {error}. Nothing was concluded: put that right and run it again.")
        return FAILED


def _bad_usage(error: click.UsageError) -> int:
    if error.ctx is not None and type(error).__name__ == "NoArgsIsHelpError":
        click.echo(error.ctx.get_help())
        return USAGE
    path = error.ctx.command_path if error.ctx is not None else "attention-conformance"
    complain(f"{error.format_message()} Try {path} --help.")
    return USAGE


def main() -> NoReturn:
    """Run the command and exit. Being asked to end is the same as Ctrl-C: children are ended, files closed."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    sys.exit(run())
