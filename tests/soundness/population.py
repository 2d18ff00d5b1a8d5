"""What sound programs are sent to find out how near they come to the bound: shapes x values x masks x options."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from attention_conformance.cases.case import Case, Mask

SHAPES: tuple[dict[str, int], ...] = (
    {"batch": 2, "heads": 4, "queries": 5, "keys": 7, "width": 8, "value_width": 6},
    {"batch": 1, "heads": 1, "queries": 3, "keys": 2, "width": 1, "value_width": 1},
    {"batch": 3, "heads": 2, "queries": 9, "keys": 4, "width": 5, "value_width": 3},
    {"batch": 1, "heads": 2, "queries": 17, "keys": 33, "width": 16, "value_width": 16},
    {"batch": 2, "heads": 1, "queries": 4, "keys": 65, "width": 64, "value_width": 8},
    {"batch": 1, "heads": 3, "queries": 40, "keys": 129, "width": 16, "value_width": 24},
    {"batch": 1, "heads": 1, "queries": 130, "keys": 257, "width": 32, "value_width": 32},
    {"batch": 2, "heads": 2, "queries": 6, "keys": 6, "width": 128, "value_width": 4},
)
"""Sizes; the last three are past the usual blocks in one direction or another."""

FAMILIES = (
    "signed", "sharp", "flat", "shifted keys", "shifted values", "large values", "tiny", "huge scores",
    "constant value", "zero query", "equal keys", "duplicate keys", "identity value", "ramp",
)  # fmt: skip
"""Families of values that have a meaning for every size."""

BUILT: tuple[tuple[str, dict[str, int]], ...] = tuple(
    (family, {"batch": 2, "heads": 2, "queries": queries, "keys": keys, "width": width, "value_width": 8})
    for family, (queries, keys, width) in product(
        ("scores -20", "scores -64", "scores 120", "two keys", "ones value, zero query", "needles"),
        ((7, 6, 16), (20, 16, 16), (33, 200, 256)),
    )
)
"""Families that are exact for some widths only."""

_EVERY = ("bool", "number", "additive", "lengths")
MASKS: tuple[Mask | None, ...] = (
    None,
    Mask("random", "LS"),
    Mask("random", "BHLS", ("additive", "bool", "number")),
    Mask("padding", "B11S", _EVERY),
    Mask("empty row", "LS", ("bool", "number", "additive")),
    Mask("single", "LS", ("number", "bool", "additive"), numbers="float"),
    Mask("last key only", "LS"),
    Mask("islands", "LS", ("bool", "additive", "number")),
    Mask("random", "B1LS", ("additive",), finite=True),
    Mask("tail hidden", "LS", ("number", "bool"), numbers="odd"),
)
"""Masks in every kind; an implementation gets those that it accepts."""

OPTIONS: tuple[dict[str, Any], ...] = (
    {}, {}, {}, {"causal": True}, {"scale": 0.3}, {"bias": "BHLS"}, {"bias": "1HLS"}, {"window": 3}, {"softcap": 5.0},
    {"kv_heads": 1}, {"causal": True, "window": 4}, {"causal": True, "bias": "11LS"}, {"shared": "qkv"},
    {"memory": "heads swapped"}, {"memory": "sliced"},
)  # fmt: skip
"""Options and memory; an implementation gets those that it declares."""


def cases(seed: int, number: int) -> Iterator[Case]:
    """Yield `number` cases of one seed: combinations drawn at random, so that many seeds meet all of them."""
    draw = random.Random(seed)
    for position in range(number):
        if draw.random() < 0.2:
            family, sizes = draw.choice(BUILT)
        else:
            family, sizes = draw.choice(FAMILIES), draw.choice(SHAPES)
        mask, options = draw.choice(MASKS), draw.choice(OPTIONS)
        case = Case(f"soundness {position}", values=family, mask=mask, draw=seed, **sizes, **options)
        yield _sensible(case)


def _sensible(case: Case) -> Case:
    """Return the case with the sizes that its values and options need."""
    if case.values == "needles":
        case = replace(case, keys=min(case.keys, case.width))
    if case.shared == "qkv":
        case = replace(case, queries=case.keys, value_width=case.width)
    return case
