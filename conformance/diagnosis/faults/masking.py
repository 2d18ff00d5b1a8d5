"""Faults of mask, causal triangle and window."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..stages import Call, Stages, hide, is_additive, trimmed, written_mask
from ..stages import allowed as all_allowed
from .fault import Fault, each, of, one, where
from .storage import read_as_dense


def has_mask(call: Call) -> bool:
    return call.inputs.allowed is not None


def _hides(call: Call) -> bool:
    return call("allowed") is not None


def _of(change: Callable[[Call, Tensor], Tensor | None]) -> Stages:
    """The mask (b, h, l, s) is changed before it is used."""

    def stage(call: Call) -> Tensor | None:
        own = call.inputs.allowed
        return None if own is None else trimmed(call, change(call, own))

    return {"mask": stage}


def _kept(axis: int, index: int) -> Stages:
    return _of(lambda call, own: own.select(axis, index).unsqueeze(axis))


def _rolled(axis: int, step: int) -> Stages:
    return _of(lambda call, own: own.roll(step, axis))


def _united(axis: int) -> Stages:
    return _of(lambda call, own: own.any(axis, keepdim=True))


def _full(call: Call, own: Tensor) -> Tensor:
    return own.expand(call.case.batch, call.case.heads, call.queries, call.keys)


def _tiled(call: Call, own: Tensor) -> Tensor:
    """Batch and head are flattened in one order and read in the other."""
    whole = own.expand(call.case.batch, own.shape[1], call.queries, call.keys)
    return whole[:, 0].repeat(call.case.heads, 1, 1).reshape(call.case.batch, call.case.heads, call.queries, call.keys)


def _head_first(call: Call, own: Tensor) -> Tensor:
    whole = _full(call, own)
    return whole.transpose(0, 1).reshape(whole.shape)


def _sample_for_head(call: Call, own: Tensor) -> Tensor:
    return own.transpose(0, 1)


def _on_query_axis(call: Call, own: Tensor) -> Tensor:
    return (
        own.expand(own.shape[0], own.shape[1], call.queries, call.keys).transpose(-2, -1)
        if own.shape[-2] > 1
        else own.transpose(-2, -1)
    )


def _reshaped(call: Call, own: Tensor) -> Tensor:
    return own.transpose(-2, -1).reshape(own.shape)


def _from_left(call: Call, own: Tensor) -> Tensor:
    return torch.arange(call.keys) < own.sum(-1, keepdim=True)


def _length(step: int) -> Stages:
    return _of(lambda call, own: torch.arange(call.keys) < own.sum(-1, keepdim=True) + step)


def _first_keys(count: int) -> Stages:
    return _of(lambda call, own: own | (torch.arange(call.keys) >= count))


def _wrapped_rows(size: int) -> Stages:
    return _of(lambda call, own: own[..., torch.arange(own.shape[-2]) % size, :])


def _tail_visible(size: int) -> Stages:
    return _of(lambda call, own: own | (torch.arange(call.keys) >= call.keys // size * size))


def _leaks(step: int) -> Stages:
    return _of(lambda call, own: own | own.roll(step, -1))


def _block_rows(size: int) -> Stages:
    """A block of keys is skipped for all queries of a block when its first query sees none of it."""

    def change(call: Call, own: Tensor) -> Tensor:
        result = own.expand(*own.shape[:-2], call.queries, call.keys).clone()
        for top in range(0, call.queries, size):
            for left in range(0, call.keys, size):
                seen = result[..., top : top + 1, left : left + size].any(-1, keepdim=True)
                result[..., top : top + size, left : left + size] &= seen
        return result

    return _of(change)


def _dense_mask(call: Call, *, offset: bool) -> Tensor | None:
    """The mask as it stands in its storage, without regard to strides (or to the offset)."""
    sent = call.delivered.mask
    if sent is None or sent.is_contiguous() or sent.dtype not in (torch.bool, torch.int64):
        return None
    return trimmed(call, read_as_dense(sent, offset=offset) != 0)


def _as_numbers(count: Callable[[Tensor], Tensor]) -> Stages:
    def stage(call: Call) -> Tensor | None:
        numbers = written_mask(call)
        return None if numbers is None else count(numbers)

    return {"mask": stage}


def _fill(number: float | str) -> Stages:
    """Hidden scores become a number, or the lowest score of their row, or go down by a number."""

    def stage(call: Call, scores: Tensor, allowed: Tensor | None) -> Tensor:
        if allowed is None:
            return scores
        if number == "lowest of the row":
            return torch.where(allowed, scores, scores.amin(-1, keepdim=True))
        return scores.masked_fill(~allowed, float(number))

    return {"hide": stage}


def _lowered(number: float) -> Stages:
    return {
        "hide": lambda call, scores, allowed: (
            scores if allowed is None else torch.where(allowed, scores, scores - number)
        )
    }


def _added_numbers(call: Call, scores: Tensor) -> Tensor:
    numbers = written_mask(call)
    return scores if numbers is None else scores + numbers


def nothing(call: Call) -> None:
    return None


def _after(call: Call, weights: Tensor) -> Tensor:
    hidden = all_allowed(call)
    return weights if hidden is None else weights * hidden


def _after_renormalised(epsilon: float) -> Stages:
    def stage(call: Call, weights: Tensor) -> Tensor:
        kept = _after(call, weights)
        return kept / (kept.sum(-1, keepdim=True) + epsilon)

    return {"hide": lambda call, scores, allowed: scores, "weigh": stage}


def _rows_zeroed(call: Call, output: Tensor) -> Tensor:
    hidden: Tensor | None = call("allowed")
    if hidden is None:
        return output
    column = hidden.transpose(-2, -1)[..., :1] if hidden.shape[-2] == 1 else hidden.any(-1, keepdim=True)
    return output * column


def _temperature(call: Call, scores: Tensor, allowed: Tensor | None) -> Tensor:
    if allowed is None:
        return scores
    whole = allowed.expand(scores.shape)
    return hide(call, scores * (1 + (~whole).double().mean(-1, keepdim=True)), allowed)


def _nan_blocks(size: int) -> Stages:
    """Rows whose first block is hidden are NaN although later keys are not hidden."""

    def stage(call: Call, output: Tensor) -> Tensor:
        hidden = call("allowed")
        if hidden is None:
            return output
        whole = hidden.expand(*hidden.shape[:-2], call.queries, call.keys)
        lost = ~whole[..., :size].any(-1, keepdim=True)
        return torch.where(lost, math.nan, output)

    return {"spread": stage}


FILL = where(
    _hides,
    Fault(
        "masked_score_zero", "Hidden scores become zero (the scores are multiplied by the mask), and a hidden key still weighs.",
        "Fill hidden scores with -inf.", lambda call: (_fill(0.0), _fill(1e-9)),
    ),
    Fault(
        "masked_score_too_high", "The fill of hidden scores is not low enough.", "Fill hidden scores with -inf.",
        lambda call: (
            *(_fill(n) for n in (1e9, 1e4, 1.0, -1.0, -10.0, -20.0, -30.0, -50.0, -100.0, -1e3, -1e4, -32768.0, -65504.0, "lowest of the row")),
            *(_lowered(n) for n in (10.0, 100.0, 1e3, 1e4, 32768.0)),
        ),
    ),
    Fault(
        "mask_after_softmax", "The mask is applied after the softmax, and the rest is not renormalised.",
        "Mask the scores before the softmax.", one(hide=lambda call, scores, allowed: scores, weigh=_after),
    ),
    Fault(
        "mask_after_softmax_renormalised_loosely", "The mask is applied after the softmax and what remains is divided by its sum plus a small number.",
        "Mask the scores before the softmax.", each(_after_renormalised, 0.0, 1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-9),
    ),
)  # fmt: skip

MASK = where(
    has_mask,
    Fault("mask_ignored", "The mask is ignored.", "Hide the keys that it does not allow.", one(mask=nothing)),
    Fault(
        "bool_mask_inverted", "The mask is read the wrong way round: what is to attend is hidden.",
        "Attend where it is true (or declare mask_means='hide').", lambda call: (_of(lambda c, own: ~own),),
    ),
    Fault(
        "bool_mask_added_as_0_1", "The mask is added to the scores as numbers.", "Fill the scores where it is zero.",
        one(bias=_added_numbers, mask=nothing),
    ),
    Fault(
        "mask_read_as_contiguous", "The strides of the mask are ignored: it is read as if it were contiguous.",
        "Use its strides, or call contiguous().",
        of({"mask": lambda call: _dense_mask(call, offset=True)}, {"mask": lambda call: _dense_mask(call, offset=False)}),
        lambda call: call.case.mask is not None and call.case.mask.memory != "contiguous",
    ),
    Fault(
        "mask_transposed", "The mask is used transposed: queries and keys are exchanged.", "Index it by query, then key.",
        lambda call: (_of(lambda c, own: own.transpose(-2, -1)), _of(_reshaped)),
    ),
    Fault(
        "padding_mask_on_query_axis", "A padding mask hides queries in place of keys.", "Put it on the key axis: (B, 1, 1, S).",
        lambda call: (_of(_on_query_axis),),
    ),
    Fault(
        "query_rows_zeroed_by_key_mask", "Output rows are zeroed by the mask.", "Hide keys; leave the rows of queries alone.",
        lambda call: ({"spread": _rows_zeroed},),
    ),
    Fault(
        "mask_tiled_over_heads", "The mask is expanded over batch and heads in the wrong order.",
        "Use (B, 1, L, S), or repeat_interleave by heads.", lambda call: (_of(_tiled), _of(_head_first)),
    ),
    Fault(
        "first_head_mask_for_all", "The mask of one head serves all heads.", "Index the mask by head.",
        lambda call: (_kept(1, 0), _kept(1, -1)),
    ),
    Fault(
        "first_sample_mask_for_all", "The mask of one batch element serves all.", "Index the mask by batch element.",
        lambda call: (_kept(0, 0), _kept(0, -1)),
    ),
    Fault(
        "first_row_mask_for_all", "The mask of one query serves all queries.", "Index the mask by query.",
        lambda call: (_kept(2, 0), _kept(2, -1)),
    ),
    Fault(
        "mask_of_the_next_head", "A head gets the mask of another head.", "Index the mask by head.",
        lambda call: (_rolled(1, 1), _rolled(1, -1), _of(lambda c, own: own.flip(1))),
    ),
    Fault(
        "mask_of_the_next_sample", "A batch element gets the mask of another one.", "Index the mask by batch element.",
        lambda call: (_rolled(0, 1), _rolled(0, -1), _of(lambda c, own: own.flip(0))),
    ),
    Fault(
        "sample_mask_used_for_heads", "A mask per batch element is used per head, or the other way round.",
        "Keep the axes (B, H, L, S).", lambda call: (_of(_sample_for_head),),
    ),
    Fault(
        "mask_shifted_by_one_key", "The mask is shifted along the keys or queries.", "Align it with the first key.",
        lambda call: (_rolled(-1, 1), _rolled(-1, -1), _rolled(-2, 1), _rolled(-2, -1)),
    ),
    Fault(
        "mask_flipped", "The mask is read from the other end.", "Keep the order of the keys.",
        lambda call: (_of(lambda c, own: own.flip(-1)), _of(lambda c, own: own.flip(-2))),
    ),
    Fault(
        "mask_heads_united", "What any head (batch element, query) may attend, all attend.", "Keep the mask's axes apart.",
        lambda call: (_united(1), _united(0), _united(2), _of(lambda c, own: own.all(1, keepdim=True)), _of(lambda c, own: own.all(0, keepdim=True)), _of(lambda c, own: own.all(2, keepdim=True))),
    ),
    Fault(
        "padding_read_as_lengths", "Only the number of visible keys counts, from the left.", "Use the mask itself.",
        lambda call: (_of(_from_left),),
    ),
    Fault(
        "length_off_by_one", "Keys behind the length are attended, or the last one before it is hidden.", "Attend keys j < length.",
        each(_length, 1, -1),
    ),
    Fault(
        "hidden_neighbour_leaks", "The key beside a visible one is attended as well.", "Attend exactly the allowed keys.",
        each(_leaks, 1, -1),
    ),
    Fault(
        "mask_ignored_past_some_keys", "The mask acts on the first keys only.", "Apply it to every key.",
        lambda call: (make(size) for make in (_first_keys, _tail_visible) for size in (1, 2, 4, 8, 16, 32, 64, 128, 256) if size < call.keys),
    ),
    Fault(
        "mask_row_wraps", "The mask of query i is looked up at another row.", "Index the mask by the query's own position.",
        lambda call: (_wrapped_rows(size) for size in (2, 4, 8, 16, 32, 64, 128) if size < call.queries),
    ),
    Fault(
        "mask_hides_for_the_whole_row_block", "A block of keys is skipped for all queries of a block.", "Skip it only if no query of the block sees it.",
        each(_block_rows, 2, 4, 8, 16, 32),
    ),
    Fault(
        "hidden_leading_block_nan", "A row whose first block of keys is hidden is NaN: -inf - (-inf).",
        "Keep the running maximum finite until a key was seen.", each(_nan_blocks, 1, 2, 4, 8, 16, 32, 64, 128, 256),
    ),
    Fault(
        "hidden_keys_change_the_temperature", "The share of hidden keys changes the scores.", "Let the mask hide, and nothing else.",
        one(hide=_temperature),
    ),
    Fault(
        "number_mask_misread", "Some nonzero numbers of the mask count as false: only positive ones, ones, halves and more, or what is left in an integer or a byte.",
        "Attend wherever the mask is not zero.",
        each(
            _as_numbers, lambda t: t > 0, lambda t: t == 1, lambda t: t >= 0.5, lambda t: t.abs() >= 0.5, lambda t: t.trunc() != 0,
            lambda t: t.trunc() % 256 != 0, lambda t: t.round() != 0, lambda t: t % 2 == 1, lambda t: t < 0, lambda t: t > 0.5,
        ),
    ),
    Fault(
        "additive_mask_thresholded", "An additive mask is read as true and false.", "Add it to the scores.",
        each(_as_numbers, lambda t: t != 0, lambda t: t == 0, lambda t: t >= 0, lambda t: t > -1),
        is_additive,
    ),
)  # fmt: skip


FAULTS: tuple[Fault, ...] = (*MASK[:2], *FILL, *MASK[2:])
