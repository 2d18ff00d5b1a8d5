"""Kernels that never hold a whole row: tiles of keys, splits, loops over queries, recomputation."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..program import HALVES_TOO, Program
from .parts import (
    INFINITY,
    Pair,
    accumulator,
    equal_leading,
    finite_or_zero,
    full_mask,
    lowest,
    one_where_zero,
    round_through,
    row_max,
    safe_softmax,
)

LOG2_E = 1.4426950408889634


def _online(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    tiles: Iterable[tuple[int, int]],
    *,
    fill: float = -INFINITY,
    rounded: bool = True,
    base_two: bool = False,
) -> Tensor:
    """Visit tiles of keys with a running maximum and sum in fp32 (fp64 for fp64).

    `rounded` rounds the unnormalised weights to the working dtype before they meet the value.
    """
    query, key, value = equal_leading(query, key, value)
    allowed = full_mask(mask, query, key)
    dtype, wide = query.dtype, accumulator(query.dtype)
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    power = torch.exp2 if base_two else torch.exp
    scale = query.size(-1) ** -0.5 * (LOG2_E if base_two else 1.0)
    largest = query.new_full((*query.shape[:-1], 1), -INFINITY)
    total, output = torch.zeros_like(largest), query.new_zeros((*query.shape[:-1], value.size(-1)))
    for start, stop in tiles:
        scores = (query @ key[..., start:stop, :].mT) * scale
        scores = scores.masked_fill(~allowed[..., start:stop], fill)
        new_largest = torch.maximum(largest, row_max(scores, empty=-INFINITY))
        shift = finite_or_zero(new_largest)
        weights, decay = power(scores - shift), power(largest - shift)
        total = total * decay + weights.sum(-1, keepdim=True)
        if rounded:
            weights = round_through(weights, dtype)
        output = output * decay + weights @ value[..., start:stop, :]
        largest = new_largest
    return (output / one_where_zero(total)).to(dtype)


def _tiles(keys: int, size: int) -> list[tuple[int, int]]:
    """Return the tiles from left to right; without keys one empty tile, which keeps the graph."""
    return [(start, min(start + size, keys)) for start in range(0, max(keys, 1), size)]


def online_block_1(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Visit one key at a time."""
    return _online(query, key, value, mask, _tiles(key.size(-2), 1))


def online_block_7(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Visit seven keys at a time in base two, without rounding the weights."""
    return _online(query, key, value, mask, _tiles(key.size(-2), 7), rounded=False, base_two=True)


def online_block_16_finite(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Visit sixteen keys at a time with a finite fill, so that empty rows are the mean over all keys."""
    lowest_sum = torch.finfo(accumulator(query.dtype)).min
    return _online(query, key, value, mask, _tiles(key.size(-2), 16), fill=lowest_sum)


def online_block_64_reversed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Visit the last 64 keys first, in base two."""
    return _online(query, key, value, mask, reversed(_tiles(key.size(-2), 64)), base_two=True)


def online_reversed_unrounded(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Visit one key at a time from the last to the first."""
    return _online(query, key, value, mask, reversed(_tiles(key.size(-2), 1)), rounded=False)


def online_skipping_tiles(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Skip every tile of four keys that the mask hides from all queries."""
    visible = full_mask(mask, query, key)
    tiles = _tiles(key.size(-2), 4)
    used = [tile for tile in tiles if visible[..., tile[0] : tile[1]].any()]
    return _online(query, key, value, mask, used or tiles[:1])


def split_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend to three splits of the keys apart, round each output, and merge them by their logsumexps."""
    query, key, value = equal_leading(query, key, value)
    allowed, dtype, wide = full_mask(mask, query, key), query.dtype, accumulator(query.dtype)
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    levels, outputs = [], []
    size = max(1, math.ceil(key.size(-2) / 3))
    for start, stop in _tiles(key.size(-2), size):
        scores = (query @ key[..., start:stop, :].mT) * query.size(-1) ** -0.5
        scores = scores.masked_fill(~allowed[..., start:stop], -INFINITY)
        level, weights = _normalised(scores)
        output = round_through(weights, dtype) @ value[..., start:stop, :]
        levels.append(level)
        outputs.append(round_through(output, dtype))
    _, shares = _normalised(torch.cat(levels, -1))
    merged = (shares.unsqueeze(-2) * torch.stack(outputs, -1)).sum(-1)
    return merged.to(dtype)


def _normalised(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return logsumexp (..., L, 1) and softmax; -inf and zeros for rows of -inf, with finite gradients."""
    shift = finite_or_zero(row_max(scores, empty=-INFINITY))
    exponentials = torch.exp(scores - shift)
    total = exponentials.sum(-1, keepdim=True)
    safe = one_where_zero(total)
    level = torch.where(total > 0, shift + safe.log(), torch.full_like(total, -INFINITY))
    return level, exponentials / safe


def sequential_sums(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Add every product in order, one after the other, into fp32."""
    query, key, value = equal_leading(query, key, value)
    allowed, dtype, wide = full_mask(mask, query, key), query.dtype, accumulator(query.dtype)
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    scores = torch.zeros(allowed.shape, dtype=wide, device=query.device)
    for c in range(query.size(-1)):
        scores = scores + query[..., :, None, c] * key[..., None, :, c]
    scores = (scores / math.sqrt(query.size(-1))).masked_fill(~allowed, lowest(scores))
    exponentials = torch.exp(scores - row_max(scores))
    total = exponentials.new_zeros((*query.shape[:-1], 1))
    output = exponentials[..., :0] @ value[..., :0, :]
    for j in range(key.size(-2)):
        total = total + exponentials[..., j : j + 1]
        output = output + exponentials[..., j : j + 1] * value[..., j : j + 1, :]
    return (output / one_where_zero(total)).to(dtype)


def running_sums(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Take normaliser and output from the last entry of cumulative sums over the keys."""
    query, key, value = equal_leading(query, key, value)
    allowed, dtype, wide = full_mask(mask, query, key), query.dtype, accumulator(query.dtype)
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    scores = (query @ key.mT * query.size(-1) ** -0.5).masked_fill(~allowed, -INFINITY)
    exponentials = torch.exp(scores - finite_or_zero(row_max(scores, empty=-INFINITY)))
    extended = torch.cat([torch.zeros_like(query[..., :1]), exponentials], -1)
    total = extended.cumsum(-1)[..., -1:]
    products = exponentials.unsqueeze(-1) * value.unsqueeze(-3)
    start = torch.zeros_like(products.sum(-2, keepdim=True))
    output = torch.cat([start, products], -2).cumsum(-2)[..., -1, :]
    return (output / one_where_zero(total)).to(dtype)


def loop_over_queries(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Answer one query after the other; key and value are fp32 first, where their gradients add up."""
    query, key, value = equal_leading(query, key, value)
    allowed, dtype, wide = full_mask(mask, query, key), query.dtype, accumulator(query.dtype)
    key, value = key.to(wide), value.to(wide)
    outputs, rows = [], []
    for i in range(query.size(-2)):
        scores = (key @ query[..., i, :, None].to(wide)).squeeze(-1) / math.sqrt(query.size(-1))
        weights = torch.softmax(scores.masked_fill(~allowed[..., i, :], lowest(scores)), -1)
        outputs.append((weights.unsqueeze(-2) @ value).to(dtype))
        rows.append(weights.unsqueeze(-2).to(dtype))
    if not rows:
        weights = (query.to(wide) @ key.mT).to(dtype)
        return (weights.to(wide) @ value).to(dtype), weights
    return torch.cat(outputs, -2), torch.cat(rows, -2)


def checkpointed_chunks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attend in chunks of two queries that are computed again in the backward pass."""
    query, key, value = equal_leading(query, key, value)
    allowed, dtype, wide = full_mask(mask, query, key), query.dtype, accumulator(query.dtype)
    query, key, value = query.to(wide), key.to(wide), value.to(wide)

    def chunk(q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Tensor:
        return safe_softmax((q @ k.mT) * q.size(-1) ** -0.5, a) @ v

    rows = range(0, max(query.size(-2), 1), 2)
    outputs = [
        checkpoint(
            chunk,
            query[..., i : i + 2, :],
            key,
            value,
            allowed[..., i : i + 2, :],
            use_reentrant=False,
            preserve_rng_state=False,
        )
        for i in rows
    ]
    return torch.cat(outputs, -2).to(dtype)


_FUSED = {"dtypes": HALVES_TOO, "precision": "fused", "second": None}
_ZEROS = {**_FUSED, "empty_row": "zeros"}
_UPCAST = {"dtypes": HALVES_TOO, "precision": "upcast", "second": None}
SOUND_TILED = (
    Program("online_block_1", online_block_1, _ZEROS, "an online softmax that rescales after every key"),
    Program("online_block_7", online_block_7, {**_UPCAST, "empty_row": "zeros"}, "odd tiles and unrounded weights"),
    Program("online_block_16_finite", online_block_16_finite, _FUSED, "an online softmax with a finite fill"),
    Program("online_block_64_reversed", online_block_64_reversed, _ZEROS, "tiles are visited from the right"),
    Program(
        "online_reversed_unrounded",
        online_reversed_unrounded,
        {**_UPCAST, "empty_row": "zeros"},
        "single keys from the last to the first",
    ),
    Program("online_skipping_tiles", online_skipping_tiles, _ZEROS, "tiles hidden from everybody are not visited"),
    Program("split_keys", split_keys, _ZEROS, "rounded partial outputs are merged by their logsumexps"),
    Program("sequential_sums", sequential_sums, _UPCAST, "every sum runs strictly in order"),
    Program("running_sums", running_sums, {**_UPCAST, "empty_row": "zeros"}, "sums are the end of a cumsum"),
    Program("loop_over_queries", loop_over_queries, {**_UPCAST, "second": "weights"}, "one query at a time"),
    Program(
        "checkpointed_chunks",
        checkpointed_chunks,
        {**_UPCAST, "empty_row": "zeros"},
        "backward recomputes chunks",
    ),
)
