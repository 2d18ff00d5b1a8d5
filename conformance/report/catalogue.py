"""The catalogue of rules on a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any

from rich.console import Console
from rich.text import Text

from ..rulebook import Rule

_BREAK = "\n"
_DTYPES = {
    "all": "every declared dtype",
    "exact": "fp64 and fp32 where declared",
    "wide": "every declared dtype but fp16",
    "first": "the first declared dtype",
    "once": "once, whatever the dtype",
}


def list_rules(console: Console, rules: Iterable[Rule]) -> None:
    """Print ids and sentences, family by family."""
    grouped: dict[str, list[Rule]] = {}
    for rule in sorted(rules, key=lambda rule: rule.id):
        grouped.setdefault(rule.family, []).append(rule)
    width = max(len(rule.id) for members in grouped.values() for rule in members)
    for family, members in grouped.items():
        console.print(Text(family, "bold"))
        for rule in members:
            _line(console, f"  {rule.id:<{width}}  {rule.sentence}" + (" (thorough)" if rule.thorough else ""))
        console.print()
    _line(console, f"{sum(map(len, grouped.values()))} rules; attention-conformance rules ID shows one of them.")


def show_rule(console: Console, rule: Rule) -> None:
    """Print one rule with everything that is known of it."""
    console.print(Text.assemble((rule.id, "bold"), "  ", rule.sentence), soft_wrap=True)
    if rule.reason:
        _line(console, rule.reason)
    console.print()
    known = facts(rule)
    width = max(map(len, known))
    for name, text in known.items():
        _line(console, f"{name:<{width}}  {text.replace(_BREAK, _BREAK + ' ' * (width + 2))}")


def _line(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)


def facts(rule: Rule) -> dict[str, str]:
    """Return what is known of a rule beside its sentence and reason, a line for each case and each fault it catches."""
    known = {
        "source": rule.source,
        "judges": f"the convention {rule.convention}" if rule.convention else "",
        "runs in": f"{_DTYPES[rule.dtypes]}; modes {', '.join(rule.modes)}; {' and '.join(rule.kinds)}s",
        "tier": "thorough only" if rule.thorough else "default",
        "needs": _needs(rule.needs),
        "depends on": ", ".join(rule.depends) and f"the conventions {', '.join(rule.depends)}",
        "cases": "\n".join(case.describe() for case in rule.cases),
        "catches": "\n".join(caught_faults().get(rule.id, ())),
    }
    return {name: text for name, text in known.items() if text}


@lru_cache(maxsize=1)
def caught_faults() -> Mapping[str, tuple[str, ...]]:
    """Return for each rule some faults that it was measured to catch, each in one sentence."""
    text = files(__package__).joinpath("caught.json").read_text(encoding="utf-8")
    return {rule: tuple(sentences) for rule, sentences in json.loads(text).items()}


def _needs(needs: Mapping[str, tuple[Any, ...]]) -> str:
    return "; ".join(f"{name} in {', '.join(map(str, values))}" for name, values in needs.items())
