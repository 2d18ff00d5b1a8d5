"""How a command ends: exit codes, and one line for what a user can put right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..report.combining import Entry

CONFORMS, DEPARTS, USAGE, NOTHING, FAILED = range(5)
"""Exit codes."""


class Stop(Exception):
    """Ends a command with an exit code and a line for standard error."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code, self.text = code, text


def complain(text: str) -> None:
    """Write one line to standard error."""
    click.echo(f"error: {text}", err=True)


def exit_code(entries: Sequence[Entry], least: int) -> int:
    """Return the exit code over finished implementations, of which at least so many records are to have run."""
    from ..records import Outcome

    idle = (Outcome.NOT_APPLICABLE, Outcome.NOT_RUN)
    if any(not entry.audited.loaded for entry in entries):
        return USAGE
    if not all(entry.conforms for entry in entries):
        return DEPARTS
    ran = sum(record.outcome not in idle for entry in entries for record in entry.audited.records)
    if not entries:
        raise Stop(
            NOTHING,
            "nothing ran: there is no implementation to judge. Name a TARGET with one, or ask for fewer shards.",
        )
    if not ran:
        raise Stop(NOTHING, "nothing ran: no selected rule applies. Select others: see attention-conformance rules.")
    if ran < least:
        raise Stop(NOTHING, f"{ran} records ran, and --min-records asks for {least}. See what is not run and n/a.")
    return CONFORMS
