"""Which masks it takes: kinds, what true means, shapes. A kind that is read as another one is not offered."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..cases.case import Case, Mask
from ..cases.inputs import Inputs
from ..trials.trial import Trial
from .prober import AGREES, DEPARTS, RAISES, Check, Prober, Seen

KINDS = ("bool", "number", "additive")
OFFERED_BY_DEFAULT = ("bool", "number")
BROADCASTABLE = ("LS", "11LS", "111S", "B11S", "B1LS", "1HLS", "BH1S", "BHLS", "S", "HLS")
OTHERS = {"BS": "B11S", "BLS": "B1LS", "(BH)LS": "BHLS", "(BH)1S": "BH1S"}
"""Shapes that do not broadcast, and the axes of the mask that is delivered in them."""


IGNORED = "ignored"
UNEXPLAINED = "taken and does not hide what it is to hide"


@dataclass(frozen=True)
class Read:
    """How one kind of mask is read: what true means, and what was seen in each shape."""

    kind: str
    means: str
    shapes: Mapping[str, Seen]

    @property
    def agreeing(self) -> tuple[str, ...]:
        """Shapes in which the mask does what it says."""
        return tuple(shape for shape, seen in self.shapes.items() if seen.agrees)

    @property
    def wrong(self) -> tuple[str, ...]:
        """Shapes that are taken and do something else."""
        return tuple(shape for shape, seen in self.shapes.items() if seen.state == DEPARTS)


def settle_masks(prober: Prober) -> None:
    """Find out kinds, meaning and shapes of masks."""
    reads = [_read(prober, kind) for kind in KINDS]
    lengths = prober.see(_case("B11S", "lengths"), _agrees, mask=("lengths",), mask_shapes="broadcast")
    offered = [read for read in reads if read.agreeing]
    taken_for = {read.kind: _taken_for(prober, read) for read in reads if read.wrong and not read.agreeing}
    asked = [read for read in reads if read.kind in taken_for and not _is_read_as_number(read, offered)]
    unexplained = [read for read in asked if _is_a_fault(read.kind, taken_for[read.kind])]
    told = _told(reads, taken_for, lengths)
    if not offered and not unexplained:
        kinds: tuple[str, ...] = ("lengths",) if lengths.agrees else ()
        prober.settle("mask", kinds, told)
        return
    _settle_meaning(prober, offered)
    offered = [read for read in offered if read.kind == "additive" or read.means == prober.known("mask_means")]
    kept = tuple(read.kind for read in reads if read in offered or read in unexplained)
    kinds = (*kept, "lengths") if lengths.agrees else kept
    prober.settle("mask", kinds, told, settled=not unexplained)
    _settle_shapes(prober, offered)


def _case(pattern: str, kind: str) -> Case:
    """Return a case whose mask, delivered in this shape, hides something in every row it tells apart."""
    axes = OTHERS.get(pattern, pattern)
    content = {"B11S": "padding", "111S": "tail hidden", "S": "tail hidden"}.get(axes, "random")
    return Case(f"{kind} mask {axes}", mask=Mask(content, axes, (kind,)))


def _delivered(pattern: str, kind: str) -> dict[str, Any]:
    """Return the answers under which a mask is delivered in a shape."""
    return {"mask": (kind,), "mask_shapes": "broadcast" if pattern == "HLS" else (pattern,)}


def _agrees(trial: Trial) -> None:
    """The output agrees, but for rows without a key, whose answer is asked for elsewhere."""
    expectation = trial.expectation()
    trial.near("output", trial.run().output, expectation.output, ignore=expectation.empty_rows)


def _read(prober: Prober, kind: str) -> Read:
    """Try both meanings, in every shape, and keep the one under which more shapes agree."""
    means = ("attend",) if kind == "additive" else ("attend", "hide")
    read = [Read(kind, meaning, _shapes(prober, kind, meaning)) for meaning in means]
    return max(read, key=lambda each: len(each.agreeing))


def _shapes(prober: Prober, kind: str, means: str) -> dict[str, Seen]:
    shapes = {}
    for pattern in (*BROADCASTABLE, *OTHERS):
        if pattern == "HLS" and prober.is_module:
            continue
        case, how = _case(pattern, kind), {**_delivered(pattern, kind), "mask_means": means}
        seen = prober.see(case, _agrees, **how)
        if seen.agrees and kind == "additive":
            # 0 and -inf alone could be read as a number that hides.
            finite = prober.see(_finite(case), _agrees, **how)
            seen = seen if finite.agrees else finite
        if seen.state in (AGREES, DEPARTS, RAISES):
            shapes[pattern] = seen
    return shapes


def _finite(case: Case) -> Case:
    """Return a case of an additive mask with finite values added as well."""
    return replace(case, name=f"{case.name}, finite", mask=replace(case.mask or Mask(), finite=True))


# Misreadings


def _taken_for(prober: Prober, read: Read) -> str:
    """Return as what a kind is read that is taken and does not do what it says."""
    for shape in read.wrong:
        for name, check in _READINGS.items():
            if prober.see(_case(shape, read.kind), check, **_delivered(shape, read.kind)).agrees:
                return name
    shape = read.wrong[0]
    case = _case(shape, read.kind)
    fault = prober.explained(_finite(case) if read.kind == "additive" else case, **_delivered(shape, read.kind))
    return f"{UNEXPLAINED}{fault}"


def _is_read_as_number(read: Read, offered: Iterable[Read]) -> bool:
    """Say whether a mask to be added is one of numbers to this implementation: zero or not is all that counts."""
    return read.kind == "additive" and any(each.kind == "number" for each in offered)


def _is_a_fault(kind: str, taken_for: str) -> bool:
    """Say whether a kind does something that no other kind does: one that the reference offers, or one of which it is
    known what is wrong with it."""
    if taken_for == IGNORED:
        return True
    return taken_for.startswith(UNEXPLAINED) and (kind in OFFERED_BY_DEFAULT or taken_for != UNEXPLAINED)


def _added(trial: Trial) -> None:
    """A mask of 0 and 1 is added to the scores."""
    allowed = trial.inputs.allowed
    if allowed is not None:
        _output_agrees(trial, trial.inputs.changed(allowed=torch.ones_like(allowed), finite=allowed.to(torch.float64)))


def _ignored(trial: Trial) -> None:
    """A mask has no effect."""
    _output_agrees(trial, trial.inputs.changed(allowed=None))


def _nonzero_attends(trial: Trial) -> None:
    """What is 0 in an additive mask is hidden."""
    allowed = trial.inputs.allowed
    if allowed is not None:
        _output_agrees(trial, trial.inputs.changed(allowed=~allowed))


def _output_agrees(trial: Trial, otherwise: Inputs) -> None:
    expectation = trial.expectation(otherwise)
    trial.near("output", trial.run().output, expectation.output, ignore=expectation.empty_rows)


_READINGS: Mapping[str, Check] = {
    "added to the scores": _added, IGNORED: _ignored, "read as nonzero = attend": _nonzero_attends,
}  # fmt: skip


# What it comes to


def _settle_meaning(prober: Prober, offered: Iterable[Read]) -> None:
    read = next((each for each in offered if each.kind != "additive"), None)
    if read is not None:
        told = f"a {read.kind} mask of which true {'hides' if read.means == 'hide' else 'attends'} agrees"
        prober.settle("mask_means", read.means, f"{told} in {len(read.agreeing)} shapes")


def _settle_shapes(prober: Prober, offered: list[Read]) -> None:
    if not offered:
        prober.settle("mask_shapes", "broadcast", "no shape of mask does what it says", settled=False)
        return
    refused = {shape for read in offered for shape, seen in read.shapes.items() if seen.raises}
    wanted = _broadcastable(prober)
    wrong = {shape for read in offered for shape in read.wrong if shape in wanted}
    taken = tuple(shape for shape in offered[0].shapes if all(shape in read.agreeing for read in offered))
    if not any(shape in refused for shape in wanted):
        told = f"; in {', '.join(sorted(wrong))} it does something else" if wrong else ""
        prober.settle("mask_shapes", "broadcast", f"every shape that broadcasts is taken{told}", settled=not wrong)
        return
    shapes = tuple(shape for shape in (*taken, *sorted(wrong)) if shape != "HLS")
    example = next(seen.told for read in offered for seen in read.shapes.values() if seen.raises)
    if shapes:
        prober.settle("mask_shapes", shapes, f"others raise: {example}", settled=not wrong)
        if prober.known("layout") == "...LD" and not {"LS", "S"} & set(shapes):
            prober.settle("layout", "BHLD", "masks have four axes, and so have inputs beside them")
        return
    # No shape suits every kind: the first kind keeps its own.
    first = offered[0]
    prober.settle("mask", (first.kind,), f"{' and '.join(r.kind for r in offered)} masks have no shape in common")
    prober.settle("mask_shapes", tuple(s for s in first.agreeing if s != "HLS"), f"shapes of {first.kind} masks")


def _broadcastable(prober: Prober) -> tuple[str, ...]:
    """Return the shapes that `broadcast` stands for."""
    patterns = replace(prober.implementation.capabilities, mask_shapes="broadcast").mask_patterns
    if not isinstance(patterns, str):
        return patterns
    return BROADCASTABLE[:-1] if prober.is_module else BROADCASTABLE


def _told(reads: Iterable[Read], taken_for: Mapping[str, str], lengths: Seen) -> str:
    words = []
    for read in reads:
        if read.agreeing:
            words.append(f"{read.kind} agrees in {len(read.agreeing)} shapes")
        elif read.wrong:
            words.append(f"{read.kind} is {taken_for[read.kind]}")
        elif read.shapes:
            words.append(f"{read.kind} raises")
    return "; ".join([*words, f"lengths {'agree' if lengths.agrees else 'are not taken'}"])
