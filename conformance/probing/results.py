"""What comes back: the second result, rows that may attend to nothing, an empty list of keys."""

from __future__ import annotations

import torch

from ..conventions.table import (
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
from ..fitting import Excluded
from ..foreign.edge import FOREIGN
from .answering import answers_to, settle_one
from .prober import Prober

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
    fault = prober.explained(PLAIN, second="weights")
    trial = prober.trial(PLAIN)
    as_weights = not isinstance(trial, Excluded) and trial.expectation().weights.value.shape in shapes.values()
    if as_weights or fault or None in shapes.values():
        prober.settle("second", "weights", f"it is not what weights are: {told}{fault}", settled=False)
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
    found = answers_to(prober, "empty_row", answers, (ROW, ROW_PADDING, ROW_LENGTHS), empty_rows_agree)
    settle_one(prober, "empty_row", found)
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
    found = answers_to(prober, "no_keys", CONVENTIONS["no_keys"].answers, (NO_KEYS,), no_keys_agree)
    settle_one(prober, "no_keys", found)
