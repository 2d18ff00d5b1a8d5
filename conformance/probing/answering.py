"""Reads the answer to one convention off several cases, in each mode."""

from __future__ import annotations

from typing import Any

from ..cases.case import Case
from .prober import EXCLUDED, Check, Prober


def answers_to(
    prober: Prober, capability: str, answers: tuple[Any, ...], cases: tuple[Case, ...], check: Check
) -> dict[str, Any]:
    """Return the answer that each case gets in each mode; `?` where none fits."""
    found = {}
    for case in cases:
        for mode in prober.modes:
            how: dict[str, Any] = {"mode": mode, "asked": capability}
            seen = {answer: prober.see(case, check, **how, **{capability: answer}) for answer in answers}
            if any(each.state != EXCLUDED for each in seen.values()):
                found[f"{case.name}, {mode}"] = next((answer for answer, each in seen.items() if each.agrees), "?")
    return found


def settle_one(prober: Prober, capability: str, found: dict[str, Any]) -> None:
    """Keep the answer of all cases; where they differ, the first that is known, and what was seen."""
    if not found:
        return
    answers = list(dict.fromkeys(found.values()))
    if len(answers) == 1 and answers[0] != "?":
        prober.settle(capability, answers[0], f"{answers[0]} in {'; '.join(found)}")
        return
    told = "; ".join(f"{case}: {answer}" for case, answer in found.items())
    known = [answer for answer in answers if answer != "?"]
    prober.settle(capability, known[0] if known else prober.known(capability), told, settled=False)
