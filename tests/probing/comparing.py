"""What a probe finds beside what is declared of the same implementation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from attention_conformance.capabilities import Capabilities

QUESTIONS = (
    "layout", "inputs", "lengths", "scale", "mask_means", "empty_row", "no_keys", "causal", "causal_with_mask", "second",
    "precision", "gradient", "deterministic",
)  # fmt: skip
"""Capabilities of which one answer is right."""

OFFERS = ("mask", "mask_shapes", "options", "dtypes", "widths", "heads", "leading", "value_width")
"""Capabilities of which more may be found than is declared."""

HIT, WIDER, MISS = "hit", "wider", "miss"

WIDER_ANSWERS: Mapping[str, tuple[tuple[Any, Any], ...]] = {
    "layout": (("BHLD", "...LD"),),
    "causal": ((None, "top-left"), (None, "bottom-right")),
    "lengths": (("at most", "any"), ("equal", "any"), ("equal", "at most")),
    "gradient": (("once", "twice"), ("none", "once"), ("none", "twice")),
    "deterministic": (("no", "yes"), ("no", "forward"), ("forward", "yes")),
    "precision": (("eager", "upcast"), ("eager", "fused"), ("fused", "upcast"), ("tf32", "eager"), ("softmax32", "eager"),
                  ("tf32", "fused"), ("softmax32", "fused"), ("tf32", "upcast"), ("softmax32", "upcast")),
    "heads": (("equal", "grouped"),),
    "leading": (("equal", "broadcast"),),
    "value_width": (("same", "any"),),
}  # fmt: skip
"""Pairs of a declared answer and one that promises more."""


@dataclass(frozen=True)
class Comparison:
    """One answer of the probe beside the declared one: `hit`, `wider` where more was found, `miss`."""

    implementation: str
    capability: str
    declared: Any
    found: Any
    result: str


def compare(name: str, declared: Capabilities, found: Mapping[str, Any]) -> list[Comparison]:
    """Compare every answer that was found."""
    names = [each for each in (*QUESTIONS, *OFFERS) if each in found]
    compared = [_compared(name, each, getattr(declared, each), found[each]) for each in names]
    return [_with_fp64(each) if "fp64" not in declared.dtypes else each for each in compared]


def _with_fp64(comparison: Comparison) -> Comparison:
    """A profile with an fp32 softmax belongs to fp64, where that was found beyond the declared dtypes."""
    if comparison.capability == "precision" and comparison.found == "softmax32":
        return replace(comparison, result=WIDER)
    return comparison


def _compared(name: str, capability: str, declared: Any, found: Any) -> Comparison:
    result = MISS
    if same(capability, declared, found):
        result = HIT
    elif (declared, found) in WIDER_ANSWERS.get(capability, ()) or _holds(capability, declared, found):
        result = WIDER
    return Comparison(name, capability, declared, found, result)


def same(capability: str, declared: Any, found: Any) -> bool:
    """Say whether two answers mean the same."""
    if capability == "second" and declared == "optional weights":
        return found in ("weights", None)
    if isinstance(declared, float) and isinstance(found, float):
        return abs(declared - found) <= 1e-5 * abs(declared)
    if isinstance(declared, tuple) and isinstance(found, tuple):
        return set(declared) == set(found)
    return bool(declared in (found, "unspecified"))


def _holds(capability: str, declared: Any, found: Any) -> bool:
    """Say whether a set that was found holds all of the declared one."""
    if capability not in OFFERS or found == declared:
        return False
    if found in ("any", "broadcast"):
        return True
    return isinstance(declared, tuple) and isinstance(found, tuple) and set(declared) <= set(found)


def table(comparisons: Iterable[Comparison]) -> list[tuple[str, int, int, int]]:
    """Return hits, wider answers and misses by capability."""
    counts = Counter((each.capability, each.result) for each in comparisons)
    return [(name, *(counts[name, result] for result in (HIT, WIDER, MISS))) for name in (*QUESTIONS, *OFFERS)]


def printed(comparisons: Iterable[Comparison]) -> str:
    """Return the table as text."""
    lines = [f"{name:18} {hits:5} {wider:5} {misses:5}" for name, hits, wider, misses in table(comparisons)]
    return "\n".join([f"{'capability':18} {'hits':>5} {'wider':>5} {'misses':>5}", *lines])
