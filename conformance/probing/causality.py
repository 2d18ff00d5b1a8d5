"""Whether it can be causal, which corner the triangle is aligned with, and what a mask beside it does."""

from __future__ import annotations

from ..cases.case import Case, Mask, vary
from ..conventions.table import (
    ALL_KINDS,
    CAUSAL_MASKED,
    CAUSAL_TALL,
    CAUSAL_WIDE,
    CONVENTIONS,
    causal_with_mask_agrees,
    empty_rows_agree,
)
from ..fitting import Excluded
from .answering import answers_to, settle_one
from .prober import Prober, Seen

CORNERS = ("top-left", "bottom-right")
SQUARE = Case("causal, L = S", causal=True, queries=6, keys=6)
MASKED = (
    CAUSAL_MASKED,
    vary(CAUSAL_MASKED, "causal with a mask, E = D", value_width=8),
    Case("causal with padding", causal=True, queries=6, keys=6, mask=Mask("padding", "B11S", ALL_KINDS)),
)


def settle_causality(prober: Prober) -> None:
    """Find out about the triangle; one that is always there was found with the plain call."""
    if prober.known("causal") is None:
        _option(prober)
    if prober.known("causal") is not None:
        _empty_rows(prober)
        _with_mask(prober)


def _option(prober: Prober) -> None:
    seen = {corner: _at(prober, corner) for corner in CORNERS}
    best = next((corner for corner in CORNERS if seen[corner].agrees), None)
    first = seen["top-left"]
    if best is not None:
        prober.settle("causal", best, _evidence(prober, best))
    elif first.raises or not prober.takes("causal"):
        prober.settle("causal", None, f"with causal=True {first.told}" if first.raises else "there is no such option")
    else:
        told = prober.explained(SQUARE, causal="top-left")
        prober.settle("causal", "top-left", f"causal is taken, and {first.told}{told}", settled=False)


def _at(prober: Prober, corner: str) -> Seen:
    """Return what is seen where the corners differ, and at L = S."""
    worst = prober.see(SQUARE, causal=corner)
    for case in (CAUSAL_WIDE, CAUSAL_TALL):
        seen = prober.see(case, causal=corner)
        if not seen.agrees and seen.state != "excluded" and not _has_empty_rows(prober, case, corner):
            worst = seen
    return worst


def _has_empty_rows(prober: Prober, case: Case, corner: str) -> bool:
    """Say whether rows without a key stand in the case, whose answer is asked for elsewhere."""
    trial = prober.trial(case, causal=corner)
    return not isinstance(trial, Excluded) and bool(trial.expectation().empty_rows.any())


def _evidence(prober: Prober, corner: str) -> str:
    other = next(word for word in CORNERS if word != corner)
    seen = prober.see(CAUSAL_WIDE, causal=other)
    if seen.agrees or seen.state == "excluded":
        return f"a call with causal=True agrees; L = S only, so that {other} would agree as well"
    return f"calls with causal=True agree at L < S, where {other} departs"


def _empty_rows(prober: Prober) -> None:
    """Ask what a row gets that the triangle leaves without a key, where masks have not told."""
    if not _has_empty_rows(prober, CAUSAL_TALL, prober.known("causal")):
        return
    answers = CONVENTIONS["empty_row"].answers
    found = answers_to(prober, "empty_row", answers, (CAUSAL_TALL,), empty_rows_agree)
    told = prober.findings.get("empty_row")
    if told is None:
        settle_one(prober, "empty_row", found)
    elif set(found.values()) != {told.answer}:
        seen = f"{told.evidence}; {'; '.join(f'{case}: {answer}' for case, answer in found.items())}"
        prober.settle("empty_row", told.answer, seen, settled=False)


def _with_mask(prober: Prober) -> None:
    answers = CONVENTIONS["causal_with_mask"].answers
    found = answers_to(prober, "causal_with_mask", answers, MASKED, causal_with_mask_agrees)
    if set(found.values()) == set(answers):
        prober.settle("causal_with_mask", "unspecified", "at some sizes both hold, at others it raises")
        return
    settle_one(prober, "causal_with_mask", found)
    if "?" in found.values():
        fault = prober.explained(CAUSAL_MASKED, causal_with_mask="and")
        prober.settle("causal_with_mask", "and", f"neither both hold nor it raises{fault}", settled=False)
