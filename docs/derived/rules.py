"""The catalogue of rules: a page for each family, a section for each rule."""

from __future__ import annotations

from collections.abc import Iterable

from attention_conformance.report.catalogue import facts
from attention_conformance.rulebook import Rule, catalogue, families
from tests.survey.markdown import code, counted, plain, table

_LISTS = ("cases", "catches")
"""Facts of several lines, each a point of a list."""


def overview() -> str:
    """Return the table of families and, for the site's menu, the pages below it."""
    rows = [(f"[{family}](_derived/rules/{family.lower()}.md)", len(list(members(family)))) for family in families()]
    names = "\n".join(f"_derived/rules/{family.lower()}" for family in families())
    count = counted(len(catalogue()), "rule")
    return f"{count}.\n\n{table(('family', 'rules'), rows)}\n```{{toctree}}\n:hidden:\n\n{names}\n```\n"


def pages() -> dict[str, str]:
    """Return the page of each family by its file name."""
    return {f"rules/{family.lower()}.md": page(family) for family in families()}


def page(family: str) -> str:
    """Return the page of one family."""
    rules = list(members(family))
    sentences = "".join(f"- [{rule.id}](#{rule.id}): {plain(rule.sentence)}\n" for rule in rules)
    return f"# {family}\n\n{sentences}\n" + "\n".join(section(rule) for rule in rules)


def members(family: str) -> Iterable[Rule]:
    """Return the rules of a family by their ids."""
    return sorted((rule for rule in catalogue().values() if rule.family == family), key=lambda rule: rule.id)


def section(rule: Rule) -> str:
    """Return everything that is known of one rule, under an anchor of its id."""
    known = facts(rule)
    short = {name: plain(text) for name, text in known.items() if name not in _LISTS}
    short["function"] = code(f"{rule.function.__module__.split('.', 1)[1]}.{rule.function.__name__}")
    points = "".join(f"- {name}: {text}\n" for name, text in short.items())
    lists = "".join(listed(name, known.get(name, "").splitlines()) for name in _LISTS)
    reason = f"{plain(rule.reason)}\n\n" if rule.reason else ""
    return f"({rule.id})=\n## {rule.id}\n\n**{plain(rule.sentence)}**\n\n{reason}{points}\n{lists}"


def listed(name: str, lines: list[str]) -> str:
    """Return some lines as a list with a heading; nothing where there are none."""
    points = "".join(f"- {plain(line)}\n" for line in lines)
    return f"{name.capitalize()}:\n\n{points}\n" if lines else ""
