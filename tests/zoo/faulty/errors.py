"""Faults of silence: calls that the definition does not allow give an answer in place of an error.

Each docstring names the call. Legal calls are answered rightly.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import FILL, UNRAISED, Population
from .parts import Pair, attend

mutants = Population()


@mutants.add("ERRORS", kind=UNRAISED)
def more_values_than_keys_cut(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Cuts key and value to the shorter of both (call: key (2, 4, 5, 8), value (2, 4, 7, 6))."""
    shared = min(key.size(-2), value.size(-2))
    return attend(query, key[..., :shared, :], value[..., :shared, :], mask)


@mutants.add("ERRORS", kind=UNRAISED)
def batches_of_two_sizes_cut(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Cuts batches that do not fit to the smaller (call: query (3, 4, 5, 8), key and value (2, 4, 7, .))."""
    if query.dim() == key.dim() == value.dim() > 2 and min(key.size(0), value.size(0), query.size(0)) > 1:
        shared = min(query.size(0), key.size(0), value.size(0))
        query, key, value = query[:shared], key[:shared], value[:shared]
    return attend(query, key, value, mask)


@mutants.add("ERRORS", kind=UNRAISED)
def smaller_batch_repeated(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Repeats a key batch that divides the query batch (call: query (4, 2, 5, 8), key and value (2, 2, 7, .))."""
    if query.dim() == key.dim() == value.dim() > 2 and key.size(0) == value.size(0) > 1:
        times = query.size(0) // key.size(0)
        if times > 1 and query.size(0) % key.size(0) == 0:
            key, value = torch.cat([key] * times), torch.cat([value] * times)
    return attend(query, key, value, mask)


@mutants.add("ERRORS", kind=UNRAISED)
def wider_query_cut(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Cuts query and key to the smaller width (call: query (2, 4, 5, 8), key (2, 4, 7, 6))."""
    shared = min(query.size(-1), key.size(-1))
    return attend(query[..., :shared], key[..., :shared], value, mask, scale=query.size(-1) ** -0.5)


@mutants.add("ERRORS", "MASK", kind=FILL, repeats="B057")
def larger_mask_cropped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Crops a mask that is too large (call: mask (7, 10) for 5 queries and 7 keys)."""
    if mask is not None and mask.dim() > 1:
        rows = slice(None) if mask.size(-2) == 1 else slice(query.size(-2))
        keys = slice(None) if mask.size(-1) == 1 else slice(key.size(-2))
        mask = mask[..., rows, keys]
    return attend(query, key, value, mask)


@mutants.add("ERRORS", "MASK", kind=FILL, repeats="B057")
def shorter_mask_padded_as_visible(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Lets the keys beyond a short mask be attended (call: mask (5, 4) for 5 queries and 7 keys)."""
    if mask is not None and mask.dim() and 1 < mask.size(-1) < key.size(-2):
        mask = torch.nn.functional.pad(mask != 0, (0, key.size(-2) - mask.size(-1)), value=True)
    return attend(query, key, value, mask)


@mutants.add("ERRORS", "MASK", kind=FILL, repeats="B057")
def mask_that_does_not_fit_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores a mask that does not broadcast (call: mask (5, 6) for 5 queries and 7 keys)."""
    if mask is not None:
        leading = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
        try:
            torch.broadcast_shapes(mask.shape, (*leading, query.size(-2), key.size(-2)))
        except RuntimeError:
            mask = None
    return attend(query, key, value, mask)


@mutants.add("ERRORS", "MASK", kind=FILL, repeats="B057 B065")
def mask_reshaped_to_fit(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reshapes a mask of the right number of elements (call: mask (7, 5) for 5 queries and 7 keys)."""
    sizes = (query.size(-2), key.size(-2))
    if mask is not None and mask.dim() == 2 and mask.numel() == sizes[0] * sizes[1]:
        mask = mask.reshape(sizes)
    return attend(query, key, value, mask)


@mutants.add("ERRORS", "MASK", kind=FILL, repeats="B057")
def mask_of_a_larger_batch_cut(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Cuts a mask with more samples than the batch (call: mask (3, 1, 5, 7) for a batch of 2)."""
    if mask is not None and mask.dim() == query.dim() > 2 and mask.size(0) > query.size(0) > 1:
        mask = mask[: query.size(0)]
    return attend(query, key, value, mask)


@mutants.add("ERRORS", "MASK", kind=FILL, repeats="B057 B139")
def mask_of_other_head_count_repeated(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Repeats a mask of fewer heads than there are (call: mask (2, 2, 5, 7) for 4 heads)."""
    if mask is not None and query.dim() > 3 and mask.dim() > 2 and 1 < mask.size(-3) < query.size(-3):
        mask = mask[..., torch.arange(query.size(-3)) % mask.size(-3), :, :]
    return attend(query, key, value, mask)


@mutants.add("ERRORS", kind=UNRAISED)
def other_value_heads_averaged(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Averages value heads whose number is not the key's (call: key (2, 4, 7, 8), value (2, 3, 7, 6))."""
    if value.dim() == key.dim() > 3 and value.size(-3) not in (1, key.size(-3)) and key.size(-3) != 1:
        value = value.mean(dim=-3, keepdim=True)
    return attend(query, key, value, mask)
