"""Second derivatives, against differences of the oracle's exact first ones."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..foreign.edge import foreign
from ..oracle.comparing import Departure
from ..oracle.expectations import Near
from ..trials.subject import Result
from ..trials.trial import Trial


def second_derivatives(trial: Trial, through: str) -> None:
    """Compare the derivative of <gradient, direction> with differences of the oracle's gradient along the direction.

    Raises Departure where the gradient cannot be differentiated again.
    """
    result = trial.run()
    distinct = _distinct(trial, result)
    generator = torch.Generator().manual_seed(17)
    directions = {
        name: torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype) for name, tensor in distinct.items()
    }
    first = trial.backward(result, distinct, trial.inputs, through, twice=True)
    slope = _inner(first, directions, trial, through)
    second = foreign(torch.autograd.grad, slope, list(distinct.values()), allow_unused=True, retain_graph=True)
    step = 1e-5
    ahead, behind = (_exact_gradients(trial, distinct, directions, sign * step, through) for sign in (1, -1))
    tolerance = 1e-4 if trial.capabilities.precision == "softmax32" else 1e-6
    for name, found in zip(distinct, second, strict=True):
        difference = (ahead[name] - behind[name]) / (2 * step)
        actual = torch.zeros_like(difference) if found is None else trial.canonical(found.detach(), name)
        allowed = torch.full_like(difference, tolerance) + tolerance * difference.abs()
        trial.near(f"second derivative of the {name}", actual, Near(difference, allowed))


def _distinct(trial: Trial, result: Result) -> dict[str, Tensor]:
    """Return the delivered leaves by name, each tensor once."""
    sent = result.delivered
    names = trial.capabilities.distinct if trial.inputs.bias is None else (*trial.capabilities.distinct, "bias")
    return {name: sent.tensors()[name] for name in names}


def _inner(first: Mapping[str, Tensor | None], directions: Mapping[str, Tensor], trial: Trial, through: str) -> Tensor:
    """Return the sum of <gradient, direction>, which can be differentiated again."""
    total = torch.zeros((), dtype=torch.float64)
    for name, gradient in first.items():
        if gradient is None and (name != "value" or through == "output"):
            raise Departure(f"no gradient reaches the {name}", inputs=trial.inputs)
        if gradient is not None:
            total = total + (gradient * directions[name]).sum()
    if not total.requires_grad:
        raise Departure(
            "the gradient cannot be differentiated again although gradient='twice' is declared",
            inputs=trial.inputs,
            declare="gradient='once'",
        )
    return total


def _exact_gradients(
    trial: Trial, distinct: Mapping[str, Tensor], directions: Mapping[str, Tensor], step: float, through: str
) -> dict[str, Tensor]:
    """Return the oracle's first gradients at inputs moved by `step` along the directions, canonical."""
    moved = {
        name: trial.canonical((tensor + step * directions[name]).detach(), name) for name, tensor in distinct.items()
    }
    bias = {"bias": moved.pop("bias")} if "bias" in moved else {}
    there = trial.inputs.changed(**trial.spread(list(moved.values())), **bias)
    gradients = trial.sums(trial.expected_gradients(there, through))
    return {name: gradients[name].value for name in distinct}
