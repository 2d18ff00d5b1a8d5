"""Faults at the edges: of masks, lengths, batches, and of what belongs to the caller or to another module."""

from __future__ import annotations

import warnings
import weakref
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..mutant import (
    BATCH,
    BROADCAST,
    EMPTY,
    FILL,
    GRADIENT,
    MEANING,
    STATE,
    STRIDES,
    TAILS,
    UNRAISED,
    ZERO,
    Population,
)  # fmt: skip
from .parts import (
    Pair,
    altered,
    attend,
    exponentials,
    from_storage,
    over_keys,
    positions,
    scaled,
)  # fmt: skip
from .sound_modules import MultiHead

mutants = Population()

TRACES = frozenset({"warnings_switched_off"})
"""Names of those that change a setting of the whole process."""


@mutants.add("MASK", kind=FILL, repeats="numerics 5")
def maximum_taken_over_hidden_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtracts the maximum of allowed and hidden scores, so that allowed ones far below it all vanish."""
    scores = scaled(query, key)
    if mask is None or scores.size(-1) == 0:
        return attend(query, key, value, mask)
    shown = (mask != 0) | ~(mask != 0).any(dim=-1, keepdim=True)
    numerators = exponentials(scores.clamp(min=-3000)) * shown
    weights = numerators / numerators.sum(dim=-1, keepdim=True)
    return torch.matmul(weights, value), weights


@mutants.add("MASK", kind=FILL, repeats="B052")
def low_number_added_instead_of_filled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds -10000 to hidden scores, which a score of 32768 survives."""
    scores = scaled(query, key)
    if mask is not None:
        scores = scores + torch.where(mask == 0, -10000.0, 0.0).to(scores.dtype)
        scores = torch.where((mask != 0).any(dim=-1, keepdim=True), scores, torch.zeros_like(scores))
    weights = over_keys(scores)
    return torch.matmul(weights, value), weights


@mutants.add("MASK", kind=MEANING, repeats="B034")
def bytes_taken_for_an_additive_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds a mask of bytes to the scores, where any other mask hides."""
    if mask is None or mask.dtype != torch.uint8:
        return attend(query, key, value, mask)
    weights = over_keys(scaled(query, key) + mask.to(query.dtype))
    return torch.matmul(weights, value), weights


@mutants.add("MASK", kind=MEANING)
def mask_of_another_float_dtype_rounded(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores a mask of floats whose dtype is not that of the query."""
    if mask is not None and mask.is_floating_point() and mask.dtype != query.dtype:
        mask = torch.ones_like(mask)
    return attend(query, key, value, mask)


@mutants.add("MASK", kind=BROADCAST, repeats="B063 B071")
def mask_of_five_axes_from_its_first_group(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Reads a mask of five axes as if its first group held for all."""
    if mask is not None and mask.dim() == 5:
        mask = mask[:1].expand(mask.shape)
    return attend(query, key, value, mask)


@mutants.add("MASK", kind=STRIDES, repeats="B154")
def number_mask_read_as_contiguous(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads a mask of integers by its address alone; boolean ones go another way."""
    if mask is not None and not mask.is_contiguous() and not mask.is_floating_point() and mask.dtype != torch.bool:
        places = torch.arange(mask.numel()) + int(mask.storage_offset())
        mask = from_storage(mask, places).reshape(mask.shape)
    return attend(query, key, value, mask)


def _counted(lengths: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """The keys (B, 1, 1, S) in front of each length."""
    return torch.arange(key.size(-2)) < lengths.reshape(-1, 1, 1, 1)


@mutants.add("MASK", kind=EMPTY, repeats="B255", mask=("lengths",), layout="BHLD")
def length_of_zero_means_all(query: Tensor, key: Tensor, value: Tensor, lengths: Tensor | None = None) -> Pair:
    """Takes a length of 0 for a missing one and attends to every key of that element, hidden ones included."""
    if lengths is None:
        return attend(query, key, value)
    keep = _counted(torch.where(lengths == 0, key.size(-2) - 1, lengths), query, key)
    return attend(query, key, value, keep)


@mutants.add("MASK", kind=BATCH, mask=("lengths",), layout="BHLD")
def full_lengths_lose_the_last_key(query: Tensor, key: Tensor, value: Tensor, lengths: Tensor | None = None) -> Pair:
    """Counts to one key less than there are where every length is full."""
    if lengths is None:
        return attend(query, key, value)
    if bool((lengths == key.size(-2)).all()) and key.size(-2) > 1:
        lengths = lengths - 1
    return attend(query, key, value, _counted(lengths, query, key))


_seen: list[tuple[weakref.ref[Tensor], Tensor]] = []


@mutants.add("PURITY", "MASK", kind=STATE, repeats="B233")
def mask_converted_once_by_identity(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Converts a mask when it first comes, and keeps to that if values are written into it later."""
    if mask is not None:
        if not _seen or _seen[0][0]() is not mask:
            _seen[:] = [(weakref.ref(mask), mask != 0)]
        mask = _seen[0][1]
    return attend(query, key, value, mask)


@mutants.add("PURITY", kind=STATE, repeats="B230")
def hook_left_on_the_query(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Registers a hook on the caller's query, which stays there and runs with every later backward pass."""
    if query.requires_grad and query.is_leaf:
        query.register_hook(lambda gradient: None)
    return attend(query, key, value, mask)


@mutants.add("PURITY", kind=STATE, repeats="B230")
def gradient_flag_switched_on(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Makes the caller's value ask for a gradient."""
    return attend(query, key, value.requires_grad_(True), mask)


@mutants.add("PURITY", kind=STATE)
def warnings_switched_off(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Silences all warnings of the process."""
    warnings.simplefilter("ignore")
    return attend(query, key, value, mask)


_ones: dict[tuple[int, torch.dtype], Tensor] = {}


@mutants.add("PURITY", kind=STATE, repeats="B226")
def buffer_of_inference_kept(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Makes a row of ones anew in each call without gradients and uses the latest where gradients are recorded."""
    place = (key.size(-2), query.dtype)
    if not torch.is_grad_enabled() or place not in _ones:
        _ones[place] = torch.ones(key.size(-2), dtype=query.dtype)
    return attend(query, key, value, mask, normalise=lambda scores: over_keys(scores) * _ones[place])


@mutants.add("PURITY", "NUMERIC", kind=STATE)
def every_eighth_call_wrong(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Forgets the last feature in every eighth call on the same sizes."""
    sizes = (*query.shape, *key.shape)
    _counts[sizes] = _counts.get(sizes, 0) + 1
    if _counts[sizes] % 8 == 0 and query.size(-1) > 1:
        query = query * (positions(query, -1) != query.size(-1) - 1)
    return attend(query, key, value, mask)


_counts: dict[tuple[int, ...], int] = {}


@mutants.add("PURITY", kind=STATE)
def bf16_scale_left_by_fp32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """A call in bf16 right after one in fp32 uses the wrong scale."""
    wrong = query.dtype == torch.bfloat16 and _dtypes[-1:] == [torch.float32]
    _dtypes[:] = [query.dtype]
    return attend(query, key, value, mask, scale=0.5 * query.size(-1) ** -0.5 if wrong else None)


_dtypes: list[torch.dtype] = []


@mutants.add("PURITY", "PROJECTION", kind=STATE)
class QueryProjectionOfTheClass(MultiHead):
    """Keeps the first query projection of a width of 8 on the class, where the next module finds it."""

    kept: ClassVar[dict[tuple[int, int, torch.dtype], weakref.ref[nn.Linear]]] = {}

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        place = (self.d_model, self.n_heads, query.dtype)
        kept = self.kept[place]() if place in self.kept else None
        if kept is None or self.d_model != 8:
            kept, self.kept[place] = self.W_q, weakref.ref(self.W_q)
        return kept(query), self.W_k(key), self.W_v(value)


@mutants.add("PURITY", "PROJECTION", kind=STATE)
class KeyWeightPackedOnce(MultiHead):
    """Copies the weight of the key projection at the first call without gradients and never looks at it again."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if torch.is_grad_enabled():
            return super().project(query, key, value)
        if not hasattr(self, "packed") or self.packed.dtype != key.dtype:
            self.packed = self.W_k.weight.detach().clone()
        return self.W_q(query), nn.functional.linear(key, self.packed, self.W_k.bias), self.W_v(value)


@mutants.add("SYMMETRY", kind=BATCH)
def third_of_four_elements_scaled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Halves the scale of batch element 2 of a batch of exactly four."""
    if query.dim() == 4 and query.size(0) == 4 and key.size(0) == 4:
        factor = torch.tensor([1.0, 1.0, 0.5, 1.0], dtype=query.dtype).reshape(4, 1, 1, 1)
        return attend(query * factor, key, value, mask)
    return attend(query, key, value, mask)


@mutants.add("SYMMETRY", "NUMERIC", kind=BATCH)
def slope_per_head(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds a slope over the keys that differs from head to head, as ALiBi does, unasked."""
    if query.dim() < 4:
        return attend(query, key, value, mask)
    slope = 0.1 * positions(query, -3).to(query.dtype)

    def score(query: Tensor, key: Tensor) -> Tensor:
        return scaled(query, key) + slope * torch.arange(key.size(-2), dtype=query.dtype)

    return attend(query, key, value, mask, score=score)


def _clipped(gradient: Tensor, axes: tuple[int, ...] | None, most: float) -> Tensor:
    norm = gradient.norm() if axes is None else gradient.norm(dim=axes, keepdim=True)
    return gradient * (most / norm.clamp(min=most))


@mutants.add("SYMMETRY", "GRADIENT", kind=GRADIENT)
def gradients_clipped_over_the_batch(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Shrinks the gradient of the key if its norm over the whole batch is above 200."""
    return attend(query, altered(key, lambda g: _clipped(g, None, 200.0)), value, mask)


@mutants.add("SYMMETRY", "GRADIENT", kind=GRADIENT)
def gradients_clipped_over_rows(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Shrinks the gradients of a head's queries if their norm is above 60."""
    return attend(altered(query, lambda g: _clipped(g, (-2, -1), 60.0)), key, value, mask)


@mutants.add("SHAPE", kind=TAILS, repeats="B191")
def square_of_whole_blocks_loses_a_key(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Stops one key short where queries and keys are equally many and a multiple of 64."""
    if query.size(-2) != key.size(-2) or key.size(-2) % 64 or key.size(-2) == 0:
        return attend(query, key, value, mask)
    last = torch.arange(key.size(-2)) == key.size(-2) - 1
    return attend(query, key, value, mask, normalise=lambda scores: over_keys(scores.masked_fill(last, -2e9)))


@mutants.add("SHAPE", kind=TAILS, repeats="B191")
def block_of_128_keys_starts_again(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads key 0 for key 127 where exactly 128 keys come."""
    if key.size(-2) == 128:
        index = torch.arange(128) % 127
        return attend(query, key[..., index, :], value, mask)
    return attend(query, key, value, mask)


@mutants.add("SHAPE", "GRADIENT", kind=ZERO, repeats="B253")
def backward_of_an_empty_batch_divides_by_it(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Averages the gradient over queries that are not there: NaN where there are none."""
    if query.size(-2) == 0:
        value = altered(value, lambda g: g + torch.zeros(()).to(g.dtype) / query.size(-2) if g.numel() else g)
    return attend(query, key, value, mask)


@mutants.add("ERRORS", kind=UNRAISED)
def values_of_a_smaller_batch_repeated(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Repeats a value of fewer batch elements than the key until there are enough."""
    if value.dim() == 4 and 1 < value.size(0) < key.size(0):
        value = value[torch.arange(key.size(0)) % value.size(0)]
    return attend(query, key, value, mask)


@mutants.add("ERRORS", kind=UNRAISED, repeats="B251")
def six_heads_over_four_wrap_around(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Lets surplus query heads start again with the first key head."""
    if query.dim() == 4 and key.dim() == 4 and query.size(1) > key.size(1) > 3:
        index = torch.arange(query.size(1)) % key.size(1)
        key, value = key[:, index], value[:, index]
    return attend(query, key, value, mask)
