"""`attention-conformance audit`: judge targets in child processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from ..writable import opened
from .ending import complain, exit_code
from .options import Reports, report_options, settings_option, timeout_option, verbosity

if TYPE_CHECKING:
    from ..auditing.batch import Task
    from ..report.combining import Entry
    from ..results import Audited, Header, Line, Writer


@click.command(short_help="Judge targets in child processes, and report.")
@click.argument("targets", nargs=-1, metavar="[TARGET]...")
@click.option("--thorough", is_flag=True, help="More cases, larger sizes, torch.compile, searches.")
@click.option("-n", "workers", type=click.IntRange(min=1), default=1, metavar="N", help="Use N processes at once.")
@click.option(
    "--json", "file", type=click.Path(dir_okay=False), metavar="FILE", help="Write a result file, for report."
)
@click.option(
    "--label",
    envvar="TOX_ENV_NAME",
    show_default="the tox environment",
    metavar="TEXT",
    help="Name of the run in that file.",
)
@settings_option("Declare a capability, of all TARGETs: empty_row=zeros.")
@click.option(
    "--select",
    multiple=True,
    metavar="WORD",
    help="Only this rule, family or dtype: MASK-003, MASK, fp32. Again for more.",
)
@click.option(
    "--shard", metavar="I/N", help="Only every Nth implementation, from the Ith on: 1/3, 2/3 and 3/3 are all."
)
@timeout_option("Limit for one record; then its process is ended.")
@click.option("--seed", type=click.IntRange(min=0), default=0, metavar="N", help="Draw other values, by this number.")
@click.option("--infer", is_flag=True, help="Probe first, and take what is found for what is not declared.")
@report_options
def audit(
    targets: tuple[str, ...], thorough: bool, workers: int, file: str | None, label: str | None,
    pairs: tuple[str, ...], select: tuple[str, ...], shard: str | None, timeout: float, seed: int, infer: bool,
    least: int, quiet: bool, verbose: bool, **paths: str | None,
) -> int:  # fmt: skip
    """Judge TARGETs in child processes: a crash or a hang costs one of them, not the run.

    This runs the TARGETs' code, with your rights.

    \b
    TARGET is   module:name, path/file.py:name      a function, a class, or what register() returned
                module, path/file.py                everything that it registered
    Without a TARGET the references and torch's own attention are judged.

    \b
    $ attention-conformance audit mykernels.py:attend --set empty_row=zeros --html report.html

    Exit codes: 0 all conform, 1 one departs or has a stale deviation, 2 bad usage or a TARGET that cannot be loaded, 3 nothing
    ran or fewer than --min-records, 4 the run itself failed.
    """
    if pairs and not targets:
        raise click.UsageError("--set declares what a TARGET does; name the TARGET.")
    told = verbosity(quiet, verbose)
    reports = Reports(paths)
    from ..adapters import DEFAULT_TARGETS
    from ..auditing.sharding import parse_shard
    from ..auditing.workers import batches
    from ..environment import header
    from ..loading import parse_settings
    from ..report import terminal
    from ..report.combining import Entry, combine
    from ..results import ResultFile
    from ..selection import check_selection

    part = None if shard is None else parse_shard(shard)
    settings = parse_settings(pairs)
    words = sorted(check_selection(word for entry in select for word in entry.split(",")))
    chosen, tier = targets or DEFAULT_TARGETS, "thorough" if thorough else "default"
    how = {"tier": tier, "select": tuple(words), "seed": seed, "timeout": timeout, "infer": infer}
    tasks = batches([(text, settings) for text in chosen], workers, shard=part, **how)
    head = header(tier, label, seed, None if part is None else str(part))
    audited = _audit(tasks, file, head, quiet)
    order = {text: place for place, text in enumerate(chosen)}
    audited.sort(key=lambda each: order.get(each.described.target, len(order)))
    reports.write(combine([ResultFile(head, tuple(audited))], mixed=True))  # a shard is all there is here
    return conclude([Entry(head, each) for each in audited], terminal.make_console(), told, least)


def _audit(tasks: Sequence[Task], path: str | None, head: Header, quiet: bool) -> list[Audited]:
    from ..auditing.workers import gather, lines
    from ..report import terminal

    errors = terminal.make_console(stderr=True)
    with _result_file(path, head) as writer, terminal.progress(errors, quiet=quiet) as counter:

        def heard() -> Iterator[Line]:
            for line in lines(tasks):
                counter.hear(line)
                if writer is not None:
                    writer.write(line)
                yield line

        audited = list(gather(heard()))
        if writer is not None:
            writer.close()
    return audited


@contextmanager
def _result_file(path: str | None, head: Header) -> Iterator[Writer | None]:
    """Open the result file before anything runs, so that a bad path costs nothing; None without a path."""
    from ..results import Writer

    if path is None:
        yield None
        return
    with opened("--json", path) as file:
        yield Writer(file, head)


def conclude(entries: Sequence[Entry], console: Any, told: int, least: int) -> int:
    """Print what there is to tell and return the exit code."""
    from ..report import terminal
    from ..report.wording import summary

    terminal.report(console, entries, verbosity=told)
    for entry in entries:
        if not entry.audited.loaded:
            complain(entry.audited.judged.diagnosis[0])
    if told >= 0:
        console.print(summary(entries))
    return exit_code(entries, least)
