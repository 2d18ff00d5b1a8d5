"""`attention-conformance report`: result files of many jobs, put together or compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..writable import check_writable, opened
from .audit import conclude
from .ending import CONFORMS, DEPARTS, complain
from .options import Reports, report_options, verbosity

if TYPE_CHECKING:
    from ..report.changes import Changes
    from ..results import ResultFile


@click.command(short_help="Combine result files of many jobs, or compare two.")
@click.argument("files", nargs=-1, metavar="FILE...", type=click.Path(dir_okay=False))
@click.option("--compare", is_flag=True, help="Compare two FILEs, the old one first: what passed and does not now.")
@click.option("--mixed", is_flag=True, help="Take files of different catalogues, tiers or seeds, and lone shards.")
@click.option("--json", type=click.Path(dir_okay=False), metavar="FILE", help="Write the parts of one run as one file.")
@report_options
def report(
    files: tuple[str, ...], compare: bool, mixed: bool, json: str | None, least: int, quiet: bool, verbose: bool,
    **paths: str | None,
) -> int:  # fmt: skip
    """Combine result FILEs of many jobs (tox environments, shards, versions of torch) into one report.

    FILEs are written by audit --json or by pytest --attention-report; torch is not needed.

    \b
    $ attention-conformance report part*.jsonl --html report.html --markdown summary.md
    $ attention-conformance report --compare before.jsonl after.jsonl

    Exit codes: 0 all conform (with --compare: no regression), 1 not all do, 2 bad usage or a FILE that is torn or does not fit,
    3 nothing ran or fewer than --min-records.
    """
    told = verbosity(quiet, verbose)
    if not files:
        raise click.UsageError("name at least one FILE.")
    if compare:
        markdown = paths.pop("markdown")
        if len(files) != 2 or json or any(paths.values()):
            raise click.UsageError("--compare takes two FILEs, the old one first, and writes --markdown only.")
        return _compare(files, mixed, markdown)
    return _combine(files, mixed, json, Reports(paths), told, least)


def _combine(paths: Sequence[str], mixed: bool, json: str | None, reports: Reports, told: int, least: int) -> int:
    from ..report import terminal
    from ..report.combining import combine
    from ..results import read

    if json is not None:
        check_writable("--json", json)
    combined = combine([read(path) for path in paths], mixed=mixed)
    if json is not None:
        _write(combined.as_one_file(), json)
    reports.write(combined)
    return conclude(combined.entries, terminal.make_console(), told, least)


def _write(file: ResultFile, path: str) -> None:
    from ..results import Writer, lines_of

    with opened("--json", path) as whole:
        writer = Writer(whole, file.header)
        for audited in file.audited:
            for line in lines_of(audited):
                writer.write(line)
        writer.close()


def _compare(paths: Sequence[str], mixed: bool, markdown: str | None) -> int:
    from ..report import markdown as pages
    from ..report import terminal
    from ..report.changes import compare
    from ..results import read

    if markdown is not None:
        check_writable("--markdown", markdown)
    changes = compare(*map(read, paths), mixed=mixed)
    if markdown is not None:
        with open(markdown, "w", encoding="utf-8", newline="\n") as file:
            file.write(pages.changes_page(changes))
    terminal.report_changes(terminal.make_console(), changes)
    return _judged(changes)


def _judged(changes: Changes) -> int:
    if not changes.regressions:
        return CONFORMS
    complain(
        f"{len(changes.regressions)} of {changes.compared} records passed before and do not now: they are listed above."
    )
    return DEPARTS
