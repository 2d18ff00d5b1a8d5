"""The questions on which sound implementations differ, and the engine that reads the answers off.

An answer is read by trying it: the case is delivered and expected as that answer says, and the answer holds if the
results agree within the bound. Where the declared answers do not fit, others are tried, alone and in pairs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .cases import Case, Mask
from .comparing import Departure, NotApplicable, require_near, require_shape
from .dtypes import is_half
from .edge import Raised, WrongResult
from .errors import UnknownCall
from .expectations import Near, scale_of
from .fitting import Excluded, fit
from .layouts import KERNEL_LAYOUTS, MODULE_LAYOUTS
from .trial import Trial

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


@dataclass(frozen=True)
class Reading:
    """Which changes of the declared answers make a case agree: {} none are needed, None no answer fits. `evidence`
    says what was seen under the declared answers."""

    changes: Mapping[str, Any] | None
    evidence: str
    ratio: float | None
    measured: bool = False


class Refused(Departure):
    """The call raised."""


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


_ALWAYS = (None, "always top-left", "always bottom-right")
TRIANGLES = ("top-left", "bottom-right", "always top-left", "always bottom-right")
_MASK_SHAPES = (("BLS",), ("BS",), ("B1LS",), ("BHLS",), ("(BH)LS",), ("B11S",))
"""Shapes of mask to which code is often bound that does not let masks broadcast."""
_SCALES = ("1/sqrt(D)", "1/sqrt(d_model)", 1.0)

CONVENTIONS: Mapping[str, Convention] = {
    entry.capability: entry
    for entry in (
        Convention(
            "layout", "In which order are the axes?", (*KERNEL_LAYOUTS, *MODULE_LAYOUTS),
            (PLAIN, SQUARE_PLAIN), agrees, ("scale", "causal"),
        ),
        Convention(
            "scale", "By what are the scores multiplied?", _SCALES, (PLAIN,), agrees, ("layout", "causal"),
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


def read(trial: Trial, convention: Convention) -> Reading:
    """Find the smallest change of the declared answers under which the case agrees.

    NotApplicable passes through; what the implementation raises under an answer speaks against that answer.
    """
    declared = _attempt(trial, convention, {})
    if declared is None:
        return Reading({}, "", trial.ratio)
    names = (convention.capability, *convention.together)
    if isinstance(declared, Refused):
        names = (*names, *convention.refused)
    for changes in _changes(trial, names):
        if _attempt(trial, convention, changes) is None and _holds_elsewhere(trial, convention, changes):
            return Reading(changes, declared.text, declared.ratio)
    return _measured(trial, convention, declared)


def _holds_elsewhere(trial: Trial, convention: Convention, changes: Mapping[str, Any]) -> bool:
    """Say whether changed answers fit the other cases of the convention as well: an answer for one of them is none."""
    for case in convention.cases:
        try:
            other = trial.at(case)
        except NotApplicable:
            continue
        if other.case != trial.case and not _fits(other, convention, changes):
            return False
    return True


def _fits(trial: Trial, convention: Convention, changes: Mapping[str, Any]) -> bool:
    try:
        return _attempt(trial, convention, changes) is None
    except NotApplicable:
        return True


def _measured(trial: Trial, convention: Convention, declared: Departure) -> Reading:
    """Measure where no known answer fits. A declared answer that is measured is not what departs."""
    if convention.measure is None:
        return Reading(None, declared.text, declared.ratio)
    try:
        measured = convention.measure(trial)
    except (Departure, Raised, WrongResult, NotApplicable) as problem:
        return Reading(None, f"{declared.text} (no measurement: {problem})", declared.ratio)
    if measured.as_declared:
        return Reading({}, "", None)
    changes = {convention.capability: measured.answer}
    if measured.answer is not None and _attempt(trial, convention, changes) is None:
        return Reading(changes, measured.text, declared.ratio)
    return Reading(None, measured.text, declared.ratio, measured=True)


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


def _attempt(trial: Trial, convention: Convention, changes: Mapping[str, Any]) -> Departure | None:
    """Return None if the check passes under the changed answers, else what departs."""
    changed = trial.replace_capabilities(**changes) if changes else trial
    fitted = _fitted(trial, convention, changed, changes)
    if isinstance(fitted, Excluded):
        return Departure(f"{fitted.capability} does not allow the case")
    try:
        changed.case = fitted
        convention.check(changed)
    except Departure as departure:
        return departure
    except UnknownCall as error:
        if not changes:
            raise
        return Refused(str(error))
    except (Raised, WrongResult) as error:
        return Refused(str(error))
    trial.ratio = changed.ratio
    return None


def _fitted(trial: Trial, convention: Convention, changed: Trial, changes: Mapping[str, Any]) -> Case | Excluded:
    """Return the case under changed answers; where another shape of mask cannot hold it, a case that it can hold."""
    cases = (trial.case, *convention.cases) if "mask_shapes" in changes else (trial.case,)
    fitted = [fit(case, changed.subject.implementation, convention.capability) for case in cases]
    return next((case for case in fitted if isinstance(case, Case)), fitted[0])


def _changes(trial: Trial, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield changes of the declared answers: one answer first, then pairs, then three at once."""
    options = {name: _alternatives(trial, name) for name in names}
    for count in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, count):
            for values in itertools.product(*(options[name] for name in chosen)):
                yield dict(zip(chosen, values, strict=True))


def _alternatives(trial: Trial, name: str) -> list[Any]:
    declared = getattr(trial.capabilities, name)
    if name == "mask_shapes":
        return [shapes for shapes in _MASK_SHAPES if shapes != declared]
    answers: tuple[Any, ...] = CONVENTIONS[name].answers
    if name == "layout":
        answers = ("BLE", "LBE") if trial.is_module else ("BHLD", "BLHD", "LBHD")
        if declared == "...LD":
            answers = ("BLHD", "LBHD")
    if name == "second":
        return _other_seconds(trial)
    if name == "causal" and not trial.case.causal:
        answers = _ALWAYS if declared is None or str(declared).startswith("always") else _ALWAYS[1:]
    return [answer for answer in answers if answer != declared]


def _other_seconds(trial: Trial) -> list[Any]:
    """Return the known second results, and None only where what is returned has not even the shape of weights."""
    answers = ["weights", "averaged weights", "lse", "lse2"]
    second = trial.run().second
    if second is not None and second.shape == trial.expectation().weights.value.shape:
        return answers
    return [*answers, None]


def declaration(changes: Mapping[str, Any]) -> str:
    """Return the changes as keyword arguments of `register`."""
    return ", ".join(f"{name}={value!r}" for name, value in changes.items())
