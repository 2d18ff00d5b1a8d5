"""The questions on which sound implementations differ: answers, and what shows which of them holds.

An answer holds if the case, delivered and expected as it says, gives results that agree within the bound. `reading` tries
one answer after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..capabilities import USUAL_SCALES
from ..cases.case import Case, Mask
from ..cases.layouts import KERNEL_LAYOUTS, MODULE_LAYOUTS
from ..dtypes import is_half
from ..foreign.edge import Raised
from ..oracle.comparing import Departure, NotApplicable, require_near, require_shape
from ..oracle.expectations import Near, scale_of
from ..trials.trial import Trial

Check = Callable[[Trial], None]
Measure = Callable[[Trial], "Measured"]


@dataclass(frozen=True)
class Measured:
    """What a measurement says: whether the declared answer holds, another one that does, and the numbers in words."""

    as_declared: bool
    answer: Any
    text: str


ALL_KINDS = ("bool", "number", "additive")
PLAIN = Case("plain", queries=5, keys=7)
SQUARE_PLAIN = Case("plain, lengths equal", queries=6, keys=6, value_width=8)
ONE_MASK = Case("random mask per row", mask=Mask("random", "LS", ("bool", "number")))
PADDING = Case("padding per batch element", mask=Mask("padding", "B11S", ("bool", "number")))
ROW = Case("second row empty", mask=Mask("empty row", "LS", ALL_KINDS))
ROW_PADDING = Case("last batch element empty", mask=Mask("empty row", "B11S", ALL_KINDS))
ROW_LENGTHS = Case("last length 0", batch=3, mask=Mask("empty padding", "B11S", ("lengths",)))
NO_KEYS = Case("no keys", keys=0)
CAUSAL_WIDE = Case("causal, L < S", causal=True)
CAUSAL_TALL = Case("causal, L > S", causal=True, queries=7, keys=5)
CAUSAL_MASKED = Case("causal with a mask", causal=True, queries=6, keys=6, mask=Mask("random", "LS", ALL_KINDS))


@dataclass(frozen=True)
class Convention:
    """One question: the capability that answers it, the answers to try, what else may have to change with it, and
    the check that an answer has to pass on each of the cases. `refused` are capabilities that may be meant as well where
    the call raises. `measure` reads a further answer directly."""

    capability: str
    question: str
    answers: tuple[Any, ...]
    cases: tuple[Case, ...]
    check: Check
    together: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    measure: Measure | None = None


def agrees(trial: Trial) -> None:
    """The output agrees with the expectation."""
    trial.agrees(trial.run())


def empty_rows_agree(trial: Trial) -> None:
    """The rows without a key agree with the expectation; the others are not looked at."""
    declared = trial.capabilities.empty_row
    if declared == "error":
        _raises(trial)
        return
    result, expectation = trial.run(), trial.expectation()
    if declared == "unspecified":
        return
    trial.near("output of the empty rows", result.output, expectation.output, ignore=~expectation.empty_rows)


def no_keys_agree(trial: Trial) -> None:
    """The output for an empty list of keys agrees with the declared answer."""
    declared = trial.capabilities.no_keys
    if declared == "error":
        _raises(trial)
    elif declared != "unspecified":
        trial.agrees(trial.run())


def causal_with_mask_agrees(trial: Trial) -> None:
    """Causal and a mask together do what is declared."""
    if trial.capabilities.causal_with_mask == "error":
        _raises(trial)
    else:
        trial.agrees(trial.run())


def _raises(trial: Trial) -> None:
    try:
        trial.run()
    except Raised:
        return
    raise Departure("no error was raised", inputs=trial.inputs)


def second_agrees(trial: Trial) -> None:
    """The second result is what is declared."""
    declared, result, expectation = trial.capabilities.second, trial.run(), trial.expectation()
    if declared is None:
        if result.second is not None and _is_any_second(trial, result.second):
            raise Departure("a second result was returned", inputs=trial.inputs)
        return
    if result.second is None:
        if declared == "optional weights" and trial.mode == "eval":
            trained = Trial(trial.subject.in_mode("train"), trial.case).run()
            if trained.second is not None:
                raise Departure("weights are returned in train mode and not in eval mode", inputs=trial.inputs)
        if declared == "optional weights":
            raise NotApplicable("second: no weights are returned")
        raise Departure("no second result was returned", inputs=trial.inputs)
    near = second_near(declared, expectation)
    require_shape(
        what=f"second result ({declared})", actual=result.second, shape=tuple(near.value.shape), inputs=trial.inputs
    )
    trial.near(f"second result ({declared})", result.second, near)


def second_near(declared: str, expectation: Any) -> Near:
    """Return what the second result called `declared` is expected to be."""
    if declared in ("weights", "optional weights"):
        return expectation.weights  # type: ignore[no-any-return]
    if declared == "averaged weights":
        return expectation.averaged_weights  # type: ignore[no-any-return]
    near: Near = expectation.logsumexp
    if declared == "lse":
        return near
    log2e = 1.4426950408889634
    return Near(near.value * log2e, near.allowed * log2e * 1.01)


def _is_any_second(trial: Trial, second: torch.Tensor) -> bool:
    """Say whether a second result that is declared absent is one of the known ones after all."""
    expectation = trial.expectation()
    for kind in ("weights", "lse", "lse2"):
        try:
            require_near(what=kind, actual=second, near=second_near(kind, expectation))
        except Departure:
            continue
        return True
    return False


TRIANGLES = ("top-left", "bottom-right", "always top-left", "always bottom-right")

CONVENTIONS: Mapping[str, Convention] = {
    entry.capability: entry
    for entry in (
        Convention(
            "layout", "In which order are the axes?", (*KERNEL_LAYOUTS, *MODULE_LAYOUTS),
            (PLAIN, SQUARE_PLAIN), agrees, ("scale", "causal"),
        ),
        Convention(
            "scale", "By what are the scores multiplied?", USUAL_SCALES, (PLAIN,), agrees, ("layout", "causal"),
            measure=lambda trial: measured_scale(trial),
        ),
        Convention(
            "causal", "Which corner is the causal triangle aligned with, and can it be switched off?", TRIANGLES,
            (CAUSAL_WIDE, CAUSAL_TALL, PLAIN), agrees, ("layout", "scale"),
        ),
        Convention(
            "mask_means", "What does a true element of the mask mean?", ("attend", "hide"), (ONE_MASK, PADDING), agrees,
            refused=("mask_shapes",),
        ),
        Convention(
            "empty_row", "What does a row return that may attend to nothing?", ("uniform", "zeros", "nan", "error"),
            (ROW, ROW_PADDING, ROW_LENGTHS), empty_rows_agree,
        ),
        Convention(
            "no_keys", "What is returned for an empty list of keys?", ("zeros", "nan", "error"), (NO_KEYS,), no_keys_agree,
        ),
        Convention(
            "causal_with_mask", "Does causal hold together with a mask?", ("and", "error"), (CAUSAL_MASKED,),
            causal_with_mask_agrees,
        ),
        Convention(
            "second", "What is the second result?", ("weights", "averaged weights", "lse", "lse2", None), (PLAIN,),
            second_agrees,
        ),
    )
}  # fmt: skip
"""Every convention by its capability."""


def measured_scale(trial: Trial) -> Measured:
    """Read the factor on the scores off two keys with scores 0 and -8 sqrt(D), at two widths.

    The first output column is the weight w of the second key, so the factor is ln((1 - w) / w) / (8 sqrt(D)).
    """
    factors, wanted, told = [], [], []
    for width in (16, 64):
        case = Case(
            f"two keys, width {width}", values="two keys", heads=2, queries=1, keys=2, width=width, value_width=2
        )
        other = trial.at(case)
        output = other.run().output.detach().double()
        weight = float(output[..., 0, 0].reshape(-1)[0])
        if not 0 < weight < 1:
            raise Departure(f"the weight of a key is {weight:.3g}")
        actual_width = other.case.width
        factors.append(math.log((1 - weight) / weight) / (8 * math.sqrt(actual_width)))
        wanted.append(scale_of(trial.capabilities.scale, other.case))
        told.append(f"{factors[-1]:.6g} at width {actual_width}, where {wanted[-1]:.6g} is declared")
    tolerance = 2.0**-5 if is_half(trial.dtype) else 1e-5
    same = all(abs(found - want) <= tolerance * abs(want) for found, want in zip(factors, wanted, strict=True))
    constant = abs(factors[0] - factors[1]) <= tolerance * abs(factors[0])
    return Measured(
        same, float(f"{factors[0]:.9g}") if constant else None, "the scores are multiplied by " + " and ".join(told)
    )
