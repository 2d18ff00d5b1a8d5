"""Faults of rows that may attend to nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..stages import Call, Stages, hide
from .causality import may_be_causal
from .fault import Fault, each, one, where


def _empty(call: Call) -> bool:
    return call.case.may_have_empty_rows or call.keys == 0 or may_be_causal(call)


def _empty_rows(answer: Callable[[Call, Tensor, Tensor], Tensor]) -> Stages:
    """The weights of an empty row are an answer of their own."""

    def stage(call: Call, masked: Tensor) -> Tensor:
        empty = (masked == -math.inf).all(-1, keepdim=True)
        weights = torch.softmax(masked.masked_fill(empty, 0.0), -1)
        return torch.where(empty, answer(call, masked, weights), weights)

    return {"normalise": stage}


def _one_key(index: int) -> Stages:
    return _empty_rows(
        lambda call, masked, weights: (
            torch.nn.functional.one_hot(torch.tensor(index % call.keys), call.keys).double().expand_as(weights)
        )
    )


def _first_uniform(size: int) -> Stages:
    return _empty_rows(
        lambda call, masked, weights: ((torch.arange(call.keys) < size).double() / min(size, call.keys)).expand_as(
            weights
        )
    )


def _own_scores(call: Call, masked: Tensor, weights: Tensor) -> Tensor:
    return torch.softmax(call.kept["raw"], -1)


def _kept_scores(call: Call, scores: Tensor, allowed: Tensor | None) -> Tensor:
    call.kept["raw"] = scores
    return hide(call, scores, allowed)


def _nan_backward(call: Call, masked: Tensor) -> Tensor:
    """Softmax of a row of -inf, cleaned afterwards: the gradient stays NaN."""
    weights = torch.softmax(masked, -1)
    answer = 1.0 / max(call.keys, 1) if call.setting.empty_row == "uniform" else 0.0
    return torch.where(torch.isnan(weights), answer, weights)


def _added_infinity(call: Call, scores: Tensor, allowed: Tensor | None) -> Tensor:
    """-inf is added, so that the NaN of the softmax passes on to the scores."""
    if allowed is None:
        return scores
    return scores + torch.zeros(allowed.shape, dtype=torch.float64).masked_fill(~allowed, -math.inf)


def _everything_nan(call: Call, output: Tensor) -> Tensor:
    empty = (call.kept["masked"] == -math.inf).all(-1).any()
    return torch.where(empty, math.nan, output)


def _mask_dropped(call: Call, scores: Tensor, allowed: Tensor | None) -> Tensor:
    if allowed is None or bool(allowed.expand(scores.shape).any(-1).all()):
        return hide(call, scores, allowed)
    return scores


FAULTS = where(
    _empty,
    Fault(
        "empty_row_nan", "A row that may attend to nothing is NaN.", "Give the declared answer (or declare empty_row='nan').",
        lambda call: (_empty_rows(lambda c, m, w: torch.full_like(w, math.nan)),),
    ),
    Fault(
        "empty_row_zeros", "A row that may attend to nothing is zero.", "Give the declared answer (or declare empty_row='zeros').",
        lambda call: (_empty_rows(lambda c, m, w: torch.zeros_like(w)),),
    ),
    Fault(
        "empty_row_uniform_average", "A row that may attend to nothing averages all values.", "Give the declared answer (or declare empty_row='uniform').",
        lambda call: (_empty_rows(lambda c, m, w: torch.full_like(w, 1 / max(c.keys, 1))),),
    ),
    Fault(
        "empty_row_attends_one_key", "A row that may attend to nothing attends its first (or last) key.", "Give the declared answer.",
        each(_one_key, 0, -1), lambda call: _empty(call) and call.keys > 0,
    ),
    Fault(
        "empty_row_uniform_over_some_keys", "A row that may attend to nothing averages the first values only.", "Give the declared answer.",
        each(_first_uniform, 2, 4, 8, 16),
    ),
    Fault(
        "empty_row_keeps_its_scores", "A row that may attend to nothing is the softmax of its hidden scores.",
        "Fill hidden scores in place of lowering them.", lambda call: ({"hide": _kept_scores, **_empty_rows(_own_scores)},),
    ),
    Fault(
        "empty_row_poisons_the_tensor", "One empty row makes everything NaN.", "Keep rows apart.", one(spread=_everything_nan),
    ),
    Fault(
        "empty_row_drops_the_mask", "One empty row drops the mask for all rows.", "Keep rows apart.", one(hide=_mask_dropped),
    ),
)  # fmt: skip

GRADIENT = where(
    _empty,
    Fault(
        "empty_row_nan_gradient", "An empty row is cleaned after the softmax, so that its gradient is NaN.",
        "Clean the scores before the softmax, or fill with a finite number.",
        lambda call: ({"normalise": _nan_backward, "hide": _added_infinity}, {"normalise": _nan_backward}),
    ),
)  # fmt: skip
"""What shows in gradients only."""
