"""Whether what came back equals what a known fault computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from ..dtypes import UNIT_ROUNDOFF, is_half
from ..oracle.expectations import Near, summed_over_groups
from .stages import Call, Stages, run

Make = Callable[[Stages], Call]
Predict = Callable[[Call], Mapping[str, Tensor]]


@dataclass(frozen=True)
class Observed:
    """What came back from one call, by name, beside what sound code gives, and how a fault's own answer is computed."""

    dtype: str
    actual: Mapping[str, Tensor]
    expected: Mapping[str, Near]
    make: Make
    predict: Predict

    @property
    def names(self) -> tuple[str, ...]:
        """Names of what was compared."""
        return tuple(self.actual)

    def tolerance(self, name: str) -> Tensor:
        """Largest distance of a prediction: rounding under a fault is like rounding without it, but not the same."""
        allowed = self.expected[name].allowed
        axes = (-2, -1) if allowed.dim() > 1 else (-1,)
        return (2.0 if is_half(self.dtype) else 16.0) * allowed.amax(axes, keepdim=True)

    def departs(self, name: str) -> Tensor:
        """Which rows are beyond the allowance; a wrong shape departs everywhere."""
        near, actual = self.expected[name], self.actual[name]
        if actual.shape != near.value.shape:
            return torch.ones(actual.shape[:-1] or (1,), dtype=torch.bool)
        return ~_within(actual, near.value, near.allowed).all(-1)

    @property
    def any_departs(self) -> bool:
        """Whether anything is beyond the allowance."""
        return any(bool(self.departs(name).any()) for name in self.names)


def _within(one: Tensor, other: Tensor, allowed: Tensor) -> Tensor:
    same = (one == other) | (torch.isnan(one) & torch.isnan(other))
    return same | ((one - other).abs() <= allowed)


def match(observed: Observed, stages: Stages) -> float:
    """Return which share of the rows a fault explains: 1 for all of them, 0 where it does not fit.

    Every row that departs has to be as the fault makes it. Rows that do not depart may be unlike it: many faults show
    under a condition only, and then the share is below 1.
    """
    try:
        predicted = observed.predict(observed.make(stages))
    except (RuntimeError, IndexError, ValueError, TypeError, KeyError, ZeroDivisionError, OverflowError):
        # A fault that needs a square, an even width, a batch: it cannot be this one.
        return 0.0
    shares = [_share(observed, name, predicted.get(name)) for name in observed.names]
    explained = [share for share in shares if share is not None]
    return min(explained) if len(explained) == len(shares) and any(explained) else 0.0


def _share(observed: Observed, name: str, predicted: Tensor | None) -> float | None:
    """Return the share of rows that agree with a prediction, None where it is refuted."""
    actual, near, departs = observed.actual[name], observed.expected[name], observed.departs(name)
    if predicted is None or predicted.shape != actual.shape:
        return None
    if actual.numel() == 0:
        return 1.0
    predicted = predicted.detach()
    fits_shape = actual.shape == near.value.shape
    rounding = 4 * UNIT_ROUNDOFF[observed.dtype] * predicted.abs().nan_to_num(0.0, 0.0, 0.0)
    tolerance = (observed.tolerance(name) if fits_shape else near.allowed.max() * 16) + rounding
    close = _within(actual, predicted, tolerance).all(-1)
    if bool((departs & ~close).any()):
        return None
    if fits_shape and bool(departs.any()):
        beyond = ~_within(actual, near.value, near.allowed)
        if not _distance(actual, predicted, beyond) < 0.5 * _distance(actual, near.value, beyond):
            return None
    return float(close.double().mean())


def _distance(one: Tensor, other: Tensor, chosen: Tensor) -> float:
    """Return the sum of differences over some elements; NaN on both sides is none, on one side infinitely much."""
    both = torch.isnan(one) & torch.isnan(other)
    difference = torch.where(both | (one == other), 0.0, (one - other).abs()).nan_to_num(
        nan=torch.inf, posinf=torch.inf
    )
    return float(difference[chosen].sum())


def outputs(call: Call) -> Mapping[str, Tensor]:
    """Predict the output."""
    with torch.no_grad():
        return {"output": run(call)[0]}


def second_results(call: Call) -> Mapping[str, Tensor]:
    """Predict the second result."""
    with torch.no_grad():
        run(call)
        return {"second": call("second")}


def gradients(names: tuple[str, ...], through: str) -> Predict:
    """Predict the gradients of the named leaves through a result."""

    def predict(call: Call) -> Mapping[str, Tensor]:
        output, weights = run(call)
        inputs = call.inputs
        target, upstream = (weights, inputs.upstream_weights) if through == "weights" else (output, inputs.upstream)
        found = torch.autograd.grad(target, [call.leaves[name] for name in names], upstream.double(), allow_unused=True)
        structure, heads = call.setting.structure, call.case.heads
        result = {}
        for name, gradient in zip(names, found, strict=True):
            filled = torch.zeros_like(call.leaves[name]) if gradient is None else gradient
            role = name.partition(".")[0] if "." in name else ""
            result[name] = summed_over_groups(filled, role, structure, heads)
        return result

    return predict
