"""In which dtypes it works, where it rounds, what repeats bit by bit, how often it can be differentiated."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases.case import Case, Mask, vary
from ..conventions.table import ALL_KINDS, PLAIN, ROW, SQUARE_PLAIN, empty_rows_agree
from ..dtypes import DTYPES
from ..foreign.edge import foreign
from ..oracle.comparing import Departure, require_equal
from ..trials.subject import Result
from ..trials.trial import INPUT_NAMES, Trial
from .prober import Prober, Seen

MASKED = Case("random mask, for numbers", mask=Mask("random", "BHLS", ALL_KINDS))
PADDED = Case("padding, for numbers", mask=Mask("padding", "B11S", (*ALL_KINDS, "lengths")))
LONG = Case("long rows, for numbers", queries=24, keys=150, width=16, value_width=16)
SHARP = Case("sharp rows, for numbers", values="sharp", queries=24, keys=40, width=16, value_width=16)
LOW = Case("very low scores, for numbers", values="scores -20", batch=1, heads=2, keys=35, width=16)
RISING = Case("rising scores, for numbers", values="rising scores", batch=1, heads=2, queries=5, keys=40, width=16)
ALIKE = Case("equal scores, for numbers", values="zero query", batch=1, heads=2, queries=5, keys=40, width=16)
HUGE = Case("huge scores, for numbers", values="huge scores", batch=1, heads=2, keys=35, width=16)
UNMASKED = (LONG, SHARP, LOW, RISING, ALIKE, HUGE)
"""The last four reach the attention of a module unchanged, whose projections are the identity there: elsewhere their
rounding hides that of the attention."""

DERIVED = (PLAIN, SQUARE_PLAIN, MASKED)
PROFILES = ("upcast", "fused", "eager", "softmax32", "tf32")
"""Profiles of rounding, the narrowest first."""

ENOUGH = 0.75
"""A few examples have to stay this far within the bound of a profile, so that others stay within it as well."""

OFFERED_BY_DEFAULT = ("fp64", "fp32", "bf16")


def settle_numbers(prober: Prober) -> None:
    """Find out about dtypes, rounding, differentiation and repetition."""
    _dtypes(prober)
    _precision(prober)
    _gradient(prober)
    _deterministic(prober)


def _dtypes(prober: Prober) -> None:
    found, told, settled = [], [], True
    for dtype in DTYPES:
        seen = [prober.see(case, dtype=dtype) for case in _examples(prober)[:3]]
        if _settled(prober, "mask", "empty_row") and prober.known("empty_row") != "error":
            seen.append(prober.see(ROW, empty_rows_agree, dtype=dtype))
        seen = [each for each in seen if each.state != "excluded"]
        if any(each.raises for each in seen):
            told.append(f"{dtype} {_first(seen, 'raises')}")
        elif all(each.agrees for each in seen):
            found.append(dtype)
        elif dtype in OFFERED_BY_DEFAULT:
            found.append(dtype)
            settled = False
            told.append(f"{dtype}: {_first(seen, 'departs')}")
        else:
            told.append(f"{dtype}: {_first(seen, 'departs')}, and it is not offered by default")
    if found:
        prober.settle(
            "dtypes", tuple(found), "; ".join(told) or "a plain and a masked call agree in each", settled=settled
        )


def _examples(prober: Prober) -> tuple[Case, ...]:
    """Return the cases that can say something: with a mask only where masks do what they say."""
    masked = _settled(prober, "mask", "mask_shapes") or not prober.known("mask")
    return (PLAIN, MASKED, PADDED, *UNMASKED) if masked else (PLAIN, *UNMASKED)


def _settled(prober: Prober, *names: str) -> bool:
    return all(name in prober.findings and prober.findings[name].settled for name in names)


def _first(seen: list[Seen], state: str) -> str:
    return next(each.told for each in seen if each.state == state)


def _precision(prober: Prober) -> None:
    """Take the narrowest profile under which every example agrees in every dtype."""
    ratios = {profile: _worst(prober, profile) for profile in PROFILES}
    fitting = [
        profile for most in (ENOUGH, 1.0) for profile, ratio in ratios.items() if ratio is not None and ratio <= most
    ]
    told = ", ".join(f"{name} {'raises' if ratio is None else f'{ratio:.2g}'}" for name, ratio in ratios.items())
    evidence = f"worst error in units of each profile's bound: {told}"
    if fitting:
        prober.settle("precision", fitting[0], evidence)
    else:
        prober.settle("precision", prober.known("precision"), evidence, settled=False)


def _worst(prober: Prober, profile: str) -> float | None:
    worst = 0.0
    for dtype in prober.known("dtypes"):
        for case in _examples(prober):
            seen = prober.see(case, dtype=dtype, precision=profile)
            if seen.raises:
                return None
            worst = max(worst, seen.ratio or 0.0)
    return worst


# Differentiation


def _gradient(prober: Prober) -> None:
    if "train" not in prober.modes:
        return
    first = prober.see(PLAIN, _differentiates, mode="train", gradient="once")
    if not first.agrees:
        wrong = first.state == "departs" and "does not require a gradient" not in first.text
        prober.settle("gradient", "once" if wrong else "none", first.told, settled=not wrong)
        return
    # Fused kernels are often taken at some sizes and with some masks only.
    seen = [prober.see(case, _differentiates_twice, mode="train", gradient="twice") for case in DERIVED]
    refused = next((each for each in seen if each.state in ("departs", "raises")), None)
    if refused is None:
        prober.settle("gradient", "twice", "first and second derivatives are given")
    else:
        prober.settle("gradient", "once", f"the first derivative agrees; for the second one {refused.told}")


def _differentiates(trial: Trial) -> None:
    trial.gradients_agree(trial.run())


def _differentiates_twice(trial: Trial) -> None:
    result = trial.run()
    distinct = {name: getattr(result.delivered, name) for name in trial.capabilities.distinct}
    first = trial.backward(result, distinct, trial.inputs, twice=True)
    given = [gradient for gradient in first.values() if gradient is not None]
    if not given or not all(gradient.requires_grad for gradient in given):
        raise Departure("the gradient cannot be differentiated again")
    total = sum((gradient.square().sum() for gradient in given[1:]), given[0].square().sum())
    foreign(torch.autograd.grad, total, list(distinct.values()), allow_unused=True)


# Repetition


def _deterministic(prober: Prober) -> None:
    case = vary(LONG, "long rows, again and again")
    forward = prober.see(case, _repeats)
    if forward.state == "departs":
        prober.settle("deterministic", "no", f"{REPEATS} calls differ: {forward.text}")
        return
    backward = prober.see(case, _repeats_backward, mode="train") if prober.known("gradient") != "none" else forward
    if backward.state == "departs":
        prober.settle("deterministic", "forward", f"{REPEATS} backward passes differ: {backward.text}")
    else:
        prober.settle("deterministic", "yes", f"{REPEATS} calls are equal bit by bit")


REPEATS = 3


def _repeats(trial: Trial) -> None:
    first = trial.run().output
    for _ in range(REPEATS - 1):
        require_equal(what="output", actual=trial.run().output, expected=first)


def _repeats_backward(trial: Trial) -> None:
    first = _gradients(trial, trial.run())
    for _ in range(REPEATS - 1):
        again = _gradients(trial, trial.run())
        for name in first:
            require_equal(what=f"gradient of the {name}", actual=again[name], expected=first[name])


def _gradients(trial: Trial, result: Result) -> dict[str, Tensor]:
    found = trial.input_gradients(result)
    return {name: found[name] for name in INPUT_NAMES if name in found}
