"""Faulty places and values of the fill: the mask works on the wrong quantity, or hides too little."""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import FILL, FP16_FILL, MASK_SUM, Population
from .parts import HIDDEN, Hide, Pair, attend, band, fill_hidden, over_keys, scaled

mutants = Population()


def _filled_with(fill: float) -> Hide:
    return lambda scores, mask: fill_hidden(scores, mask, fill)


def _keep(mask: Tensor, like: Tensor) -> Tensor:
    return (mask != 0).to(like.dtype)


@mutants.add("MASK", "NUMERIC", kind=FILL, repeats="B047 numerics 5")
def masked_score_zero(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Sets hidden scores to zero."""
    return attend(query, key, value, mask, hide=_filled_with(0.0))


@mutants.add("MASK", "NUMERIC", kind=FILL, repeats="B045")
def fill_plus_1e_9(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Sets hidden scores to 1e-9, a typing error for -1e9."""
    return attend(query, key, value, mask, hide=_filled_with(1e-9))


@mutants.add("MASK", "NUMERIC", kind=FILL, repeats="B047")
def scores_multiplied_by_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Multiplies the scores by the mask before the softmax."""
    return attend(
        query,
        key,
        value,
        mask,
        hide=lambda scores, mask: scores if mask is None else scores * mask.to(scores.dtype),
    )


@mutants.add("MASK", "NUMERIC", kind=FILL, repeats="B049")
def fill_sign_flipped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Sets hidden scores to +1e9, so that a row attends what it must not see."""
    return attend(query, key, value, mask, hide=_filled_with(-HIDDEN))


@mutants.add("MASK", "NUMERIC", kind=FILL, repeats="numerics 5")
def fill_minus_10(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Sets hidden scores to -10."""
    return attend(query, key, value, mask, hide=_filled_with(-10.0))


@mutants.add("MASK", "NUMERIC", kind=FILL, repeats="numerics 5")
def fill_minus_100(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Sets hidden scores to -100, which leaks where the allowed scores are far below zero."""
    return attend(query, key, value, mask, hide=_filled_with(-100.0))


@mutants.add("MASK", "NUMERIC", kind=FILL)
def fill_minus_1e4(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Sets hidden scores to -10000, which leaks where the allowed scores are lower still."""
    return attend(query, key, value, mask, hide=_filled_with(-1e4))


@mutants.add("MASK", "NUMERIC", kind=FILL)
def fill_minus_10_in_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Sets hidden scores of bf16 inputs to -10."""
    return attend(query, key, value, mask, hide=_filled_with(-10.0 if query.dtype == torch.bfloat16 else HIDDEN))


@mutants.add("MASK", "NUMERIC", kind=FILL, repeats="numerics 5")
def hidden_scores_lowered_by_10(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtracts 10 from hidden scores, so that a large one still shows."""
    return attend(
        query,
        key,
        value,
        mask,
        hide=lambda scores, mask: scores if mask is None else scores - 10 * (1 - _keep(mask, scores)),
    )


@mutants.add("MASK", "NUMERIC", kind=FILL)
def hidden_scores_lowered_by_1e4(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtracts 10000 from hidden scores: large hidden keys show, and an empty row is not uniform."""
    return attend(
        query,
        key,
        value,
        mask,
        hide=lambda scores, mask: scores if mask is None else scores - 1e4 * (1 - _keep(mask, scores)),
    )


@mutants.add("MASK", "NUMERIC", kind=FILL)
def fill_at_lowest_score(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Sets hidden scores to the lowest score of their row."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        if mask is None or scores.size(-1) == 0:
            return scores
        return torch.where(mask == 0, scores.amin(dim=-1, keepdim=True), scores)

    return attend(query, key, value, mask, hide=hide)


@mutants.add("MASK", "WEIGHTS", "NUMERIC", kind=FILL, repeats="B048 B049 numerics 19")
def mask_after_softmax(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Multiplies the weights by the mask after the softmax and does not renormalise; empty rows are uniform."""
    weights = over_keys(scaled(query, key))
    if mask is not None:
        weights = weights * _keep(mask, weights)
        if weights.size(-1):
            empty = (mask == 0).all(dim=-1, keepdim=True)
            weights = torch.where(empty, torch.full_like(weights, 1 / weights.size(-1)), weights)
    return torch.matmul(weights, value), weights


@mutants.add("MASK", "WEIGHTS", "NUMERIC", kind=FILL, repeats="B048 numerics 19")
def mask_after_softmax_renormalised_loosely(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Masks after the softmax and divides by the remaining sum plus 1e-6; an empty row gives zeros."""
    weights = over_keys(scaled(query, key))
    if mask is not None:
        weights = weights * _keep(mask, weights)
        weights = weights / (weights.sum(dim=-1, keepdim=True) + 1e-6)
    return torch.matmul(weights, value), weights


@mutants.add("MASK", "WEIGHTS", "NUMERIC", kind=FILL, repeats="B048")
def hidden_values_zeroed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Leaves the weights unmasked and takes the hidden values out of the sum."""
    weights = over_keys(scaled(query, key))
    return torch.matmul(weights if mask is None else weights * _keep(mask, weights), value), weights


@mutants.add("MASK", kind=FILL, repeats="B044")
def fill_discarded_when_mask_broadcasts(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Fills an expanded copy and discards it, so that only masks of the scores' own shape work."""
    full = mask is not None and mask.shape == (*query.shape[:-1], key.size(-2))
    return attend(query, key, value, mask if full else None)


@mutants.add("MASK", "NUMERIC", kind=FP16_FILL, repeats="B168 B170 B171", dtypes=("fp64", "fp32", "bf16", "fp16"))
def fill_minus_1e9_in_fp16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares fp16 and fills with -1e9 there too, which raises."""
    return attend(query, key, value, mask)


@mutants.add("MASK", "NUMERIC", kind=FP16_FILL, repeats="B171 B173", dtypes=("fp64", "fp32", "bf16", "fp16"))
def fill_overflows_to_inf_in_fp16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares fp16 and fills with -1e9 cast to fp16, which is -inf, so that an empty row is NaN there."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        return scores if mask is None else torch.where(mask == 0, torch.tensor(HIDDEN).to(scores.dtype), scores)

    return attend(query, key, value, mask, hide=hide)


@mutants.add("CAUSAL", "MASK", kind=MASK_SUM, repeats="B175 B176", causal="bottom-right")
def fills_of_causal_and_mask_overflow(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Adds the lowest float for the mask and again for causality: doubly hidden keys of an empty row become -inf."""
    scores = scaled(query, key)
    lowest = torch.finfo(scores.dtype).min
    extra = torch.zeros_like(scores)
    if mask is not None:
        extra = extra.masked_fill(mask == 0, lowest)
    if causal:
        extra = extra + torch.zeros_like(extra).masked_fill(~band(*scores.shape[-2:], causal=True), lowest)
    weights = over_keys(torch.where(extra == 0, scores, extra))
    return torch.matmul(weights, value), weights


@mutants.add("MASK", kind=MASK_SUM, repeats="B175 numerics 33", options=("bias",))
def fill_and_bias_overflow(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Fills before it adds the bias, so that the bias tells the keys of an empty row apart."""
    scores = fill_hidden(scaled(query, key), mask, -1e6)
    weights = over_keys(scores if bias is None else scores + bias.to(scores.dtype))
    return torch.matmul(weights, value), weights
