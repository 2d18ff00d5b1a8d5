"""`attention-conformance rules`: the catalogue."""

from __future__ import annotations

import click

from .ending import CONFORMS


@click.command(short_help="List the rules, or show one.")
@click.argument("name", required=False, metavar="[ID]")
def rules(name: str | None) -> int:
    """List the rules by family, or show one family, or one rule: reason, source, cases, faults it was measured to catch.

    ID is a rule or a family; without it all are listed.

    \b
    $ attention-conformance rules
    $ attention-conformance rules MASK
    $ attention-conformance rules MASK-003

    Exit codes: 0 shown, 2 there is no such ID.
    """
    from ..report import terminal
    from ..report.catalogue import list_rules, show_rule
    from ..rulebook import catalogue, families, get_rule

    console = terminal.make_console()
    if name is None or name in families():
        list_rules(console, [rule for rule in catalogue().values() if name in (None, rule.family)])
    else:
        show_rule(console, get_rule(name))
    return CONFORMS
