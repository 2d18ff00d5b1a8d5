"""What comes back: the second result, rows that may attend to nothing, an empty list of keys."""

from __future__ import annotations

from typing import Any

import torch

from ..cases import Case
from ..conventions import (
    CONVENTIONS,
    NO_KEYS,
    PLAIN,
    ROW,
    ROW_LENGTHS,
    ROW_PADDING,
    empty_rows_agree,
    no_keys_agree,
    second_agrees,
)
from ..edge import FOREIGN
from ..fitting import Excluded
from ..trial import Trial
from .prober import EXCLUDED, Check, Prober

SECONDS = ("weights", "averaged weights", "lse", "lse2")


def settle_results(prober: Prober) -> None:
    """Find out about the second result and the two conventions on nothing to attend to."""
    _second(prober)
    _empty_row(prober)
    _no_keys(prober)


def _second(prober: Prober) -> None:
    shapes = {mode: _second_shape(prober, mode) for mode in prober.modes}
    if all(shape is None for shape in shapes.values()):
        prober.settle("second", None, "there is no second result")
        return
    for answer in SECONDS:
        seen = [prober.see(PLAIN, second_agrees, mode=mode, second=answer) for mode in prober.modes]
        if all(each.agrees for each in seen):
            prober.settle("second", answer, f"{answer} {seen[0].told}")
            return
    told = prober.see(PLAIN, second_agrees, second="weights").told
    trial = prober.trial(PLAIN)
    as_weights = not isinstance(trial, Excluded) and trial.expectation().weights.value.shape in shapes.values()
    if as_weights or None in shapes.values():
        prober.settle("second", "weights", f"it has the shape of weights, and {told}", settled=False)
    else:
        prober.settle("second", None, f"it is none of {', '.join(SECONDS)}: its shape is {shapes[prober.modes[0]]}")


def _second_shape(prober: Prober, mode: str) -> torch.Size | None:
    trial = prober.trial(PLAIN, mode=mode)
    if isinstance(trial, Excluded):
        return None
    try:
        second = trial.run().second
    except FOREIGN:
        return None
    return None if second is None else second.shape


def _empty_row(prober: Prober) -> None:
    if not prober.findings["mask"].settled:
        return
    answers = CONVENTIONS["empty_row"].answers
    found = _answers(prober, "empty_row", answers, (ROW, ROW_PADDING, ROW_LENGTHS), empty_rows_agree)
    _settle_one(prober, "empty_row", found)
    if prober.known("empty_row") in ("zeros", "nan") and prober.known("second") == "weights":
        _weights_of_empty_rows(prober)


def _weights_of_empty_rows(prober: Prober) -> None:
    trial = prober.trial(ROW)
    if isinstance(trial, Excluded):
        return
    try:
        weights = trial.run().second
    except FOREIGN:
        return
    if weights is not None and weights.dim() == 4:
        row = weights[..., 1, :].detach().double()
        told = "NaN" if bool(row.isnan().any()) else "zeros" if not row.any() else "not zeros"
        prober.remark(f"the weights of a row that may attend to nothing are {told}")


def _no_keys(prober: Prober) -> None:
    if prober.known("inputs") == "self" or prober.known("lengths") == "at most":
        return
    found = _answers(prober, "no_keys", CONVENTIONS["no_keys"].answers, (NO_KEYS,), no_keys_agree)
    _settle_one(prober, "no_keys", found)


def _answers(
    prober: Prober, capability: str, answers: tuple[Any, ...], cases: tuple[Case, ...], check: Check
) -> dict[str, Any]:
    """Return the answer that each case gets in each mode; `?` where none fits."""
    found = {}
    for case in cases:
        for mode in prober.modes:
            # An answer of "error" rules out the cases of other rules; here it is asked for.
            seen = {answer: _asked(prober, case, check, mode, capability, answer) for answer in answers}
            if all(state == EXCLUDED for state in seen.values()):
                continue
            found[f"{case.name}, {mode}"] = next((a for a, state in seen.items() if state == "agrees"), "?")
    return found


def _asked(prober: Prober, case: Case, check: Check, mode: str, capability: str, answer: Any) -> str:
    if answer != "error":
        return prober.see(case, check, mode=mode, **{capability: answer}).state
    seen = prober.see(case, _call, mode=mode, **{capability: "unspecified"})
    return {"raises": "agrees", "excluded": EXCLUDED}.get(seen.state, "departs")


def _call(trial: Trial) -> None:
    trial.run()


def _settle_one(prober: Prober, capability: str, found: dict[str, Any]) -> None:
    if not found:
        return
    answers = list(dict.fromkeys(found.values()))
    if len(answers) == 1 and answers[0] != "?":
        prober.settle(capability, answers[0], f"{answers[0]} in {'; '.join(found)}")
        return
    told = "; ".join(f"{case}: {answer}" for case, answer in found.items())
    known = [answer for answer in answers if answer != "?"]
    prober.settle(capability, known[0] if known else prober.known(capability), told, settled=False)
