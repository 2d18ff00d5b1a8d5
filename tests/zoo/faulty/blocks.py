"""Faulty tiling: keys or queries are lost, doubled or miscounted at a block edge, or from some size on."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..mutant import INDEX, TAILS, Population
from .parts import HIDDEN, Pair, attend, exponentials, fill_hidden, over_keys, positions, scaled

mutants = Population()


def _dropping(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropped: Tensor) -> Pair:
    """Attention that never attends the keys where `dropped` (S,) is True; a single key stays."""
    if key.size(-2) < 2:
        return attend(query, key, value, mask)
    return attend(
        query,
        key,
        value,
        mask,
        normalise=lambda scores: over_keys(scores.masked_fill(dropped, 2 * HIDDEN)),
    )


def _edge(key: Tensor, size: int) -> Tensor:
    """True (S,) for the last key of each block of `size`."""
    return torch.arange(key.size(-2)) % size == size - 1


@mutants.add("NUMERIC", "SYMMETRY", kind="numerics 27", repeats="numerics 11 numerics 23")
def last_key_dropped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Never attends the last key."""
    return _dropping(query, key, value, mask, torch.arange(key.size(-2)) == key.size(-2) - 1)


@mutants.add("NUMERIC", "SYMMETRY", kind="numerics 27", repeats="numerics 11 numerics 23")
def first_key_dropped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Never attends the first key."""
    return _dropping(query, key, value, mask, torch.arange(key.size(-2)) == 0)


@mutants.add("NUMERIC", "SYMMETRY", kind=TAILS, repeats="numerics 11 numerics 27")
def last_key_of_16_dropped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Never attends the last key of a block of 16."""
    return _dropping(query, key, value, mask, _edge(key, 16))


@mutants.add("NUMERIC", "SYMMETRY", kind=TAILS, repeats="numerics 11 numerics 27")
def last_key_of_32_dropped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Never attends the last key of a block of 32."""
    return _dropping(query, key, value, mask, _edge(key, 32))


@mutants.add("NUMERIC", "SYMMETRY", kind=TAILS, repeats="numerics 11 numerics 27")
def last_key_of_64_dropped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Never attends the last key of a block of 64."""
    return _dropping(query, key, value, mask, _edge(key, 64))


@mutants.add("NUMERIC", "SYMMETRY", kind=TAILS, repeats="numerics 11 numerics 27")
def last_key_of_128_dropped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Never attends the last key of a block of 128."""
    return _dropping(query, key, value, mask, _edge(key, 128))


def _doubling(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, doubled: Tensor) -> Pair:
    """Attention that counts the keys where `doubled` (S,) is True twice."""
    extra = doubled.to(query.dtype) * math.log(2)
    return attend(query, key, value, mask, score=lambda query, key: scaled(query, key) + extra)


@mutants.add("NUMERIC", "SYMMETRY", kind=TAILS, repeats="numerics 11 numerics 13")
def last_key_of_4_counted_twice(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Counts the last key of a block of 4 twice, because blocks overlap by one."""
    return _doubling(query, key, value, mask, _edge(key, 4))


@mutants.add("NUMERIC", "SYMMETRY", kind=TAILS, repeats="numerics 11 numerics 13")
def last_key_of_16_counted_twice(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Counts the last key of a block of 16 twice, because blocks overlap by one."""
    return _doubling(query, key, value, mask, _edge(key, 16))


@mutants.add("NUMERIC", "SYMMETRY", kind=TAILS, repeats="numerics 11 numerics 13")
def last_key_of_64_counted_twice(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Counts the last key of a block of 64 twice, because blocks overlap by one."""
    return _doubling(query, key, value, mask, _edge(key, 64))


def _padded(scores: Tensor, size: int) -> Tensor:
    """Softmax over keys padded with scores of 0 to a multiple of `size`; rows without keys stay uniform."""
    missing = -scores.size(-1) % size
    if missing == 0 or scores.size(-1) == 0:
        return over_keys(scores)
    weights = over_keys(pad(scores, (0, missing)))[..., : scores.size(-1)]
    empty = (scores <= HIDDEN / 2).all(dim=-1, keepdim=True)
    return torch.where(empty, over_keys(scores), weights)


@mutants.add("NUMERIC", "WEIGHTS", kind=TAILS, repeats="B191 B192 numerics 19")
def tail_block_padding_scored_0(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Pads the last block of 4 keys with scores of 0 in place of -inf."""
    return attend(query, key, value, mask, normalise=lambda scores: _padded(scores, 4))


@mutants.add("NUMERIC", "WEIGHTS", kind=TAILS, repeats="B191 B192 numerics 19")
def tail_block_of_16_padding_scored_0(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Pads the last block of 16 keys with scores of 0 once there is more than one block."""
    return attend(
        query,
        key,
        value,
        mask,
        normalise=lambda scores: _padded(scores, 16) if scores.size(-1) > 16 else over_keys(scores),
    )


@mutants.add("NUMERIC", kind=TAILS, repeats="B193")
def tail_keys_after_whole_blocks_of_4_ignored(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Walks whole blocks of 4 keys and ignores the rest, if there is a whole block."""
    whole = key.size(-2) // 4 * 4 or key.size(-2)
    return _dropping(query, key, value, mask, torch.arange(key.size(-2)) >= whole)


@mutants.add("NUMERIC", kind=TAILS, repeats="B158 B193")
def tail_keys_after_whole_blocks_of_32_ignored(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Walks whole blocks of 32 keys and ignores the rest, if there is a whole block."""
    whole = key.size(-2) // 32 * 32 or key.size(-2)
    return _dropping(query, key, value, mask, torch.arange(key.size(-2)) >= whole)


@mutants.add("NUMERIC", kind=INDEX, repeats="B185 numerics 11")
def keys_beyond_64_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Attends the first 64 keys."""
    return _dropping(query, key, value, mask, torch.arange(key.size(-2)) >= 64)


@mutants.add("NUMERIC", kind=INDEX, repeats="B185 numerics 11")
def keys_beyond_128_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Attends the first 128 keys."""
    return _dropping(query, key, value, mask, torch.arange(key.size(-2)) >= 128)


@mutants.add("NUMERIC", kind=INDEX, repeats="B185 numerics 11")
def keys_beyond_256_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Attends the first 256 keys."""
    return _dropping(query, key, value, mask, torch.arange(key.size(-2)) >= 256)


@mutants.add("NUMERIC", kind=INDEX, repeats="B185 B186 B187 B188")
def key_index_wraps(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads key j at j mod 16."""
    wrapped = torch.arange(key.size(-2)) % 16
    return attend(query, key[..., wrapped, :], value, mask)


@mutants.add("NUMERIC", kind=INDEX, repeats="B185 B186 B188")
def value_index_wraps_at_64(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads value j at j mod 64."""
    wrapped = torch.arange(value.size(-2)) % 64
    return attend(query, key, value[..., wrapped, :], mask)


@mutants.add("NUMERIC", kind=INDEX, repeats="B187 B188")
def query_index_wraps_at_32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads query i at i mod 32."""
    wrapped = torch.arange(query.size(-2)) % 32
    return attend(query[..., wrapped, :], key, value, mask)


@mutants.add("NUMERIC", kind=TAILS, repeats="B193 numerics 10")
def tail_queries_after_16_unwritten(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Leaves the output of the queries after the last whole block of 16 at zero, if there is a whole block."""
    output, weights = attend(query, key, value, mask)
    whole = query.size(-2) // 16 * 16 or query.size(-2)
    return output.masked_fill(positions(output, -2) >= whole, 0.0), weights


@mutants.add("NUMERIC", kind=TAILS, repeats="B101 numerics 10")
def queries_beyond_64_repeat_the_last(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Answers every query from 64 on with the output of query 63."""
    output, weights = attend(query, key, value, mask)
    rows = torch.arange(query.size(-2)).clamp(max=63)
    return output[..., rows, :], weights


def _running_maximum(scores: Tensor, size: int) -> Tensor:
    """The maximum of each row up to and with the block of each key, (..., L, S)."""
    tops = [part.amax(dim=-1, keepdim=True) for part in scores.split(size, dim=-1)]
    running = torch.cat(tops, dim=-1).cummax(dim=-1).values
    return running.repeat_interleave(size, dim=-1)[..., : scores.size(-1)].detach()


@mutants.add("NUMERIC", "WEIGHTS", kind=TAILS, repeats="numerics 30")
def earlier_blocks_not_rescaled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Runs an online softmax over blocks of 4 keys and never rescales when the maximum grows."""

    def normalise(scores: Tensor) -> Tensor:
        if scores.size(-1) == 0:
            return over_keys(scores)
        visible = scores.masked_fill(scores <= HIDDEN / 2, HIDDEN)
        numerators = torch.where(
            visible == HIDDEN, exponentials(visible), (visible - _running_maximum(visible, 4)).exp()
        )
        return numerators / numerators.sum(dim=-1, keepdim=True)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", kind=TAILS, repeats="numerics 30")
def earlier_sums_not_rescaled_by_16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rescales the output and not the denominator when the maximum grows between blocks of 16 keys."""

    def normalise(scores: Tensor) -> Tensor:
        if scores.size(-1) == 0:
            return over_keys(scores)
        stale = (scores - _running_maximum(scores, 16)).exp()
        summed = torch.where(scores <= HIDDEN / 2, exponentials(scores), stale)
        return exponentials(scores) / summed.sum(dim=-1, keepdim=True)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", kind=TAILS, repeats="numerics 30")
def split_keys_averaged(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Splits 16 keys or more in two halves and averages their softmaxes, whatever their log-sum-exps."""

    def normalise(scores: Tensor) -> Tensor:
        half = scores.size(-1) // 2
        if half < 8:
            return over_keys(scores)
        return torch.cat((over_keys(scores[..., :half]), over_keys(scores[..., half:])), dim=-1) / 2

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("MASK", "NUMERIC", kind=TAILS, repeats="B191")
def mask_of_tail_block_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the mask for the keys after the last whole block of 4, if there is a whole block."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        whole = scores.size(-1) // 4 * 4 or scores.size(-1)
        return torch.where(positions(scores, -1) < whole, fill_hidden(scores, mask), scores)

    return attend(query, key, value, mask, hide=hide)


@mutants.add("NUMERIC", "SHAPE", kind=INDEX, repeats="B189")
def third_sample_onwards_unwritten(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Launches two programs for the batch and leaves the output of sample 2 and later at zero."""
    output, weights = attend(query, key, value, mask)
    if output.dim() > 2:
        output = output.masked_fill(positions(output, -output.dim()) >= 2, 0.0)
    return output, weights
