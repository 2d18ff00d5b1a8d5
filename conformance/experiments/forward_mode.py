"""Derivatives in a direction: torch's forward mode, and central differences of the definition."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..experiments.transforming import Function, sent_tensors
from ..foreign.edge import foreign
from ..oracle.bounds import units
from ..oracle.comparing import NotApplicable
from ..oracle.expectations import Near
from ..trials.trial import INPUT_NAMES, Trial

STEP = 1e-6
"""Step of the central differences that forward mode is compared with, in fp64 and by the definition."""


def of_the_differentiated(trial: Trial, function: Function) -> Function:
    """Return a function of the tensors that are differentiated only."""
    _, key, value, mask = sent_tensors(trial)

    def of_tensors(*tensors: Tensor) -> Tensor:
        sent = tensors if len(tensors) == len(INPUT_NAMES) else (*tensors, key, value)
        return function(*sent, mask)

    return of_tensors


def forward_tolerance(trial: Trial) -> float:
    """Return by how much, relatively, a derivative may differ. Raises NotApplicable for dtypes with no power."""
    unit = units(trial.dtype, trial.capabilities.precision)
    largest = max(unit.inputs, unit.scores, unit.exponent, unit.weights, unit.output)
    if largest > 2.0**-20:
        raise NotApplicable(f"dtypes={trial.capabilities.dtypes!r}")
    return 1e-6 if largest < 2.0**-40 else 1e-3


def directional(trial: Trial, tensors: Sequence[Tensor], directions: Sequence[Tensor], tolerance: float) -> Near:
    """Return the central difference of the definition's output, with what forward mode may differ from it."""
    ahead, behind = (_definition(trial, tensors, directions, sign * STEP) for sign in (1, -1))
    difference = (ahead - behind) / (2 * STEP)
    return Near(difference, tolerance * (1 + difference.abs()))


def _definition(trial: Trial, tensors: Sequence[Tensor], directions: Sequence[Tensor], step: float) -> Tensor:
    pairs = zip(trial.capabilities.distinct, tensors, directions, strict=True)
    moved = [trial.canonical(tensor.double() + step * towards.double(), name) for name, tensor, towards in pairs]
    return trial.expectation(trial.inputs.changed(**trial.spread(moved))).output.value


def by_func(function: Function, tensors: Sequence[Tensor], directions: Sequence[Tensor]) -> Tensor:
    """Return the derivative in these directions by torch.func.jvp."""
    return foreign(torch.func.jvp, function, tuple(tensors), tuple(directions))[1]  # type: ignore[no-any-return]


def by_dual_numbers(function: Function, tensors: Sequence[Tensor], directions: Sequence[Tensor]) -> Tensor:
    """Return the derivative in these directions by dual numbers. Raises NotApplicable where none comes out."""
    from torch.autograd import forward_ad

    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(*pair) for pair in zip(tensors, directions, strict=True)]
        tangent: Tensor | None = forward_ad.unpack_dual(foreign(function, *duals)).tangent
    if tangent is None:
        raise NotApplicable("dual numbers: the output has no derivative")
    return tangent
