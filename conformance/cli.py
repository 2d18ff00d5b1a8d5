"""The command `attention-conformance`. It holds no judgement of its own.

Exit codes: 0 conforms, 1 departs (or a deviation is stale), 2 bad usage or a target that cannot be loaded, 3 nothing
ran, 4 the run itself failed. torch is imported inside the commands, so that --help is quick.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from .errors import ConformanceError, UnknownRule
from .version import __version__

if TYPE_CHECKING:
    from .results import Audited, Writer
    from .workers import Task

CONFORMS, DEPARTS, USAGE, NOTHING, FAILED = range(5)
"""Exit codes."""


class _Stop(Exception):
    """Ends a command with an exit code and a line for standard error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="attention-conformance", message="%(prog)s %(version)s")
def command() -> None:
    """Judge attention implementations against the plain definition of attention.

    \b
    Exit codes: 0 conforms, 1 departs, 2 bad usage or a target that cannot be
    loaded, 3 nothing ran, 4 the run itself failed.
    """


@command.command()
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option("--thorough", is_flag=True, help="More cases, larger sizes.")
@click.option("-n", "workers", type=click.IntRange(min=1), default=1, metavar="N", help="Use N processes at once.")
@click.option("--json", "file", type=click.Path(dir_okay=False), metavar="FILE", help="Write a result file.")
@click.option("--label", envvar="TOX_ENV_NAME", metavar="TEXT", help="Name of the run in that file; tox's by default.")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Declare a capability: empty_row=zeros.")
@click.option("--select", multiple=True, metavar="WORD", help="Only this rule, family or dtype: MASK-003, MASK, fp32.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, metavar="SECONDS",
    help="What one record may take.",
)  # fmt: skip
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, metavar="N", help="Draw other values."
)
@click.option("--infer", is_flag=True, help="Probe first, and take what is found for what is not declared.")
@click.option("-q", "--quiet", is_flag=True, help="Print the table only.")
@click.option("-v", "--verbose", is_flag=True, help="Tell every failure in full.")
def audit(
    targets: tuple[str, ...], thorough: bool, workers: int, file: str | None, label: str | None,
    pairs: tuple[str, ...], select: tuple[str, ...], timeout: float, seed: int, infer: bool, quiet: bool,
    verbose: bool,
) -> int:  # fmt: skip
    """Judge TARGETs, each in a process of its own kind: a crash costs one implementation, not the run.

    \b
    TARGET is   module:name, path/file.py:name      a function, a class, or what register() returned
                module, path/file.py                everything that it registered
    Without a TARGET the references and torch's own attention are judged.
    """
    from .adapters import DEFAULT_TARGETS
    from .loading import parse_settings
    from .selection import check_selection
    from .workers import batches

    if pairs and not targets:
        raise click.UsageError("--set declares what a TARGET does; name the TARGET.")
    if quiet and verbose:
        raise click.UsageError("-q and -v exclude each other.")
    settings = parse_settings(pairs)
    words = sorted(check_selection(word for entry in select for word in entry.split(",")))
    chosen = targets or DEFAULT_TARGETS
    tier = "thorough" if thorough else "default"
    how = {"tier": tier, "select": tuple(words), "seed": seed, "timeout": timeout, "infer": infer}
    tasks = batches([(text, settings) for text in chosen], workers, **how)
    return _audit(tasks, chosen, _ResultFile(file, tier, label, seed), verbose - quiet)


def _audit(tasks: Sequence[Task], targets: Sequence[str], file: _ResultFile, verbosity: int) -> int:
    from .report import terminal

    console, errors = terminal.make_console(), terminal.make_console(stderr=True)
    shown = terminal.progress(errors, quiet=verbosity < 0)
    with file as writer, shown as counter:
        audited = _collect(tasks, writer, counter)
        if writer is not None:
            writer.close()
    order = {text: place for place, text in enumerate(targets)}
    audited.sort(key=lambda each: order.get(each.described.target, len(order)))
    terminal.report(console, audited, verbosity=verbosity)
    for each in audited:
        if not each.loaded:
            _complain(each.judged.diagnosis[0])
    if verbosity >= 0:
        console.print(terminal.summary(audited))
    return exit_code(audited)


class _ResultFile:
    """Opens the result file before anything runs, so that a bad path costs nothing; None without a path."""

    def __init__(self, path: str | None, tier: str, label: str | None, seed: int) -> None:
        self._path, self._tier, self._label, self._seed = path, tier, label, seed
        self._file: Any = None

    def __enter__(self) -> Writer | None:
        from .environment import header
        from .results import Writer

        if self._path is None:
            return None
        try:
            self._file = open(self._path, "w", encoding="ascii", newline="\n")
        except OSError as error:
            raise click.UsageError(f"--json {self._path}: {error.strerror}. Name a file that can be written.") from None
        return Writer(self._file, header(self._tier, self._label, self._seed))

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()


def _collect(tasks: Sequence[Task], writer: Writer | None, counter: Any) -> list[Audited]:
    from .results import Line
    from .workers import gather, lines

    def heard() -> Any:
        line: Line
        for line in lines(tasks):
            counter.hear(line)
            if writer is not None:
                writer.write(line)
            yield line

    return list(gather(heard()))


def exit_code(audited: Sequence[Audited]) -> int:
    """Return the exit code of a finished audit."""
    from .records import Outcome, Verdict

    idle = (Outcome.NOT_APPLICABLE, Outcome.NOT_RUN)
    if any(not each.loaded for each in audited):
        return USAGE
    if any(each.judged.verdict in (Verdict.DEPARTS, Verdict.BROKEN) or each.judged.stale for each in audited):
        return DEPARTS
    if all(record.outcome in idle for each in audited for record in each.records):
        raise _Stop(NOTHING, "nothing ran: no selected rule applies. See attention-conformance rules, or select less.")
    return CONFORMS


@command.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="How it is called: reference=SelfAttention.")
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, metavar="SECONDS",
    help="What one experiment may take.",
)  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Print all that was seen.")
def probe(targets: tuple[str, ...], pairs: tuple[str, ...], timeout: float, verbose: bool) -> int:
    """Find out by experiment what TARGETs do, and print the register() call to paste.

    TARGET is the same as for audit. Every capability is tried, whatever was declared; what nothing explains is named.

    \b
    Exit codes: 0 found out, 1 a TARGET crashed, hung or was not recognised,
    2 bad usage or a TARGET that cannot be loaded, 4 the run itself failed.
    """
    from .loading import parse_settings
    from .probing.listening import Failure, probe_many
    from .report import terminal
    from .report.profile import print_profile

    console, errors = terminal.make_console(), terminal.make_console(stderr=True)
    failures = []
    with terminal.saying(errors) as hear:
        results = list(probe_many(targets, parse_settings(pairs), timeout=timeout, hear=hear))
    for result in results:
        if isinstance(result, Failure):
            _complain(f"{result.name}: {result.why}" if result.loaded else result.why)
            failures.append(result)
        else:
            print_profile(console, result, verbose=verbose)
    if any(not failure.loaded for failure in failures):
        return USAGE
    return DEPARTS if failures else CONFORMS


@command.command()
@click.argument("name", required=False, metavar="[ID]")
def rules(name: str | None) -> int:
    """List the rules by family, or show one rule, or one family."""
    from .report import terminal
    from .report.catalogue import list_rules, show_rule
    from .rulebook import catalogue, families, get_rule

    console = terminal.make_console()
    if name is None or name in families():
        list_rules(console, [rule for rule in catalogue().values() if name in (None, rule.family)])
    else:
        show_rule(console, get_rule(name))
    return CONFORMS


@command.command()
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help="Declare a capability: layout=BLHD.")
@click.option("--sizes", default="128,256,512,1024", show_default=True, metavar="L,L,...", help="Lengths L = S.")
@click.option("--batch", type=click.IntRange(min=1), default=1, show_default=True, metavar="B")
@click.option("--heads", type=click.IntRange(min=1), default=8, show_default=True, metavar="H")
@click.option(
    "--width", type=click.IntRange(min=1), default=64, show_default=True, metavar="D", help="Width of a head."
)
@click.option("--dtype", type=click.Choice(("fp64", "fp32", "bf16", "fp16")), help="fp32 where the TARGET takes it.")
@click.option("--mask", type=click.Choice(("none", "causal", "random")), default="none", show_default=True)
@click.option("--forward", is_flag=True, help="Leave out forward and backward together.")
@click.option("--threads", type=click.IntRange(min=1), metavar="N", help="Threads of torch; its own choice by default.")
@click.option(
    "--rounds", type=click.IntRange(min=1), metavar="N", help="Rounds; as many as fit into a second by default."
)
@click.option(
    "--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True, metavar="SECONDS",
    help="What one call may take.",
)  # fmt: skip
@click.option(
    "--json", "file", type=click.Path(dir_okay=False), metavar="FILE", help="Write pytest-benchmark's format."
)
@click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE", help="Draw time and memory as .png or .svg.")
def bench(
    targets: tuple[str, ...], pairs: tuple[str, ...], sizes: str, batch: int, heads: int, width: int,
    dtype: str | None, mask: str, forward: bool, threads: int | None, rounds: int | None, timeout: float,
    file: str | None, plot: str | None,
) -> int:  # fmt: skip
    """Time TARGETs and count their memory beside their reference and torch's own, and tell how both grow with L.

    Each TARGET (as for audit) has a process of its own, in which everybody is called in turn on the same inputs. Without a
    TARGET torch's scaled_dot_product_attention is measured. Read two files with pytest-benchmark compare.

    \b
    Exit codes: 0 measured, 1 a TARGET raised, crashed or hung, 2 bad usage or a
    TARGET that cannot be loaded, 3 nothing was measured, 4 the run itself failed.
    """
    from .benching.groups import DIRECTIONS, Plan
    from .benching.output import Outputs
    from .benchmark import DEFAULT_TARGETS, bench_many, parse_sizes
    from .loading import parse_settings

    if pairs and not targets:
        raise click.UsageError("--set declares what a TARGET does; name the TARGET.")
    directions = DIRECTIONS[:1] if forward else DIRECTIONS
    plan = Plan(parse_sizes(sizes), directions, batch, heads, width, mask, dtype, rounds)
    settings = parse_settings(pairs)
    with Outputs(file, plot) as outputs:
        results = bench_many(
            targets or DEFAULT_TARGETS, settings, plan=plan, threads=threads, timeout=timeout, hear=outputs.hear
        )
        outputs.take(results)
    return _bench_code(outputs)


def _bench_code(outputs: Any) -> int:
    """Return the exit code of a finished benchmark."""
    if any(not failure.loaded for failure in outputs.failures):
        return USAGE
    if any(not failure.excused for failure in outputs.failures):
        return DEPARTS
    if not outputs.measured:
        raise _Stop(NOTHING, "nothing was measured: the capabilities that are named above rule everything out.")
    return CONFORMS


def _complain(text: str) -> None:
    click.echo(f"error: {text}", err=True)


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code; what a user can put right is one line on standard error."""
    try:
        given = None if arguments is None else list(arguments)
        code = command.main(given, "attention-conformance", standalone_mode=False)
        return code if isinstance(code, int) else CONFORMS
    except _Stop as stop:
        _complain(stop.text)
        return stop.code
    except click.UsageError as error:
        return _bad_usage(error)
    except UnknownRule as error:
        _complain(f"{error}")
        return USAGE
    except ConformanceError as error:
        from .workers import WorkerFailed

        _complain(str(error))
        return FAILED if isinstance(error, WorkerFailed) else USAGE
    except (KeyboardInterrupt, click.Abort):
        _complain("interrupted; nothing was concluded.")
        return FAILED
    except BrokenPipeError:
        # Whoever read the output has gone; a second complaint at exit would only add a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:
        _complain(f"the run failed: {error}.")
        return FAILED


def _bad_usage(error: click.UsageError) -> int:
    if error.ctx is not None and type(error).__name__ == "NoArgsIsHelpError":
        click.echo(error.ctx.get_help())
        return USAGE
    path = error.ctx.command_path if error.ctx is not None else "attention-conformance"
    _complain(f"{error.format_message()} Try {path} --help.")
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
