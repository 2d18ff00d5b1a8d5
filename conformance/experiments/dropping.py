"""Dropout: counts of kept keys where weights are equal, and calls from one seed."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases.case import Case
from ..cases.inputs import Inputs
from ..oracle.comparing import Departure
from ..trials.subject import Result
from ..trials.trial import Trial


def counting(rate: float) -> Case:
    """Return a case in which an output counts the keys that dropout keeps: equal weights, ones as values."""
    sizes = {"batch": 4, "heads": 4, "queries": 64, "keys": 32, "width": 4, "value_width": 1}
    return Case(f"dropout {rate}", dropout=rate, values="ones value, zero query", **sizes)  # type: ignore[arg-type]


def require_binomial(output: Tensor, rate: float, keys: int, rounding: float, inputs: Inputs) -> None:
    """Raise Departure unless outputs (..., L) of equal weights over `keys` ones are kept counts over (1 - rate) S.

    `rounding` is the relative error of an output.
    """
    kept = output * (1 - rate) * keys
    if float((kept - kept.round()).abs().max()) > 0.01 + rounding * keys:
        raise Departure(
            "with equal weights an output is no multiple of 1 / ((1 - q) S): weights are not dropped whole",
            inputs=inputs,
        )
    single = (rate / (1 - rate) / keys) ** 0.5
    off = max(abs(float(output.mean() - 1)) - rounding, 0.0)
    deviation = off / (single / output.numel() ** 0.5)
    if deviation > 6:
        raise Departure(
            f"the mean output is {float(output.mean()):.4g}, expected 1: {deviation:.1f} standard deviations away",
            inputs=inputs,
        )
    spread = float(output.std()) / single
    if not 0.8 < spread < 1.25:
        raise Departure(
            f"outputs spread {spread:.3g} times as much as dropping each weight with probability {rate} makes them",
            inputs=inputs,
        )
    rows = output.flatten(0, -2)
    alike = [pair for pair in ((0, 1), (0, rows.shape[0] - 1)) if torch.equal(rows[pair[0]], rows[pair[1]])]
    if alike or torch.equal(output[..., 0], output[..., 1]):
        raise Departure("the same weights are dropped in several heads, batch elements or rows", inputs=inputs)


def seeded(trial: Trial, inputs: Inputs) -> Result:
    """Run from one seed, so that the same weights are dropped each time."""
    torch.manual_seed(13)
    return trial.run(inputs)


def require_close(what: str, found: Tensor, expected: Tensor, inputs: Inputs) -> None:
    """Compare two sums that are equal but for the rounding of fp64 and of a difference."""
    error = abs(float(found - expected))
    if error > 1e-6 * (1 + abs(float(expected))):
        raise Departure(f"{what} is {float(found):.9g}, expected {float(expected):.9g}", inputs=inputs)
