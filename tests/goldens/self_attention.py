"""The vectors of document 2's module `SelfAttention`. An id is permanent: a vector that goes leaves it retired."""

from __future__ import annotations

import math

from tests.goldens import odd_calls
from tests.goldens.recipe import EVERY_FORM, MAY, WIDE, Masking, Odd, Recipe


def _vector(number: int, title: str, **fields: object) -> Recipe:
    return Recipe(f"SELF-{number:03}", title, "SelfAttention", **fields)  # type: ignore[arg-type]


PLAIN = (
    _vector(
        1, "plain; the projections serve every head, and no weights come back", batch=2,
        quirks=("Q2-no-dropout", "Q2-projections-shared-by-heads", "Q2-no-weights"),
    ),
    _vector(2, "values, keys and query each another", queries=3, quirks=("Q2-argument-order",)),
    _vector(3, "a query of another length than the keys", queries=1, keys=4, quirks=("Q2-self-by-name",)),
    _vector(
        4, "all inputs 0 give the bias of the output layer", query=0.0, key=0.0, value=0.0,
        quirks=("Q2-projections-without-bias",),
    ),
    _vector(5, "4 heads: scores over sqrt(embed_size), not sqrt(D)", heads=4, width=1, query=2.0, key=2.0,
            quirks=("Q2-scale-from-embed-size",)),
    _vector(6, "identity projections: a head sees its own slice alone", identity=True,
            quirks=("Q2-head-sees-own-slice",)),
    _vector(7, "one head", heads=1, width=3),
    _vector(8, "L = S", queries=3),
    _vector(9, "one key", keys=1),
    _vector(10, "no keys give the bias of the output layer", keys=0, quirks=("Q2-no-keys-bias",)),
    _vector(11, "sharp", query=4.0, key=8.0, keys=4),
    _vector(12, "flat", query=2.0**-5, key=2.0**-5, keys=4),
    _vector(13, "one tensor for all three", queries=3, same=True),
    _vector(14, "one key and one query", queries=1, keys=1),
)  # fmt: skip

_TWO = {"batch": 2, "heads": 2, "queries": 2, "keys": 3, "width": 1}
MASKS = (
    _vector(30, "mask of shape (L, S)", mask=Masking(axes="LS"), **_TWO),
    _vector(31, "mask of shape (B, 1, 1, S)", mask=Masking(axes="B11S"), **_TWO),
    _vector(32, "mask of shape (B, 1, L, S)", mask=Masking(axes="B1LS"), **_TWO),
    _vector(33, "mask of shape (1, H, L, S)", mask=Masking(axes="1HLS"), **_TWO),
    _vector(34, "mask of shape (B, H, L, S)", mask=Masking(axes="BHLS"), **_TWO),
    _vector(35, "number mask of 0.25, -2, 1.5 and 0", mask=Masking(forms=("number",), numbers="fractions")),
    _vector(36, "additive mask of 0 and -inf", mask=Masking(forms=("additive", "bool", "number"))),
    _vector(37, "lengths", mask=Masking("padding", "B11S", ("lengths", *EVERY_FORM)), **_TWO),
    _vector(38, "causal triangle as a mask, one tensor for all three", mask=Masking("causal"), queries=3, same=True),
    _vector(39, "one row has nothing to attend to", mask=Masking("empty row"), quirks=("Q2-empty-row-uniform",)),
)

_HIDDEN = Masking("last hidden", "S")
QUIRKS = (
    _vector(
        50, "keys of twice the batch and half the width are taken for full ones", agreement=MAY, batch=1,
        quirks=("Q2-batch-and-width-trade",), odd=odd_calls.reshaped({"key": (2, 3, 2)}, {"key": (1, 3, 4)}),
    ),
    _vector(
        51, "additive mask given as a number mask: the hidden keys alone attend", agreement=MAY, dtypes=WIDE,
        quirks=("Q2-additive-mask-inverted",), odd=odd_calls.number_mask(0.0, -math.inf, -math.inf),
    ),
    _vector(
        52, "a half, a negative number and NaN attend", agreement=MAY, dtypes=WIDE, keys=4,
        quirks=("Q2-any-nonzero-attends",), odd=odd_calls.number_mask(0.5, -1.0, math.nan, 0.0),
    ),
    _vector(
        53, "scores below -1e20 lose to a hidden key", agreement=MAY, dtypes=WIDE, heads=1, identity=True,
        quirks=("Q2-fill-before-scaling",), odd=odd_calls.below_the_fill(34),
    ),
    _vector(
        54, "a mask (B, L, S) is read as one per head where B = H", agreement=MAY, dtypes=WIDE, batch=2, width=1,
        quirks=("Q2-mask-without-head-axis",),
        odd=odd_calls.mask_read_as([[[1, 1, 0], [0, 1, 1]], [[1, 0, 0], [1, 1, 0]]], (1, 2, 2, 3)),
    ),
    _vector(
        55, "a mask (B, S) is read as (L, S) where B = L", agreement=MAY, dtypes=WIDE, batch=2, width=1,
        quirks=("Q2-padding-mask-without-axes",), odd=odd_calls.mask_read_as([[1, 1, 0], [1, 0, 0]], (1, 1, 2, 3)),
    ),
    _vector(
        56, "fp16: products above 65504 make the output NaN", agreement=MAY, dtypes=("fp16",), heads=1, width=16,
        identity=True, queries=1, keys=2, quirks=("Q2-fp16-score-overflow",),
        odd=Odd(odd_calls.overflowing, listing_nan=True),
    ),
    _vector(
        57, "one key with five values gives their sum", agreement=MAY, identity=True, keys=1, queries=2,
        quirks=("Q2-lengths-of-one-broadcast",), odd=odd_calls.values_of_one_key(5),
    ),
    _vector(
        58, "NaN in a hidden value reaches the output", agreement=MAY, dtypes=WIDE, mask=_HIDDEN,
        quirks=("Q2-nan-in-masked-value",), odd=odd_calls.poisoned("value"),
    ),
    _vector(
        59, "NaN in a hidden key makes the gradient of the query NaN", agreement=MAY, dtypes=WIDE, mask=_HIDDEN,
        quirks=("Q2-nan-in-masked-key-gradient",), odd=odd_calls.poisoned("key"),
    ),
)  # fmt: skip

VECTORS: tuple[Recipe, ...] = (*PLAIN, *MASKS, *QUIRKS)
