"""Faulty reading of memory: strides, offsets and expanded axes are ignored, or the layout is guessed from sizes."""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import LAYOUT, PATHS, STRIDES, Population
from .parts import Pair, altered, attend, from_storage, read_as_contiguous, scaled

mutants = Population()


@mutants.add("MEMORY", kind=STRIDES, repeats="B154 B155 B156 B157 B159 numerics 34")
def reads_storage_as_contiguous(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the strides of query, key and value."""
    return attend(read_as_contiguous(query), read_as_contiguous(key), read_as_contiguous(value), mask)


@mutants.add("MEMORY", kind=STRIDES, repeats="B155 numerics 34")
def reads_query_as_contiguous(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the strides of the query."""
    return attend(read_as_contiguous(query), key, value, mask)


@mutants.add("MEMORY", kind=STRIDES, repeats="B156 B158 numerics 34")
def reads_key_as_contiguous(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the strides of the key."""
    return attend(query, read_as_contiguous(key), value, mask)


@mutants.add("MEMORY", kind=STRIDES, repeats="B159 B160 numerics 34")
def reads_value_as_contiguous(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the strides of the value."""
    return attend(query, key, read_as_contiguous(value), mask)


def _without_offset(tensor: Tensor) -> Tensor:
    if tensor.storage_offset() == 0 or tensor.numel() == 0:
        return tensor
    return tensor.as_strided(tensor.shape, tensor.stride(), 0)


@mutants.add("MEMORY", kind=STRIDES, repeats="B154 numerics 34")
def ignores_storage_offset(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads slices from the start of their storage."""
    return attend(_without_offset(query), _without_offset(key), _without_offset(value), mask)


@mutants.add("MEMORY", kind=STRIDES, repeats="B154 numerics 34")
def ignores_storage_offset_of_value(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads a value that is a slice, as of a packed projection, from the start of its storage."""
    return attend(query, key, _without_offset(value), mask)


def _first_stride_only(tensor: Tensor) -> Tensor:
    """The tensor read with its own first stride and dense strides behind it."""
    if tensor.is_contiguous() or tensor.numel() == 0 or tensor.dim() < 3:
        return tensor
    first = torch.arange(tensor.size(0)).unsqueeze(-1) * tensor.stride(0)
    places = first + torch.arange(tensor[0].numel()) + int(tensor.storage_offset())
    return from_storage(tensor, places).reshape(tensor.shape)


@mutants.add("MEMORY", kind=STRIDES, repeats="B155 B160 numerics 34")
def uses_first_stride_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Uses the stride of the first axis and takes the others for dense."""
    return attend(_first_stride_only(query), _first_stride_only(key), _first_stride_only(value), mask)


def _last_stride_one(tensor: Tensor) -> Tensor:
    """The tensor read as if its last axis were dense, all other strides respected."""
    if tensor.stride(-1) == 1 or tensor.size(-1) < 2 or tensor.numel() == 0:
        return tensor
    places = torch.full((1,), int(tensor.storage_offset()))
    for size, stride in zip(tensor.shape, (*tensor.stride()[:-1], 1), strict=True):
        places = places.unsqueeze(-1) + torch.arange(size) * stride
    return from_storage(tensor, places.squeeze(0))


@mutants.add("MEMORY", kind=STRIDES, repeats="B155 B156 numerics 34")
def assumes_dense_last_axis(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes the stride of the last axis for one."""
    return attend(_last_stride_one(query), _last_stride_one(key), _last_stride_one(value), mask)


def _expanded_as_dense(tensor: Tensor) -> Tensor:
    expanded = any(s == 0 and n > 1 for s, n in zip(tensor.stride(), tensor.shape, strict=True))
    return read_as_contiguous(tensor) if expanded else tensor


@mutants.add("MEMORY", kind=STRIDES, repeats="B157 numerics 34")
def reads_expanded_as_dense(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads expanded query, key and value as if they were copied."""
    return attend(_expanded_as_dense(query), _expanded_as_dense(key), _expanded_as_dense(value), mask)


@mutants.add("GRADIENT", "MEMORY", kind=STRIDES, repeats="B161 B159")
def upstream_gradient_read_as_contiguous(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the strides of the incoming gradient."""
    output, weights = attend(query, key, value, mask)
    return altered(output, read_as_contiguous), weights


@mutants.add("MEMORY", "NUMERIC", kind=LAYOUT, repeats="B133 numerics 34")
def key_viewed_for_transposed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Views the key as (..., D, S) in place of transposing it."""

    def score(query: Tensor, key: Tensor) -> Tensor:
        return scaled(query, key.reshape(*key.shape[:-2], key.size(-1), key.size(-2)).transpose(-2, -1))

    return attend(query, key, value, mask, score=score)


@mutants.add("MEMORY", "NUMERIC", kind=PATHS, repeats="B219 numerics 34")
def square_key_not_transposed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes a key with as many keys as components, S = D, for transposed already."""
    square = key.size(-2) == key.size(-1)
    return attend(query, key.transpose(-2, -1) if square else key, value, mask)


def _swapped_when(condition: bool, first: int, second: int, query: Tensor, key: Tensor, value: Tensor) -> Pair:
    tensors = [t.transpose(first, second) if condition else t for t in (query, key, value)]
    output, weights = attend(*tensors)
    return (output.transpose(first, second) if condition else output), weights


@mutants.add("MEMORY", "SYMMETRY", kind=LAYOUT, repeats="B137 B141")
def batch_and_length_swapped_when_equal(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes (B, L, D) for (L, B, D) when B equals L and S and there is no mask."""
    guess = query.dim() == 3 and mask is None and query.size(0) == query.size(1)
    guess = guess and key.shape[:2] == query.shape[:2] == value.shape[:2]
    return _swapped_when(guess, 0, 1, query, key, value) if guess else attend(query, key, value, mask)


@mutants.add("MEMORY", "SYMMETRY", kind=LAYOUT, repeats="B133 B219")
def heads_and_length_swapped_when_equal(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes (B, H, L, D) for (B, L, H, D) when H equals L and S and there is no mask."""
    guess = query.dim() == 4 and mask is None and query.size(1) == query.size(2)
    guess = guess and key.shape[:3] == query.shape[:3] == value.shape[:3]
    return _swapped_when(guess, 1, 2, query, key, value) if guess else attend(query, key, value, mask)


@mutants.add("MEMORY", "SYMMETRY", kind=LAYOUT, repeats="B135 B137 B139")
def output_heads_viewed_not_transposed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Computes (B, L, H, E) and views it as (B, H, L, E)."""
    output, weights = attend(query, key, value, mask)
    if output.dim() > 3:
        output = output.transpose(-3, -2).reshape(output.shape)
    return output, weights


@mutants.add("MEMORY", "SYMMETRY", kind=LAYOUT, repeats="B143 B147")
def cross_key_viewed_with_query_length(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Folds key and value through (H, S) in the wrong order when their length is not the query's."""
    if query.dim() > 3 and key.dim() == query.dim() == value.dim() and key.size(-2) != query.size(-2):
        key = key.transpose(-3, -2).reshape(key.shape)
        value = value.transpose(-3, -2).reshape(value.shape)
    return attend(query, key, value, mask)


@mutants.add("MEMORY", "GRADIENT", kind=STRIDES, repeats="B161")
def gradient_of_strided_query_wrong(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Writes the gradient of a query that is not contiguous as if it were."""
    if not query.is_contiguous() and query.dim() > 2:
        shape = query.shape
        query = altered(query, lambda gradient: gradient.transpose(-3, -2).reshape(shape))
    return attend(query, key, value, mask)
