"""Options that several commands have, and the reports that they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..isolation import TIMEOUT
from ..report.formats import FORMATS
from ..writable import check_writable

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
    return click.option("--timeout", type=kind, default=TIMEOUT, metavar="SECONDS", help=help_text)


def report_options(function: F) -> F:
    """Add the options for what is written and for how much is told."""
    for option in reversed(
        (
            *(click.option(f"--{each.name}", type=_FILE, metavar="FILE", help=each.help) for each in FORMATS),
            click.option("--min-records", "least", type=click.IntRange(min=0), default=0,
                         metavar="N", help="Exit with 3 if fewer records ran."),
            click.option("-q", "--quiet", is_flag=True, help="Print the table only, no failures."),
            click.option("-v", "--verbose", is_flag=True, help="Tell every failure in full, not the first ones."),
        )
    ):  # fmt: skip
        function = option(function)
    return function


class Reports:
    """The report files that were asked for, by format. Raises NotWritable at once for one that cannot be written."""

    def __init__(self, paths: Mapping[str, str | None]) -> None:
        self._paths = {name: path for name, path in paths.items() if path is not None}
        for name, path in self._paths.items():
            check_writable(f"--{name}", path)

    def write(self, combined: Combined) -> None:
        """Write them."""
        for each in FORMATS:
            if each.name in self._paths:
                text = each.page(combined)
                with open(self._paths[each.name], "w", encoding="utf-8", newline="\n") as file:
                    file.write(text)


def verbosity(quiet: bool, verbose: bool) -> int:
    """Return how much is told. Raises click.UsageError where both ends are asked for."""
    if quiet and verbose:
        raise click.UsageError("-q and -v exclude each other: give one of them.")
    return verbose - quiet
