"""Implementations that take their tensors in another form: axes merged, lengths bound to each other, a context."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..program import HALVES_TOO, Program
from .parts import Pair
from .plain import attend_plainly, attending


def three_axes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Take (B * H, L, D) only, and multiply by bmm."""
    scores = torch.bmm(query, key.transpose(1, 2)) * query.size(-1) ** -0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = scores.softmax(-1)
    return torch.bmm(weights, value), weights


def _split(tensor: Tensor, heads: int) -> Tensor:
    return tensor.unflatten(-1, (heads, -1)).transpose(1, 2)


def heads_in_the_width(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, heads: int, kv_heads: int | None = None
) -> Pair:
    """Take (B, L, H * D) and the number of heads beside it."""
    groups = heads // (kv_heads or heads)
    key, value = (_split(tensor, kv_heads or heads).repeat_interleave(groups, 1) for tensor in (key, value))
    found = attend_plainly(_split(query, heads), key, value, attending(mask), empty=None)
    return found.output.transpose(1, 2).flatten(2), found.weights


def sequence_first_heads_in_the_width(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, heads: int
) -> Pair:
    """Take (L, B, H * D) and the number of heads beside it."""
    output, weights = heads_in_the_width(*(x.transpose(0, 1) for x in (query, key, value)), mask, heads=heads)
    return output.transpose(0, 1), weights


def one_length(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Refuse a query that is not as long as the key."""
    if query.size(-2) != key.size(-2):
        raise ValueError("query and key must have the same length")
    found = attend_plainly(query, key, value, attending(mask), empty=None)
    return found.output, found.weights


def no_more_queries_than_keys(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Refuse a query that is longer than the key; the last query sees every key."""
    queries, keys = query.size(-2), key.size(-2)
    if queries > keys:
        raise ValueError("there are more queries than keys")
    allowed = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    return attend_plainly(query, key, value, allowed).output


class Perceiving(nn.Module):
    """A query, and one context tensor for key and value, as cross attention is mostly written."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.to_q = nn.Linear(d_model, d_model, bias=False)
        self.to_kv = nn.Linear(d_model, 2 * d_model, bias=False)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, context: Tensor, mask: Tensor | None = None) -> Pair:
        key, value = self.to_kv(context).chunk(2, dim=-1)
        query, key, value = (_split(tensor, self.n_heads) for tensor in (self.to_q(x), key, value))
        found = attend_plainly(query, key, value, attending(mask), empty=None)
        return self.to_out(found.output.transpose(1, 2).flatten(2)), found.weights


def one_store(query: Tensor, store: Tensor, mask: Tensor | None = None) -> Tensor:
    """Use one tensor as key and as value."""
    return attend_plainly(query, store, store, attending(mask), empty=None).output


_ALIKE = {"dtypes": HALVES_TOO, "leading": "equal"}
SOUND_DELIVERIES = (
    Program("three_axes", three_axes, {"layout": "(BH)LD", "leading": "equal"}, "batch and heads are one axis"),
    Program(
        "heads_in_the_width",
        heads_in_the_width,
        {**_ALIKE, "layout": "BL(HD)", "heads": "grouped"},
        "heads and width are one axis",
    ),
    Program(
        "sequence_first_heads_in_the_width",
        sequence_first_heads_in_the_width,
        {**_ALIKE, "layout": "LB(HD)"},
        "heads and width are one axis, lengths come first",
    ),
    Program("one_length", one_length, {"dtypes": HALVES_TOO, "lengths": "equal"}, "L is S"),
    Program(
        "no_more_queries_than_keys",
        no_more_queries_than_keys,
        {"dtypes": HALVES_TOO, "lengths": "at most", "causal": "always bottom-right", "mask": (), "second": None},
        "a causal kernel with a cache in mind",
    ),
    Program("perceiving", Perceiving, {**_ALIKE, "inputs": "context"}, "key and value are one tensor"),
    Program(
        "one_store",
        one_store,
        {**_ALIKE, "inputs": "context", "second": None},
        "a kernel whose keys are its values",
    ),
)
