"""What can be measured of a departure that no known fault computes: a factor, a temperature, a rounding."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from ..dtypes import UNIT_ROUNDOFF, is_half, torch_dtype
from ..oracle.bounds import Units, units
from ..oracle.expectations import Expectation
from ..trials.trial import Trial
from .matching import Observed, match
from .stages import scale

_LOWER = {"fp64": ("fp32", "fp16", "bf16"), "fp32": ("fp16", "bf16"), "fp16": ("bf16",), "bf16": ()}


def named(observed: Observed, trial: Trial) -> list[str]:
    """Return what was measured, in words; empty where nothing fits."""
    if observed.names != ("output",) or observed.actual["output"].shape != observed.expected["output"].value.shape:
        return []
    measures = (_factor(observed), _temperature(observed), _row_factors(observed))
    for text in (*measures, *_roundings(observed, trial.capabilities.precision)):
        if text:
            return [text]
    return []


def stagnation(observed: Observed) -> str | None:
    """Say whether sums of equal terms stop where the next term no longer changes a 16-bit number."""
    case, most = observed.make({}).case, {"bf16": 256, "fp16": 2048}.get(observed.dtype, 0)
    if observed.names != ("output",):
        return None
    actual, truth = observed.actual["output"], observed.expected["output"].value
    if not most or case.keys <= most or not bool((truth == truth.flatten()[0]).all()):
        return None
    ratio = float((actual / truth).mean())
    if min(abs(ratio - factor) for factor in (most / case.keys, case.keys / most)) > 0.02 * ratio:
        return None
    return "sums_kept_in_working_dtype: Sums are kept in 16 bits and stop growing. Add up in fp32."


def _factor(observed: Observed) -> str | None:
    actual, truth = observed.actual["output"], observed.expected["output"].value
    square = float((truth * truth).sum())
    if not square > 0 or not bool(torch.isfinite(actual).all()):
        return None
    factor = float((actual * truth).sum()) / square
    if not _near(actual, factor * truth, observed) or (is_half(observed.dtype) and abs(factor - 1) < 0.1):
        return None
    return (
        f"output_multiplied: The output is {factor:.6g} times what it is to be. Return the sum of weights times value."
    )


def _near(actual: Tensor, predicted: Tensor, observed: Observed) -> bool:
    return bool(((actual - predicted).abs() <= observed.tolerance("output")).all())


def _temperature(observed: Observed) -> str | None:
    """Find the factor on the scores under which everything agrees, by the secant method on its logarithm."""
    actual = observed.actual["output"]
    if not bool(torch.isfinite(actual).all()):
        return None
    factor, step = 1.0, 1e-3
    for _ in range(8):
        here, ahead = (_at(observed, factor * more) for more in (1.0, 1.0 + step))
        slope = (ahead - here) / step
        square = float((slope * slope).sum())
        if not square > 0:
            return None
        change = float(((actual - here) * slope).sum()) / square
        factor *= 1.0 + max(-0.5, min(1.0, change))
        if abs(change) < 1e-12:
            break
    if abs(factor - 1) < 1e-9 or match(observed, {"scale": lambda call: factor * scale(call)}) < 1.0:
        return None
    return (
        f"temperature_off: The scores are {factor:.6g} times what they are to be. "
        "Multiply by the scale once, and round it no further than the dtype."
    )


def _at(observed: Observed, factor: float) -> Tensor:
    return observed.predict(observed.make({"scale": lambda call: factor * scale(call)}))["output"]


def _row_factors(observed: Observed) -> str | None:
    actual, truth = observed.actual["output"], observed.expected["output"].value
    if not bool(torch.isfinite(actual).all()) or actual.shape[-1] < 3:
        return None
    factors = (actual * truth).sum(-1, keepdim=True) / (truth * truth).sum(-1, keepdim=True).clamp(min=1e-300)
    if not _near(actual, factors * truth, observed):
        return None
    low, high = float(factors.min()), float(factors.max())
    return (
        f"weights_do_not_sum_to_one: Each row is a multiple of what it is to be, by {low:.6g} to {high:.6g}. "
        "Divide by the sum over exactly the allowed keys."
    )


# Rounding


def _roundings(observed: Observed, precision: str) -> Iterator[str | None]:
    yield from (_representable(observed, low) for low in _LOWER[observed.dtype])
    call = observed.make({})
    for text, unit in _looser(observed.dtype, precision):
        near = Expectation(call.inputs, call.setting, unit).output
        if near.value.shape == observed.actual["output"].shape:
            within = (observed.actual["output"] - near.value).abs() <= near.allowed
            if bool(within.all()):
                yield text
                return


def _representable(observed: Observed, low: str) -> str | None:
    """Say whether every number of the output is one of a lower precision."""
    actual, truth = observed.actual["output"], observed.expected["output"].value
    kind = torch_dtype(low)
    if bool((actual.to(kind).double() != actual).any()) or bool((truth.to(kind).double() == truth).all()):
        return None
    return f"output_rounded_to_{low}: The output holds {low} numbers only. Keep the working dtype to the end."


def _looser(own: str, precision: str) -> Iterator[tuple[str, Units]]:
    """Yield what would make the error one of rounding, the least first."""
    tight = units(own, precision)
    if is_half(own):
        if precision != "eager":
            yield "intermediates_rounded: Intermediate results are rounded to the working dtype. Declare precision='eager', or keep them in fp32.", units(own)  # fmt: skip
        low = UNIT_ROUNDOFF[own]
        yield (
            "sums_kept_in_working_dtype: Sums are kept in 16 bits. Add up in fp32.",
            replace(tight, sums=low, normaliser=low),
        )
        yield from _stages(tight, "8 bits", 2.0**-4)
        return
    if own == "fp64":
        yield (
            "softmax_in_fp32: The softmax runs in fp32. Declare precision='softmax32', or keep fp64.",
            units(own, "softmax32"),
        )
        yield from _stages(tight, "fp32", UNIT_ROUNDOFF["fp32"])
        yield (
            "computed_in_fp32: The result is as exact as fp32, not fp64. Keep every step in fp64.",
            _as_if("fp32", own),
        )
    if own == "fp32":
        yield (
            "tf32_products: Products are rounded to ten bits. Declare precision='tf32', or switch TF32 off.",
            units(own, "tf32"),
        )
    for low_name in ("fp16", "bf16"):
        yield from _stages(tight, low_name, UNIT_ROUNDOFF[low_name])
        yield f"computed_in_{low_name}: The result is as exact as {low_name}, not {own}. Keep every step in {own}.", _as_if(low_name, own)  # fmt: skip


def _as_if(low: str, own: str) -> Units:
    unit = units(low)
    return replace(unit, slack=2.0) if own == "fp64" else unit


def _stages(tight: Units, low: str, unit: float) -> Iterator[tuple[str, Units]]:
    told = {"inputs": "query, key or scale", "scores": "scores", "weights": "weights", "output": "output"}
    for stage, words in told.items():
        yield f"{stage}_rounded_to_{low.replace(' ', '_')}: The {words} are rounded to {low}. Keep the working dtype.", replace(tight, **{stage: max(unit, getattr(tight, stage))})  # fmt: skip
