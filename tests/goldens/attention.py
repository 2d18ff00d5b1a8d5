"""The vectors of document 1's function `attention`. An id is permanent: a vector that goes leaves its id retired."""

from __future__ import annotations

import math

from tests.goldens import odd_calls
from tests.goldens.recipe import EVERY_FORM, MAY, WIDE, Masking, Odd, Recipe


def _vector(number: int, title: str, **fields: object) -> Recipe:
    return Recipe(f"ATTN-{number:03}", title, "attention", **fields)  # type: ignore[arg-type]


PLAIN = (
    _vector(1, "plain, every size another", batch=2, heads=3, keys=4, value_width=1),
    _vector(2, "L = S", queries=3, value_width=2),
    _vector(3, "more heads than features", heads=4, width=2, value_width=1),
    _vector(4, "more features than heads", heads=1, width=5, value_width=4),
    _vector(5, "one query", queries=1, keys=5),
    _vector(6, "one key", keys=1),
    _vector(7, "no keys", keys=0, quirks=("Q1-no-keys-zeros",)),
    _vector(8, "one of everything", heads=1, queries=1, keys=1, width=1, value_width=1),
    _vector(9, "sharp: scores up to about 70", query=4.0, key=4.0, keys=4),
    _vector(10, "flat: scores near 0", query=2.0**-6, key=2.0**-4, keys=4),
    _vector(11, "equal scores: the query is zero", query=0.0, keys=4),
    _vector(12, "large values", value=256.0),
    _vector(13, "one tensor for all three", queries=3, keys=3, value_width=2, same=True),
    _vector(14, "two axes", leading="", heads=1, batch=1),
    _vector(15, "three axes", leading="B", batch=2, heads=1),
    _vector(16, "five axes", leading="GBH", heads=1, queries=1, keys=3, value_width=2),
    _vector(17, "key and value broadcast over batch and heads", batch=2, broadcast=("key", "value")),
    _vector(18, "width 16", heads=1, queries=2, keys=3, width=16, value_width=16),
    _vector(19, "width 64", heads=1, queries=1, keys=2, width=64, value_width=64),
    _vector(20, "long: 17 keys", heads=1, queries=1, keys=17, width=2, value_width=2),
)

_SHAPES = ("S", "LS", "HLS", "11LS", "111S", "B11S", "B1LS", "1HLS", "BH1S", "BHLS")
_SMALL = {"batch": 2, "heads": 2, "queries": 2, "keys": 3, "width": 1, "value_width": 2}
SHAPES = tuple(
    _vector(30 + place, f"mask of shape ({', '.join(axes)})", mask=Masking(axes=axes), **_SMALL)
    for place, axes in enumerate(_SHAPES)
)

_ROWS = {"queries": 3, "keys": 4, "value_width": 2}
FORMS = (
    _vector(50, "number mask of 1 and 0", mask=Masking(forms=("number", "bool", "additive")), **_ROWS),
    _vector(51, "number mask of 2, -1, 256 and 0", mask=Masking(forms=("number",), numbers="odd"), **_ROWS),
    _vector(52, "number mask of 0.25, -2, 1.5 and 0", mask=Masking(forms=("number",), numbers="fractions"), **_ROWS),
    _vector(53, "additive mask of 0 and -inf", mask=Masking(forms=("additive", "bool", "number")), **_ROWS),
    _vector(54, "additive mask with finite values", mask=Masking(forms=("additive",), finite=True), **_ROWS),
    _vector(
        55,
        "lengths of the keys per batch element",
        mask=Masking("padding", "B11S", ("lengths", *EVERY_FORM)),
        **{**_ROWS, "batch": 2, "heads": 1},
    ),
    _vector(56, "causal triangle as a mask, L = S", mask=Masking("causal"), queries=4, keys=4, value_width=2, heads=1),
    _vector(57, "every row keeps one key", mask=Masking("one key"), **_ROWS),
    _vector(58, "sharp, masked", mask=Masking(), query=4.0, key=4.0, **_ROWS),
    _vector(
        59, "one tensor for all three, causal mask", same=True, mask=Masking("causal"), queries=3, keys=3, value_width=2
    ),
    _vector(60, "width 16, masked", mask=Masking(), heads=1, queries=2, keys=3, width=16, value_width=16),
)

EMPTY = (
    _vector(
        70, "one row has nothing to attend to", mask=Masking("empty row"), quirks=("Q1-empty-row-uniform",), **_ROWS
    ),
    _vector(
        71,
        "no row has anything to attend to",
        mask=Masking("none"),
        quirks=("Q1-empty-row-trains-masked-values",),
        queries=2,
        keys=3,
        value_width=2,
    ),
)


_HIDDEN = Masking("last hidden", "S")
QUIRKS = (
    _vector(
        80, "fp16: products above 65504 make every number NaN", agreement=MAY, dtypes=("fp16",), width=64, heads=1,
        queries=1, keys=2, value_width=1, quirks=("Q1-fp16-score-overflow",), odd=Odd(odd_calls.overflowing, all_nan=True),
    ),
    _vector(
        81, "width 0 makes every number NaN", agreement=MAY, width=0, quirks=("Q1-zero-width-nan",),
        odd=Odd(all_nan=True),
    ),
    _vector(
        82, "additive mask given as a number mask: the hidden keys alone attend", agreement=MAY, dtypes=WIDE,
        quirks=("Q1-additive-mask-inverted",), odd=odd_calls.number_mask(0.0, -math.inf, -math.inf),
    ),
    _vector(
        83, "a half, a negative number and NaN attend", agreement=MAY, dtypes=WIDE, keys=4,
        quirks=("Q1-any-nonzero-attends",), odd=odd_calls.number_mask(0.5, -1.0, math.nan, 0.0),
    ),
    _vector(
        84, "scores below -1e9 lose to a hidden key", agreement=MAY, dtypes=WIDE, width=1,
        quirks=("Q1-real-score-below-fill",), odd=odd_calls.below_the_fill(15),
    ),
    _vector(
        85, "a mask of batch 3 over a batch of 1 enlarges the output", agreement=MAY, dtypes=WIDE,
        quirks=("Q1-mask-adds-axes",), odd=Odd(odd_calls.mask_of_more_samples, odd_calls.repeated_samples),
    ),
    _vector(
        86, "NaN in a hidden value reaches the output", agreement=MAY, dtypes=WIDE, mask=_HIDDEN,
        quirks=("Q1-nan-in-masked-value",), odd=odd_calls.poisoned("value"),
    ),
    _vector(
        87, "NaN in a hidden key makes the gradient of the query NaN", agreement=MAY, dtypes=WIDE, mask=_HIDDEN,
        quirks=("Q1-nan-in-masked-key-gradient",), odd=odd_calls.poisoned("key"),
    ),
)  # fmt: skip

VECTORS: tuple[Recipe, ...] = (*PLAIN, *SHAPES, *FORMS, *EMPTY, *QUIRKS)
