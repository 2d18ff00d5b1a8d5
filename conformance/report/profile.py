"""What a probe prints: the answers with what was seen, what could not be found out, and the lines to paste."""

from __future__ import annotations

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..probing.finding import Finding
from ..probing.plain import Told

EVIDENCE = 150
"""How many characters of what was seen are printed unless more is asked for."""


def print_profile(console: Console, told: Told, *, verbose: bool = False) -> None:
    """Print one profile."""
    console.print(Text(told.name, style="bold"))
    console.print(_table(told, verbose))
    for remark in told.remarks:
        console.print(Text(f"  note: {remark}"))
    for finding in told.open:
        console.print(Text(f"  not found out: {finding.capability}. {_judged(finding)}", style="yellow"))
    console.print(Text("\nto paste:\n"))
    console.print(Text("from attention_conformance import register\n" + told.registration), soft_wrap=True)


def _table(told: Told, verbose: bool) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("capability", "answer", "seen"):
        table.add_column(heading, overflow="fold")
    for finding in told.findings:
        style = "" if finding.settled else "yellow"
        seen = finding.evidence if verbose else _short(finding.evidence)
        answer = repr(finding.answer) if finding.settled else f"{finding.answer!r} ?"
        table.add_row(Text(finding.capability), Text(answer, style=style), Text(seen, style=style))
    return table


def _short(text: str) -> str:
    first = text.split("\n")[0]
    return first if len(first) <= EVIDENCE else first[:EVIDENCE].rstrip() + " ..."


def _judged(finding: Finding) -> str:
    return (
        f"The rules judge it as {finding.capability}={finding.answer!r}, so that a fault is not taken for a convention."
    )
