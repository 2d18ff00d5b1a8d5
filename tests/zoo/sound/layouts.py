"""Kernels that differ in the order of axes, in the sizes that they accept, and in their second result."""

from __future__ import annotations

import torch
from torch import Tensor

from ..program import HALVES_TOO, Program
from .parts import Pair, accumulator
from .plain import LOG2_E, attend_plainly, attending


def four_axes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Accept (B, H, L, D) only."""
    batch, heads, _, _ = query.shape
    found = attend_plainly(query, key, value, attending(mask), empty=None)
    return found.output.reshape(batch, heads, query.size(2), value.size(3)), found.weights


def heads_third(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Take (B, L, H, D) and keep weights as (B, H, L, S)."""
    scores = torch.einsum("blhd,bshd->bhls", query, key) * query.size(-1) ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
    weights = scores.softmax(-1)
    return torch.einsum("bhls,bshe->blhe", weights, value), weights


def sequence_first(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Take (L, B, H, D) and merge batch and heads."""
    batch, heads = query.shape[1:3]
    query, key, value = (tensor.flatten(1, 2).transpose(0, 1) for tensor in (query, key, value))
    scores = torch.bmm(query, key.transpose(1, 2)) * query.size(-1) ** -0.5
    scores = scores.unflatten(0, (batch, heads))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(-1)
    output = torch.bmm(weights.flatten(0, 1), value).unflatten(0, (batch, heads))
    return output.permute(2, 0, 1, 3), weights


def heads_third_forward_copy(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Copy (B, L, H, D) into (B, H, L, D) and the contiguous result back."""
    query, key, value = (tensor.permute(0, 2, 1, 3).contiguous() for tensor in (query, key, value))
    return attend_plainly(query, key, value, attending(mask)).output.permute(0, 2, 1, 3).contiguous()


def grouped_by_repeat(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Repeat each key and value head for its consecutive query heads."""
    groups = query.size(1) // key.size(1)
    found = attend_plainly(
        query,
        key.repeat_interleave(groups, dim=1),
        value.repeat_interleave(groups, dim=1),
        attending(mask),
        empty=None,
    )
    return found.output, found.weights


def grouped_by_axis(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Split the query heads into an axis of groups and share each key head by broadcasting."""
    query = query.unflatten(1, (key.size(1), -1))
    if mask is not None:
        mask = mask.expand(query.size(0), query.size(1) * query.size(2), query.size(3), key.size(2))
        mask = mask.unflatten(1, tuple(query.shape[1:3])) != 0
    found = attend_plainly(query, key.unsqueeze(2), value.unsqueeze(2), mask, empty=None)
    return found.output.flatten(1, 2), found.weights.flatten(1, 2)


def grouped_by_longer_query(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Lay the query heads of a group one behind the other along the axis of queries, heads third."""
    batch, length, heads, width = query.shape
    groups = key.size(2)
    query = query.transpose(1, 2).reshape(batch, groups, heads // groups * length, width)
    if mask is not None:
        mask = mask.expand(batch, heads, length, key.size(1)).reshape(*query.shape[:3], key.size(1)) != 0
    output = attend_plainly(query, key.transpose(1, 2), value.transpose(1, 2), mask).output
    return output.reshape(batch, heads, length, value.size(-1)).transpose(1, 2)


def equal_leading_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Refuse leading axes that differ."""
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        raise ValueError("query, key and value must have equal leading axes")
    found = attend_plainly(query, key, value, attending(mask), empty=None)
    return found.output, found.weights


def powers_of_two_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Refuse key widths other than 4, 8, 16, 32, 64 and 128."""
    if query.size(-1) not in (4, 8, 16, 32, 64, 128):
        raise ValueError(f"the width {query.size(-1)} is not supported")
    found = attend_plainly(query, key, value, attending(mask), empty=None)
    return found.output, found.weights


def one_width(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Refuse values that are not as wide as the keys."""
    if value.size(-1) != key.size(-1):
        raise ValueError("key and value must have the same width")
    stacked = torch.stack(torch.broadcast_tensors(key, value))
    found = attend_plainly(query, stacked[0], stacked[1], attending(mask), empty=None)
    return found.output, found.weights


def output_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the output alone."""
    return attend_plainly(query, key, value, attending(mask), empty=None).output


def weights_averaged(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Return the mean of the weights over the heads."""
    found = attend_plainly(query, key, value, attending(mask), empty=None)
    return found.output, found.weights.mean(dim=1)


def with_logsumexp(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Return the natural logsumexp of the scores."""
    found = attend_plainly(query, key, value, attending(mask))
    return found.output, found.logsumexp


def with_rounded_logsumexp(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Return the natural logsumexp in the working dtype, from scores rounded to it."""
    scores = (query @ key.mT) * query.size(-1) ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -float("inf"))
    level = torch.logsumexp(scores.to(accumulator(query.dtype)), -1)
    empty = torch.isneginf(level).unsqueeze(-1)
    weights = torch.softmax(scores.masked_fill(empty, 0.0), -1).masked_fill(empty, 0.0)
    return weights @ value, level.to(query.dtype)


def with_logsumexp_base_two(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Return the base-two logarithm of the sum of exponentials."""
    found = attend_plainly(query, key, value, attending(mask))
    return found.output, found.logsumexp * LOG2_E


_HEADS = {"layout": "BHLD", "dtypes": HALVES_TOO}
_LSE = {"dtypes": HALVES_TOO, "empty_row": "zeros"}
SOUND_LAYOUTS = (
    Program("four_axes", four_axes, _HEADS, "exactly four axes"),
    Program("heads_third", heads_third, {"layout": "BLHD"}, "einsum over (B, L, H, D)"),
    Program("sequence_first", sequence_first, {"layout": "LBHD", "leading": "equal"}, "(L, B, H, D) and bmm"),
    Program(
        "heads_third_forward_copy",
        heads_third_forward_copy,
        {"layout": "BLHD", "second": None, "empty_row": "zeros"},
        "copies to heads second and back",
    ),
    Program(
        "grouped_by_repeat",
        grouped_by_repeat,
        {**_HEADS, "heads": "grouped", "leading": "equal"},
        "key heads are repeated",
    ),
    Program(
        "grouped_by_axis",
        grouped_by_axis,
        {**_HEADS, "heads": "grouped", "leading": "equal"},
        "groups are an axis",
    ),
    Program(
        "grouped_by_longer_query",
        grouped_by_longer_query,
        {"layout": "BLHD", "heads": "grouped", "leading": "equal", "second": None, "empty_row": "zeros"},
        "the query heads of a group lie behind one another",
    ),
    Program("equal_leading_only", equal_leading_only, {"leading": "equal"}, "leading axes never broadcast"),
    Program(
        "powers_of_two_only",
        powers_of_two_only,
        {"widths": (4, 8, 16, 32, 64, 128)},
        "other widths raise ValueError",
    ),
    Program("one_width", one_width, {"value_width": "same"}, "key and value share one tensor"),
    Program("output_only", output_only, {"second": None, "dtypes": HALVES_TOO}, "there is no second result"),
    Program(
        "weights_averaged",
        weights_averaged,
        {**_HEADS, "second": "averaged weights", "leading": "equal"},
        "weights are averaged over heads",
    ),
    Program("with_logsumexp", with_logsumexp, {**_LSE, "second": "lse"}, "the second result is logsumexp in fp32"),
    Program(
        "with_rounded_logsumexp",
        with_rounded_logsumexp,
        {**_LSE, "second": "lse"},
        "the second result is logsumexp in the working dtype",
    ),
    Program("with_logsumexp_base_two", with_logsumexp_base_two, {**_LSE, "second": "lse2"}, "log2 of the sum"),
)
