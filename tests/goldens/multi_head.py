"""The vectors of document 1's module `MultiHeadAttention`. An id is permanent: a vector that goes leaves it retired."""

from __future__ import annotations

from tests.goldens import odd_calls
from tests.goldens.recipe import EVERY_FORM, MAY, WIDE, Masking, Odd, Recipe

_NO_BIAS = dict.fromkeys(("query", "key", "value", "output"), 0.0)


def _vector(number: int, title: str, **fields: object) -> Recipe:
    return Recipe(f"MHA-{number:03}", title, "MultiHeadAttention", **fields)  # type: ignore[arg-type]


PLAIN = (
    _vector(1, "plain, every size another", batch=2, quirks=("Q1-no-dropout",)),
    _vector(2, "the bias of the key changes nothing", biases={"key": 1.0}, quirks=("Q1-key-bias-without-effect",)),
    _vector(3, "L = S", queries=3),
    _vector(4, "one head", heads=1, width=3),
    _vector(5, "more heads than features", heads=4, width=1),
    _vector(6, "one query", width=1, queries=1),
    _vector(7, "one key", width=1, keys=1),
    _vector(8, "no keys", keys=0, quirks=("Q1-no-keys-zeros",)),
    _vector(9, "sharp", width=1, query=2.0, key=4.0, keys=4),
    _vector(10, "flat", width=1, query=2.0**-5, key=2.0**-5, biases={"query": 2.0**-5, "key": 2.0**-5}, keys=4),
    _vector(11, "one tensor for all three", queries=3, same=True),
    _vector(12, "biases of 0", biases=_NO_BIAS),
    _vector(13, "biases of 0, masked", biases=_NO_BIAS, mask=Masking()),
    _vector(
        14,
        "biases of 0, one tensor for all three, masked",
        width=1,
        biases=_NO_BIAS,
        mask=Masking(),
        queries=3,
        same=True,
    ),
)

_TWO = {"batch": 2, "heads": 2, "queries": 2, "keys": 3, "width": 1}
MASKS = (
    _vector(30, "mask of shape (L, S)", mask=Masking(axes="LS"), **_TWO),
    _vector(31, "mask of shape (B, 1, 1, S)", mask=Masking(axes="B11S"), **_TWO),
    _vector(32, "mask of shape (B, 1, L, S)", mask=Masking(axes="B1LS"), **_TWO),
    _vector(33, "mask of shape (1, H, L, S)", mask=Masking(axes="1HLS"), **_TWO),
    _vector(34, "mask of shape (B, H, L, S)", mask=Masking(axes="BHLS"), **_TWO),
    _vector(35, "number mask of 2, -1, 256 and 0", width=1, mask=Masking(forms=("number",), numbers="odd")),
    _vector(36, "additive mask of 0 and -inf", width=1, mask=Masking(forms=("additive", "bool", "number"))),
    _vector(37, "lengths", mask=Masking("padding", "B11S", ("lengths", *EVERY_FORM)), **_TWO),
    _vector(
        38, "causal triangle as a mask, one tensor for all three", width=1, mask=Masking("causal"), queries=3, same=True
    ),
    _vector(39, "one row has nothing to attend to", width=1, mask=Masking("empty row")),
)

_HIDDEN = Masking("last hidden", "S")
QUIRKS = (
    _vector(
        50, "2 heads of 5 features: 4 positions become 5", agreement=MAY, leftover=1, queries=4, keys=4,
        quirks=("Q1-indivisible-width",), odd=odd_calls.heads_of_leftover_features(2, 2, 1, 4),
    ),
    _vector(
        51, "no batch axis: each position attends to itself", agreement=MAY, batch=3, queries=1, keys=1,
        quirks=("Q1-unbatched-input",),
        odd=odd_calls.reshaped(dict.fromkeys(("query", "key", "value"), (3, 4)), dict.fromkeys(("query", "key", "value"), (3, 1, 4))),
    ),
    _vector(
        52, "an axis more is folded into the length", agreement=MAY, queries=4, keys=4,
        quirks=("Q1-extra-axes-folded",),
        odd=odd_calls.reshaped(dict.fromkeys(("query", "key", "value"), (1, 2, 2, 4)), dict.fromkeys(("query", "key", "value"), (1, 4, 4))),
    ),
    _vector(
        53, "keys of twice the batch become twice as long", agreement=MAY, batch=1, keys=4,
        quirks=("Q1-key-batch-folded",),
        odd=odd_calls.reshaped({"key": (2, 2, 4), "value": (2, 2, 4)}, {"key": (1, 4, 4), "value": (1, 4, 4)}),
    ),
    _vector(
        54, "one batch of keys under two queries is cut in halves", agreement=MAY, batch=2, keys=2,
        quirks=("Q1-single-key-batch-cut",),
        odd=odd_calls.reshaped({"key": (1, 4, 4), "value": (1, 4, 4)}, {"key": (2, 2, 4), "value": (2, 2, 4)}),
    ),
    _vector(
        55, "a mask (B, L, S) is read as one per head where B = H", agreement=MAY, dtypes=WIDE, batch=2, width=1,
        quirks=("Q1-mask-without-head-axis",),
        odd=odd_calls.mask_read_as([[[1, 1, 0], [0, 1, 1]], [[1, 0, 0], [1, 1, 0]]], (1, 2, 2, 3)),
    ),
    _vector(
        56, "a mask (B, S) is read as (L, S) where B = L", agreement=MAY, dtypes=WIDE, batch=2, width=1,
        quirks=("Q1-padding-mask-without-axes",), odd=odd_calls.mask_read_as([[1, 1, 0], [1, 0, 0]], (1, 1, 2, 3)),
    ),
    _vector(
        57, "a mask of 3 rows over one query gives 3 positions", agreement=MAY, dtypes=WIDE, queries=1,
        quirks=("Q1-mask-multiplies-query",), odd=Odd(odd_calls.mask_of_more_rows, odd_calls.repeated_rows),
    ),
)  # fmt: skip

VECTORS: tuple[Recipe, ...] = (*PLAIN, *MASKS, *QUIRKS)
