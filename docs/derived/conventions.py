"""The table of conventions, and what the libraries of the survey answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attention_conformance import Capabilities
from attention_conformance.conventions.table import CONVENTIONS, Convention
from attention_conformance.rulebook import catalogue
from tests.survey.markdown import code, counted, plain, table
from tests.survey.summary import load

_ASKED: Mapping[str, Callable[[Mapping[str, Any]], bool]] = {
    "mask_means": lambda own: {"bool", "number"} & set(own["mask"]) != set(),
    "empty_row": lambda own: bool(own["mask"]),
    "causal_with_mask": lambda own: bool(own["mask"] and own["causal"]),
}
"""Whose answer counts, by their capabilities; elsewhere everybody's."""

MOST = 12
"""How many packages are named beside one answer."""


def page() -> str:
    """Return a section for each convention."""
    return "\n".join(section(entry) for entry in CONVENTIONS.values())


def section(entry: Convention) -> str:
    """Return the question, the rule that judges it, what shows the answer, and who answers what."""
    [rule] = (rule for rule in catalogue().values() if rule.convention == entry.capability)
    dependent = sum(entry.capability in other.depends for other in catalogue().values())
    shown = "; ".join(case.describe() for case in entry.cases)
    return (
        f"({entry.capability})=\n## {entry.question}\n\n"
        f"Declared as {code(entry.capability)}; the reference `attention` answers "
        f"{code(repr(getattr(Capabilities(), entry.capability)))}. "
        f"Judged by [{rule.id}](#{rule.id}); {counted(dependent, 'rule')} more ask that it holds. "
        f"Shown by: {plain(shown)}.\n\n{answers(entry)}"
    )


def answers(entry: Convention) -> str:
    """Return a table of the answers that are tried, or that somebody gives, and of who gives them."""
    given: dict[str, dict[str, int]] = {repr(answer): {} for answer in entry.answers}
    asked = _ASKED.get(entry.capability, bool)
    # Of what could not be loaded nothing is known.
    for summary in (each for each in load() if each.capabilities and asked(each.capabilities)):
        packages = given.setdefault(repr(summary.capabilities.get(entry.capability)), {})
        packages[summary.package] = packages.get(summary.package, 0) + 1
    rows = [(code(answer), sum(packages.values()) or "", named(packages)) for answer, packages in given.items()]
    return table(("answer", "implementations of the survey", "from"), rows)


def named(packages: dict[str, int]) -> str:
    """Return names of packages, those with the most implementations first."""
    names = sorted(packages, key=lambda name: (-packages[name], name))
    left = len(names) - MOST
    return ", ".join(names[:MOST]) + (f" and {left} more" if left > 0 else "")
