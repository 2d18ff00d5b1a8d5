"""Faulty answers where a query has nothing to attend to, and around whole hidden blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import EMPTY, Population
from .parts import HIDDEN, Pair, attend, band, both, fill_hidden, over_keys, positions, scaled

mutants = Population()


def _empty(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The rows (..., 1) that the mask leaves without a key."""
    if mask is None or scores.size(-1) == 0:
        return scores.new_zeros(*scores.shape[:-1], 1, dtype=torch.bool)
    return (mask == 0).expand(scores.shape).all(dim=-1, keepdim=True)


def _emptied_by_addition(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Hidden scores filled, and those of empty rows at -inf by addition, which lets their gradient through."""
    empty = _empty(scores, mask)
    emptied = scores + torch.zeros_like(scores).masked_fill(empty, -torch.inf)
    return emptied if mask is None else emptied.masked_fill((mask == 0) & ~empty, HIDDEN)


def _minus_infinity(scores: Tensor, mask: Tensor | None) -> Tensor:
    return fill_hidden(scores, mask, -torch.inf)


@mutants.add("MASK", kind=EMPTY, repeats="B001 B006 B015")
def empty_row_nan(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives NaN for an empty row without declaring it."""
    return attend(query, key, value, mask, hide=_minus_infinity)


@mutants.add("MASK", kind=EMPTY, repeats="B001 B019")
def empty_row_zeros(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives zeros for an empty row without declaring it."""
    scores = scaled(query, key)
    weights = over_keys(fill_hidden(scores, mask)).masked_fill(_empty(scores, mask), 0.0)
    return torch.matmul(weights, value), weights


@mutants.add("MASK", kind=EMPTY, repeats="B013 B015")
def empty_row_nan_in_fp32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives NaN for an empty row of fp32 inputs."""
    hide = _minus_infinity if query.dtype == torch.float32 else fill_hidden
    return attend(query, key, value, mask, hide=hide)


@mutants.add("MASK", kind=EMPTY, repeats="B001")
def empty_row_nan_for_bool_masks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives NaN for an empty row of a boolean mask, and the uniform row for numbers."""
    boolean = mask is not None and mask.dtype == torch.bool
    return attend(query, key, value, mask, hide=_minus_infinity if boolean else fill_hidden)


@mutants.add("GRADIENT", "MASK", kind=EMPTY, repeats="B018 B005 B020", empty_row="zeros")
def empty_row_nan_gradient(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares zeros, adds -inf and cleans the weights afterwards, so that the gradient of an empty row is NaN."""
    weights = over_keys(_emptied_by_addition(scaled(query, key), mask))
    weights = weights.masked_fill(_empty(weights, mask), 0.0)
    return torch.matmul(weights, value), weights


@mutants.add("GRADIENT", "MASK", kind=EMPTY, repeats="B020")
def empty_row_zero_times_nan_gradient(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Replaces the NaN of an empty row by the uniform row, in the forward pass only."""
    weights = over_keys(_emptied_by_addition(scaled(query, key), mask))
    uniform = torch.full_like(weights, 1 / max(weights.size(-1), 1))
    weights = torch.where(_empty(weights, mask), uniform, weights)
    return torch.matmul(weights, value), weights


@mutants.add("MASK", kind=EMPTY, repeats="B015 B175", empty_row="zeros")
def empty_row_uniform_average(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares zeros for an empty row and averages all values."""
    return attend(query, key, value, mask)


@mutants.add("MASK", "SYMMETRY", kind=EMPTY, repeats="B011 B012")
def empty_row_poisons_the_tensor(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Makes the whole output NaN as soon as one row is empty."""
    output, weights = attend(query, key, value, mask)
    poison = _empty(weights, mask).any()
    return output.masked_fill(poison, torch.nan), weights.masked_fill(poison, torch.nan)


@mutants.add("MASK", "SYMMETRY", kind=EMPTY, repeats="B005")
def empty_row_drops_the_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Drops the mask for all rows as soon as one row is empty."""
    empty = _empty(scaled(query, key), mask)
    return attend(query, key, value, None if bool(empty.any()) else mask)


@mutants.add("MASK", kind=EMPTY, repeats="B015")
def empty_row_attends_first_key(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Lets an empty row attend key 0."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        first = _empty(scores, mask) & (positions(scores, -1) == 0)
        return fill_hidden(scores, mask).masked_fill(first, 0.0)

    return attend(query, key, value, mask, hide=hide)


@mutants.add("MASK", kind=EMPTY, repeats="B013")
def empty_row_keeps_its_scores(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtracts a constant from hidden scores, so that an empty row is the softmax of its scores, not uniform."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        return torch.where(_empty(scores, mask), scores, fill_hidden(scores, mask))

    return attend(query, key, value, mask, hide=hide)


@mutants.add("MASK", "WEIGHTS", kind=EMPTY, repeats="B016")
def empty_row_output_and_weights_disagree(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Gives uniform weights and a zero output for an empty row."""
    output, weights = attend(query, key, value, mask)
    return output.masked_fill(_empty(weights, mask), 0.0), weights


@mutants.add("MASK", kind=EMPTY, repeats="B003")
def empty_row_uniform_over_first_4_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Spreads an empty row over the keys of the first block of 4 only."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        late = _empty(scores, mask) & (positions(scores, -1) >= 4)
        return fill_hidden(scores, mask).masked_fill(late, 2 * HIDDEN)

    return attend(query, key, value, mask, hide=hide)


@mutants.add("MASK", "PURITY", kind=EMPTY, repeats="B007 B016 numerics 1")
def empty_row_nan_without_gradient(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives NaN for an empty row on the path without gradients only."""
    return attend(query, key, value, mask, hide=fill_hidden if torch.is_grad_enabled() else _minus_infinity)


@mutants.add("CAUSAL", "MASK", kind=EMPTY, repeats="B073", causal="bottom-right")
def causal_empty_row_zeros(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Gives zeros for the first rows of causal attention with more queries than keys, without declaring it."""
    keep = band(query.size(-2), key.size(-2), causal=True) if causal else None
    output, weights = attend(query, key, value, both(mask, keep))
    if keep is not None and key.size(-2):
        empty = ~keep.any(dim=-1, keepdim=True)
        output, weights = output.masked_fill(empty, 0.0), weights.masked_fill(empty, 0.0)
    return output, weights


@mutants.add("CAUSAL", "MASK", kind=EMPTY, repeats="B005 B009", causal="bottom-right")
def causal_and_mask_empty_row_nan(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Gives NaN where the mask and causality together, but neither alone, leave a row empty."""
    keep = band(query.size(-2), key.size(-2), causal=True) if causal else None
    output, weights = attend(query, key, value, both(mask, keep))
    if keep is not None and mask is not None and key.size(-2):
        lost = _empty(weights, both(mask, keep)) & ~_empty(weights, mask) & keep.any(dim=-1, keepdim=True)
        output, weights = output.masked_fill(lost, torch.nan), weights.masked_fill(lost, torch.nan)
    return output, weights


def _online(scores: Tensor, mask: Tensor | None, size: int) -> Tensor:
    """Online softmax over key blocks of `size` that lets a leading hidden block compute -inf - -inf."""
    if scores.size(-1) == 0:
        return scores
    hidden = scores.masked_fill(mask == 0, -torch.inf) if mask is not None else scores
    hidden = torch.where(_empty(scores, mask), torch.full_like(scores, HIDDEN), hidden)
    parts = hidden.split(size, dim=-1)
    top = torch.cat([part.amax(dim=-1, keepdim=True) for part in parts], dim=-1).cummax(dim=-1).values
    lost = (top == -torch.inf).any(dim=-1, keepdim=True)
    return over_keys(hidden).masked_fill(lost, torch.nan)


@mutants.add("MASK", "NUMERIC", kind=EMPTY, repeats="B003 B008")
def hidden_leading_block_of_4_nan(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Computes -inf - -inf for a row whose first block of 4 keys is hidden while later keys are not."""
    weights = _online(scaled(query, key), mask, 4)
    return torch.matmul(weights, value), weights


@mutants.add("MASK", "NUMERIC", kind=EMPTY, repeats="B003 B008")
def hidden_leading_block_of_16_nan(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Computes -inf - -inf for a row whose first block of 16 keys is hidden while later keys are not."""
    weights = _online(scaled(query, key), mask, 16)
    return torch.matmul(weights, value), weights


@mutants.add("MASK", "NUMERIC", kind=EMPTY, repeats="B008")
def hidden_leading_block_counts(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Starts the running maximum at zero for a hidden first block of 4, whose keys then stay in the denominator."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        filled = fill_hidden(scores, mask)
        if mask is None or filled.size(-1) <= 4:
            return filled
        first = (mask == 0).expand(scores.shape)[..., :4].all(dim=-1, keepdim=True) & ~_empty(scores, mask)
        return filled.masked_fill(first & (positions(scores, -1) < 4), 0.0)

    return attend(query, key, value, mask, hide=hide)
