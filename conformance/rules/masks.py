"""Masks: whichever way it is written, exactly the allowed keys take part."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases.case import EMPTY_ROW, MASKED, PADDED, PER_HEAD, Case, Mask, vary
from ..cases.inputs import Inputs
from ..conventions.table import ALL_KINDS
from ..oracle.comparing import require_finite
from ..rulebook import rule
from ..trials.subject import Result
from ..trials.trial import Trial

_ATTENDING = {"empty_row": ("uniform", "zeros", "nan", "unspecified")}


@rule(
    "MASK-003",
    source="Document 1, section 2: masked scores are filled before the softmax",
    cases=(
        MASKED,
        PER_HEAD,
        Case("sharp scores, masked", values="sharp", mask=Mask("random", "LS")),
        Case("all scores negative, masked", values="scores -20", width=16, mask=Mask("random", "LS")),
        Case("one key left per row", mask=Mask("single", "LS")),
        Case("one query, masked", queries=1, mask=Mask("random", "LS")),
        Case("asymmetric, L = S", queries=6, keys=6, mask=Mask("random", "LS")),
        Case("large scores, masked", values="huge scores", mask=Mask("random", "BHLS")),
        Case("padding past a block", batch=3, heads=2, queries=4, keys=70, mask=Mask("padding", "B11S")),
        Case("first blocks hidden", batch=1, heads=2, queries=3, keys=40, mask=Mask("last three", "LS")),
        Case("whole blocks hidden", batch=1, heads=1, queries=6, keys=150, mask=Mask("islands", "LS")),
        Case("documents end to end", batch=1, heads=2, queries=20, keys=20, mask=Mask("documents", "LS")),
        Case("first large blocks hidden", batch=1, heads=1, queries=2, keys=270, mask=Mask("last three", "B11S")),
    ),
)
def only_allowed_keys_take_part(trial: Trial) -> None:
    """Exactly the keys that the mask allows take part, and their weights sum to one."""
    trial.agrees(trial.run())


@rule(
    "MASK-004",
    source="Document 1: the mask broadcasts to (..., L, S)",
    cases=tuple(
        Case(f"mask {axes}", mask=Mask("random", axes))
        for axes in ("LS", "11LS", "111S", "B11S", "B1LS", "1HLS", "BH1S", "BHLS")
    )
    + (
        Case("mask HLS of a kernel", mask=Mask("random", "HLS")),
        Case("mask HLS of a kernel, B = H", batch=4, mask=Mask("random", "HLS")),
        Case("mask B1LS, B = H", batch=4, mask=Mask("random", "B1LS")),
        Case("mask 1HLS, B = H", batch=4, mask=Mask("random", "1HLS")),
        Case("mask B11S, B = H = L", batch=4, queries=4, mask=Mask("random", "B11S")),
        Case("mask BHLS, B = H = L = S", batch=4, queries=4, keys=4, mask=Mask("random", "BHLS")),
        Case("mask B11S, L = S", queries=6, keys=6, mask=Mask("random", "B11S")),
        Case("mask LS, B = L", batch=5, mask=Mask("random", "LS")),
        Case("mask LS, H = L", queries=4, mask=Mask("random", "LS")),
        Case("mask BH1S, H = L = S", queries=4, keys=4, mask=Mask("random", "BH1S")),
        Case("mask 1HLS, B = L = S", batch=5, queries=5, keys=5, mask=Mask("random", "1HLS")),
        Case("mask BHLS, five axes", leading="GBH", mask=Mask("random", "BHLS")),
        Case("mask GBHLS, five axes", leading="GBH", mask=Mask("random", "GBHLS")),
        Case("mask G11LS, five axes", leading="GBH", mask=Mask("random", "G11LS")),
    ),
)
def masks_broadcast_over_batch_heads_and_queries(trial: Trial) -> None:
    """A mask of each shape that broadcasts to (..., L, S) acts on its own batch element, head and row."""
    trial.agrees(trial.run())


@rule(
    "MASK-005",
    source="Document 1 compares with zero (mask == 0), so any nonzero number attends",
    cases=(
        Case("integers 1 and 0", mask=Mask("random", "LS", ("number",))),
        Case("integers 2, -1 and 0", mask=Mask("random", "LS", ("number",), numbers="odd")),
        Case("floats 1 and 0", mask=Mask("random", "B1LS", ("number",), numbers="float")),
        Case("fractions and 0", mask=Mask("random", "LS", ("number",), numbers="fractions")),
        Case("bytes 1 and 0", mask=Mask("random", "LS", ("number",), numbers="bytes")),
        Case("int8 per batch element", mask=Mask("random", "B11S", ("number",), numbers="int8")),
        Case("int32 per head", mask=Mask("random", "1HLS", ("number",), numbers="int32")),
        Case("fp32 1 and 0", mask=Mask("random", "LS", ("number",), numbers="fp32")),
        Case("fp64 1 and 0", mask=Mask("random", "B1LS", ("number",), numbers="fp64")),
        Case("integers per head", mask=Mask("random", "BHLS", ("number",), numbers="odd")),
    ),
    needs={"mask": "number"},
)
def numbers_count_as_true_unless_zero(trial: Trial) -> None:
    """A mask of numbers, integer or float, counts as true wherever it is not zero."""
    trial.agrees(trial.run())


@rule(
    "MASK-006",
    source="Known kind of fault: mask meaning; a finite bias is the only input that tells a scaled or thresholded one apart",
    cases=(
        Case("0 and -inf", mask=Mask("random", "LS", ("additive",))),
        Case("0 and -inf per head", mask=Mask("random", "BHLS", ("additive",))),
        Case("finite values and -inf", mask=Mask("random", "LS", ("additive",), finite=True)),
        Case("finite values only", mask=Mask("all", "BHLS", ("additive",), finite=True)),
    ),
    needs={"mask": "additive"},
)
def additive_masks_are_added_to_the_scaled_scores(trial: Trial) -> None:
    """An additive mask is added to the scaled scores: finite values shift them, -inf hides."""
    trial.agrees(trial.run())


@rule(
    "MASK-007",
    source="Packed and padded kernels count the keys of each batch element",
    cases=(
        Case("lengths", batch=3, mask=Mask("padding", "B11S", ("lengths",))),
        Case("lengths past a block", batch=3, heads=2, queries=4, keys=37, mask=Mask("padding", "B11S", ("lengths",))),
        Case("full lengths", batch=3, mask=Mask("all", "B11S", ("lengths",))),
        Case("lengths of 1", batch=3, mask=Mask("first key only", "B11S", ("lengths",))),
        Case("lengths, L = S", batch=3, queries=7, mask=Mask("padding", "B11S", ("lengths",))),
    ),
    needs={"mask": "lengths"},
)
def lengths_hide_the_keys_behind_them(trial: Trial) -> None:
    """Lengths hide every key at or behind the length of its batch element."""
    trial.agrees(trial.run())


def _poisoned(trial: Trial, size: float) -> Inputs:
    """Overwrite the keys and values that no row may see, each with another finite number."""
    inputs = trial.inputs
    allowed = inputs.allowed
    if allowed is None:
        return inputs
    hidden = _hidden(trial, inputs)
    step = torch.arange(inputs.key.shape[-1], dtype=torch.float64) % 3 - 1
    key = torch.where(hidden, (size * step).to(inputs.key.dtype), inputs.key)
    value = torch.where(hidden, torch.tensor(-size, dtype=inputs.value.dtype), inputs.value)
    return trial.joined(inputs.changed(key=key, value=value))


def _hidden(trial: Trial, inputs: Inputs) -> Tensor:
    """Return which keys no row may see, in the shape of the keys with a last axis of 1."""
    allowed = torch.ones(1, 1, 1, 1, dtype=torch.bool) if inputs.allowed is None else inputs.allowed
    hidden = ~allowed.any(-2)
    if trial.is_module:
        return hidden.all(1)[..., None].expand(inputs.key.shape[0], inputs.key.shape[1], 1)
    return hidden.expand(inputs.key.shape[:-1])[..., None]


def _comparable_rows(trial: Trial, inputs: Inputs) -> Tensor:
    """Return which rows of the output have a key, and were not changed as queries, with a last axis of 1."""
    rows = ~trial.expectation().empty_rows
    return rows & ~_hidden(trial, inputs) if trial.capabilities.inputs == "self" else rows


@rule(
    "MASK-008",
    source="What is hidden is multiplied by a weight of exactly zero",
    cases=(
        Case("padding hides keys from all", mask=Mask("padding", "B11S", (*ALL_KINDS, "lengths"))),
        Case("last keys hidden from all", mask=Mask("tail hidden", "LS", ALL_KINDS)),
        Case("first keys hidden", mask=Mask("left padding", "B11S", ALL_KINDS)),
    ),
)
def hidden_keys_have_no_influence(trial: Trial) -> None:
    """What a hidden key and its value contain changes no bit of the result.

    A fill that is not low enough, a mask after the softmax or a renormalisation over all keys lets them through.
    """
    plain = trial.run()
    poisoned_inputs = _poisoned(trial, 100.0)
    poisoned = trial.run(poisoned_inputs)
    rows = _comparable_rows(trial, trial.inputs)
    trial.unchanged(
        "output after changing hidden keys and values",
        torch.where(rows, poisoned.output, 0),
        torch.where(rows, plain.output, 0),
        trial.expectation().output.allowed,
        poisoned_inputs,
    )
    trial.agrees(poisoned, poisoned_inputs)


@rule(
    "MASK-009",
    source="Reports of an all-true mask shortened to None and then taken as causal",
    cases=(
        Case("all true", mask=Mask("all", "LS")),
        Case("all true, L = S", queries=6, keys=6, mask=Mask("all", "B1LS")),
    ),
)
def mask_that_allows_everything_equals_no_mask(trial: Trial) -> None:
    """A mask that allows every key gives what no mask gives."""
    trial.agrees(trial.run())


@rule(
    "MASK-010",
    source="Masks are made by slicing, expanding and transposing (a known kind of fault: strided input)",
    cases=tuple(
        Case(f"{memory} mask", queries=6, keys=6, mask=Mask("random", "B1LS", ALL_KINDS, memory=memory))
        for memory in ("transposed", "sliced", "offset")
    )
    + tuple(
        Case(f"{memory} mask of {form}s", queries=6, keys=6, mask=Mask("random", "BHLS", (form,), memory=memory))
        for memory in ("transposed", "sliced", "offset")
        for form in ("number", "additive")
    )
    + (
        Case("expanded mask", mask=Mask("random", "B11S", ALL_KINDS, memory="expanded")),
        Case("expanded mask per row", batch=3, mask=Mask("random", "11LS", ALL_KINDS, memory="expanded")),
        Case("expanded mask of numbers", mask=Mask("random", "B1LS", ("number",), numbers="odd", memory="expanded")),
        Case("expanded additive mask", mask=Mask("random", "BH1S", ("additive",), memory="expanded")),
    ),
)
def masks_are_read_by_their_strides(trial: Trial) -> None:
    """A mask that is transposed, sliced or offset in memory acts like a contiguous one."""
    trial.agrees(trial.run())


@rule(
    "MASK-011",
    source="Empty rows were the most frequent fault kind in public reports",
    cases=(
        EMPTY_ROW,
        Case("empty batch element", mask=Mask("empty row", "B11S", (*ALL_KINDS,))),
        Case("empty row per head", mask=Mask("empty row", "BHLS")),
        Case("every row empty", mask=Mask("empty everywhere", "LS")),
        Case("every key or none", batch=3, mask=Mask("empty or all", "B11S", (*ALL_KINDS, "lengths"))),
        Case("padding, the last element empty", batch=3, mask=Mask("empty padding", "B11S", (*ALL_KINDS, "lengths"))),
        Case("a length of 0", batch=3, mask=Mask("empty padding", "B11S", ("lengths",))),
    ),
    needs=_ATTENDING,
)
def empty_rows_leave_the_others_alone(trial: Trial) -> None:
    """A row that may attend to nothing changes no other row, and itself returns the declared answer."""
    trial.agrees(trial.run())


@rule(
    "MASK-012",
    source="Reports of key-padding masks put on the query axis, and of 0/1 lengths off by one",
    cases=(PADDED, vary(PADDED, "key padding, L = S", queries=7), vary(PADDED, "key padding, three elements", batch=3)),
)
def padding_hides_keys_not_queries(trial: Trial) -> None:
    """A padding mask hides keys of its own batch element from every query, padded or not."""
    result: Result = trial.run()
    require_finite(what="output", actual=result.output, inputs=trial.inputs)
    trial.agrees(result)


@rule(
    "MASK-013",
    source="Document 1: the mask broadcasts to (..., L, S)",
    cases=(Case("mask S", mask=Mask("random", "S")),),
    thorough=True,
)
def masks_of_one_axis_broadcast(trial: Trial) -> None:
    """A mask of one axis (S) acts on every row."""
    trial.agrees(trial.run())


@rule(
    "MASK-014",
    source="A fill of -1e4 is not low enough for scores below it; document 1 fills with -1e9",
    dtypes="wide",
    cases=(
        Case("scores -32768, masked", values="scores -32768", width=16, mask=Mask("random", "LS")),
        Case("scores -32768, padded", values="scores -32768", width=16, mask=Mask("padding", "B11S")),
    ),
)
def very_low_scores_still_win_against_hidden_ones(trial: Trial) -> None:
    """An allowed key with a score of -32768 still takes part, and a hidden one does not."""
    trial.agrees(trial.run())


def _loud(size: str, *forms: str) -> tuple[Case, ...]:
    cases = [
        Case(f"{size}, hidden by a mask of {form}s", values=size, width=16, mask=Mask("tail hidden", "LS", (form,)))
        for form in forms
    ]
    padded = Mask("tail hidden", "B11S", ("lengths", *ALL_KINDS))
    return (*cases, Case(f"{size}, padded", values=size, width=16, mask=padded))


@rule(
    "MASK-015",
    source="A maximum, a fill or a sum taken over the hidden keys as well (a known kind of fault: mask fill value or place)",
    cases=_loud("loud tail", *ALL_KINDS),
)
def hidden_keys_may_hold_the_largest_score(trial: Trial) -> None:
    """A hidden key whose score is thousands above every allowed one changes nothing, whichever way the mask is written."""
    result = trial.run()
    require_finite(what="output", actual=result.output, inputs=trial.inputs)
    trial.agrees(result)


@rule(
    "MASK-016",
    source="A fill of -1e4 that is added leaves a score of 32768 above the allowed ones",
    cases=_loud("louder tail", *ALL_KINDS),
    dtypes="wide",
)
def hidden_keys_are_hidden_at_any_score(trial: Trial) -> None:
    """A hidden key with a score of 32768 stays hidden."""
    result = trial.run()
    require_finite(what="output", actual=result.output, inputs=trial.inputs)
    trial.agrees(result)
