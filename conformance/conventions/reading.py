"""Reads the answer to a convention off an implementation.

An answer is read by trying it: the case is delivered and expected as that answer says. Where the declared answers do not
fit, others are tried, alone and in pairs, and what none explains is measured.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..capabilities import UNASKED_TRIANGLES
from ..cases.case import Case
from ..errors import UnknownCall
from ..fitting import Excluded, fit
from ..foreign.edge import Raised, WrongResult
from ..oracle.comparing import Departure, NotApplicable
from ..trials.trial import Trial
from .table import CONVENTIONS, Convention

_MASK_SHAPES = (("BLS",), ("BS",), ("B1LS",), ("BHLS",), ("(BH)LS",), ("B11S",))
"""Shapes of mask to which code is often bound that does not let masks broadcast."""


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
        switchable = declared is not None and not str(declared).startswith("always")
        answers = UNASKED_TRIANGLES[1:] if switchable else UNASKED_TRIANGLES
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
