"""Faulty grouped heads: query heads meet the wrong key head, or its gradient is not summed over the group."""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import BROADCAST, GROUPS, OUTPUT, Population
from .parts import Pair, altered, attend, spread_heads

mutants = Population()


def _group(query: Tensor, tensor: Tensor) -> int:
    """The number of query heads that share a head of `tensor`; 1 where nothing is grouped."""
    if query.dim() < 3 or tensor.dim() < 3 or tensor.size(-3) == 0:
        return 1
    return max(query.size(-3) // tensor.size(-3), 1)


def _tiled(query: Tensor, tensor: Tensor) -> Tensor:
    group = _group(query, tensor)
    return tensor if group == 1 else torch.cat([tensor] * group, dim=-3)


@mutants.add("OPTIONS", "NUMERIC", kind=GROUPS, repeats="B148 B149 numerics 32", heads="grouped")
def gqa_tiled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Repeats key and value heads 0, 1, 0, 1 in place of 0, 0, 1, 1."""
    return attend(query, _tiled(query, key), _tiled(query, value), mask)


@mutants.add("OPTIONS", "NUMERIC", kind=GROUPS, repeats="B148 numerics 32", heads="grouped")
def gqa_values_tiled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Repeats the value heads 0, 1, 0, 1 and the key heads rightly."""
    return attend(query, spread_heads(query, key), _tiled(query, value), mask)


@mutants.add("OPTIONS", "NUMERIC", kind=GROUPS, repeats="B153 numerics 32", heads="grouped")
def gqa_first_key_head_for_all(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Lets every query head use key and value head 0 as soon as heads are grouped."""
    if _group(query, key) > 1:
        key, value = key[..., :1, :, :], value[..., :1, :, :]
    return attend(query, key, value, mask)


@mutants.add("OPTIONS", "NUMERIC", kind=GROUPS, repeats="B149", heads="grouped")
def gqa_group_of_two_at_most(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Assumes groups of two: query head h uses key head h // 2, or the last one."""
    if _group(query, key) > 1:
        heads = torch.div(torch.arange(query.size(-3)), 2, rounding_mode="floor").clamp(max=key.size(-3) - 1)
        key, value = key[..., heads, :, :], value[..., heads, :, :]
    return attend(query, key, value, mask)


def _from_first_of_group(query: Tensor, tensor: Tensor) -> Tensor:
    """Spread heads whose gradient comes from the first query head of each group only."""
    group = _group(query, tensor)
    wide = spread_heads(query, tensor)
    if group == 1 or wide.size(-3) == 1:
        return wide
    others = (torch.arange(wide.size(-3)) % group > 0).reshape(-1, 1, 1)
    return altered(wide, lambda gradient: gradient.masked_fill(others, 0.0))


@mutants.add("GRADIENT", "OPTIONS", kind=GROUPS, repeats="B151 numerics 32", heads="grouped")
def gqa_kv_gradient_not_summed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes the gradient of a key and value head from the first query head of its group."""
    return attend(query, _from_first_of_group(query, key), _from_first_of_group(query, value), mask)


@mutants.add("GRADIENT", "OPTIONS", kind=GROUPS, repeats="B151 numerics 32", heads="grouped")
def gqa_key_gradient_averaged(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Averages the gradient of a key head over its group in place of summing it."""
    group = _group(query, key)
    wide = altered(spread_heads(query, key), lambda gradient: gradient / group)
    return attend(query, wide, spread_heads(query, value), mask)


@mutants.add("MASK", "OPTIONS", kind=BROADCAST, repeats="B071 B063", heads="grouped")
def gqa_mask_by_key_head(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Looks up a per-head mask by key head, so that a group shares the mask of one head."""
    group = _group(query, key)
    if group > 1 and mask is not None and mask.dim() > 2 and mask.size(-3) == query.size(-3):
        mask = mask[..., torch.arange(mask.size(-3)) // group, :, :]
    return attend(query, spread_heads(query, key), spread_heads(query, value), mask)


@mutants.add("WEIGHTS", "OPTIONS", kind=OUTPUT, heads="grouped")
def gqa_weights_per_key_head(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns the weights of one query head per group."""
    output, weights = attend(query, spread_heads(query, key), spread_heads(query, value), mask)
    group = _group(query, key)
    return output, weights[..., ::group, :, :] if group > 1 else weights


@mutants.add("ERRORS", "OPTIONS", kind="error not raised", repeats="B251", heads="grouped")
def gqa_heads_that_do_not_divide_accepted(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Accepts key heads that do not divide the query heads and uses the last for the rest (call: H=6 over 4)."""
    if query.dim() > 2 and key.dim() > 2 and key.size(-3) not in (1, query.size(-3)):
        group = _group(query, key)
        heads = (torch.arange(query.size(-3)) // group).clamp(max=key.size(-3) - 1)
        key, value = key[..., heads, :, :], value[..., heads, :, :]
    return attend(query, key, value, mask)
