"""Options that several commands have, and the reports that they ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ..report.combining import Combined

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(dir_okay=False)


def settings_option(help_text: str) -> Callable[[F], F]:
    """Return the option `--set`."""
    return click.option("--set", "pairs", multiple=True, metavar="NAME=VALUE", help=help_text)


def timeout_option(help_text: str) -> Callable[[F], F]:
    """Return the option `--timeout`."""
    kind = click.FloatRange(min=0, min_open=True)
    return click.option("--timeout", type=kind, default=60.0, show_default=True, metavar="SECONDS", help=help_text)


def report_options(function: F) -> F:
    """Add the options for what is written and for how much is told."""
    for option in reversed(
        (
            click.option("--html", type=_FILE, metavar="FILE", help="Write a report to look at: one page, no network."),
            click.option("--markdown", type=_FILE, metavar="FILE", help="Write a report for the summary of a CI job."),
            click.option("--badge", type=_FILE, metavar="FILE", help="Write a badge, as shields.io's endpoint reads it."),
            click.option("--min-records", "least", type=click.IntRange(min=0), default=0, metavar="N",
                         help="Exit with 3 if fewer records ran."),
            click.option("-q", "--quiet", is_flag=True, help="Print the table only."),
            click.option("-v", "--verbose", is_flag=True, help="Tell every failure in full."),
        )
    ):  # fmt: skip
        function = option(function)
    return function


class Reports:
    """The report files that were asked for. Raises click.UsageError at once for one that cannot be written."""

    def __init__(self, **paths: str | None) -> None:
        self._paths: Mapping[str, str] = {kind: path for kind, path in paths.items() if path is not None}
        for kind, path in self._paths.items():
            check_writable(f"--{kind}", path)

    def write(self, combined: Combined) -> None:
        """Write them."""
        for kind, path in self._paths.items():
            text = _page(kind, combined)
            with open(path, "w", encoding="utf-8", newline="\n") as file:
                file.write(text)


def _page(kind: str, combined: Combined) -> str:
    if kind == "html":
        from ..report import html

        return html.page(combined)
    if kind == "markdown":
        from ..report import markdown

        return markdown.page(combined)
    from ..report.badge import badge

    return badge(combined)


def check_writable(option: str, path: str) -> None:
    """Raise click.UsageError unless a file can be written. What stands in it stays, and no new file is left."""
    there = os.path.exists(path)
    try:
        open(path, "a", encoding="utf-8").close()
    except OSError as error:
        raise click.UsageError(f"{option} {path}: {error.strerror}. Name a file that can be written.") from None
    if not there:
        os.unlink(path)


def verbosity(quiet: bool, verbose: bool) -> int:
    """Return how much is told. Raises click.UsageError where both ends are asked for."""
    if quiet and verbose:
        raise click.UsageError("-q and -v exclude each other.")
    return verbose - quiet
