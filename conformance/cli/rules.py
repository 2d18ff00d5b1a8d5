"""`attention-conformance rules`: the catalogue."""

from __future__ import annotations

import click

from .ending import CONFORMS


@click.command()
@click.argument("name", required=False, metavar="[ID]")
def rules(name: str | None) -> int:
    """List the rules by family, or show one rule, or one family."""
    from ..report import terminal
    from ..report.catalogue import list_rules, show_rule
    from ..rulebook import catalogue, families, get_rule

    console = terminal.make_console()
    if name is None or name in families():
        list_rules(console, [rule for rule in catalogue().values() if name in (None, rule.family)])
    else:
        show_rule(console, get_rule(name))
    return CONFORMS
