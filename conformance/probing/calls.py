"""How it is called: what it takes for query, key and value, in which order of axes, and by what it scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..capabilities import UNASKED_TRIANGLES, USUAL_SCALES
from ..cases.case import Case
from ..cases.layouts import KERNEL_LAYOUTS, MODULE_LAYOUTS
from ..conventions.table import PLAIN, measured_scale
from ..fitting import Excluded
from ..foreign.edge import FOREIGN
from ..oracle.comparing import Departure, NotApplicable, require_shape
from ..trials.trial import Trial
from .prober import Prober, Seen

OFFERS: tuple[Mapping[str, Any], ...] = (
    {},
    {"value_width": "same"},
    {"lengths": "equal"},
    {"lengths": "equal", "value_width": "same"},
    {"widths": (16,), "value_width": "same"},
    {"widths": (64,), "value_width": "same"},
    {"widths": (16,), "lengths": "equal", "value_width": "same"},
    {"widths": (64,), "lengths": "equal", "value_width": "same"},
)
"""What is asked less and less of a call until it is answered."""

DTYPES = ("fp32", "fp64", "bf16", "fp16")

Answers = dict[str, Any]


def settle_call(prober: Prober) -> bool:
    """Find a dtype, an order of axes, a form of the inputs, a scale and a triangle under which a plain call agrees.

    Return whether any call was answered at all.
    """
    for dtype in DTYPES:
        prober.dtype = dtype
        answered = None
        for answers in _answered(prober):
            read = _read(prober, answers)
            if read is not None:
                _keep(prober, {**answers, **read[0]}, read[1])
                return True
            answered = answered or answers
        if answered is not None:
            _keep_what_was_answered(prober, answered)
            return True
    prober.dtype = DTYPES[0]
    evidence = f"no call was answered: {prober.see(PLAIN).told}"
    prober.settle("layout", prober.known("layout"), evidence, settled=False)
    return False


def _answered(prober: Prober) -> Iterator[Answers]:
    """Yield the calls that are answered in the right shape: what is known first, and less only where more raises.

    What is answered and wrong may be a fault, which must not vanish because something else is asked for.
    """
    for taken in sorted(("cross", "context", "self"), key=lambda word: word != prober.known("inputs")):
        found = [each for layout in _layouts(prober) for each in _least_restricted(prober, taken, layout)]
        four_axes = any(each["layout"] in ("...LD", "BHLD") for each in found)
        yield from (each for each in found if not (four_axes and each["layout"] == "(BH)LD"))
        if found and prober.implementation.call is None:
            # Only a call that somebody wrote may leave out what it is given.
            return


def _layouts(prober: Prober) -> list[str]:
    layouts = [*MODULE_LAYOUTS] if prober.is_module else [*KERNEL_LAYOUTS]
    return sorted(layouts, key=lambda layout: layout != prober.known("layout"))


def _least_restricted(prober: Prober, taken: str, layout: str) -> Iterator[Answers]:
    """Yield the first call that is answered in the right shape."""
    for offer in OFFERS:
        answers = {**offer, "inputs": taken, "layout": layout}
        if prober.see(PLAIN, _has_the_right_shape, **answers).agrees:
            yield answers
            return


def _keep_what_was_answered(prober: Prober, answers: Answers) -> None:
    """Keep a call that is answered, and say that nothing explains what it gives."""
    for name, value in answers.items():
        prober.settle(name, value, "the call is answered in the right shape")
    told = f"{prober.see(PLAIN).told}{prober.explained(PLAIN)}"
    for name in ("layout", "scale"):
        evidence = f"no order of axes, scale or triangle explains a plain call: {told}"
        prober.settle(name, prober.known(name), evidence, settled=False)


def _keep(prober: Prober, answers: Answers, seen: Seen) -> None:
    for name, value in answers.items():
        prober.settle(name, value, f"a plain call {seen.told}")


def _has_the_right_shape(trial: Trial) -> None:
    result = trial.run()
    require_shape(what="output", actual=result.output, shape=tuple(trial.expectation().output.value.shape))


def _read(prober: Prober, answers: Answers) -> tuple[Answers, Seen] | None:
    """Return scale and triangle under which a call agrees, known or measured, on two sets of sizes."""
    usual = prober.known("scale")
    for scale in sorted(USUAL_SCALES, key=lambda word: word != usual):
        for causal in UNASKED_TRIANGLES:
            found = {"scale": scale, "causal": causal}
            seen = _agrees_twice(prober, {**answers, **found})
            if seen is not None:
                return found, seen
    return _measured(prober, answers)


OTHER = Case("plain, other sizes", batch=3, heads=2, queries=6, keys=9, width=4, value_width=5)


def _agrees_twice(prober: Prober, answers: Answers) -> Seen | None:
    first = prober.see(PLAIN, **answers)
    if not first.agrees:
        return None
    second = prober.see(OTHER, **answers)
    return first if second.agrees or second.raises else None


def _measured(prober: Prober, answers: Answers) -> tuple[Answers, Seen] | None:
    trial = prober.trial(PLAIN, **answers)
    if isinstance(trial, Excluded) or "widths" in answers:
        # One width cannot tell a number from a formula.
        return None
    try:
        factor = measured_scale(trial).answer
    except (*FOREIGN, Departure, NotApplicable):
        return None
    if factor is None:
        return None
    found = {"scale": factor, "causal": None}
    seen = _agrees_twice(prober, {**answers, **found})
    return None if seen is None else (found, seen)
