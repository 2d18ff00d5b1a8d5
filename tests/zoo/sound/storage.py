"""Modules that hold fewer key and value heads, packed rows head by head, or no output projection."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..program import HALVES_TOO, Program
from .parts import Pair, lowest
from .plain import attend_plainly, attending


def _heads(tensor: Tensor, width: int) -> Tensor:
    """(B, L, H * D) to (B, H, L, D)."""
    return tensor.unflatten(-1, (-1, width)).transpose(1, 2)


class GroupedHeads(nn.Module):
    """q_proj for all heads, k_proj and v_proj for half of them or one; each serves a run of query heads."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.width, self.kv_heads = d_model // n_heads, self.shared_by(n_heads)
        self.repeats = n_heads // self.kv_heads
        self.q_proj = nn.Linear(d_model, d_model, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(d_model, self.kv_heads * self.width, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(d_model, d_model, bias=False)

    def shared_by(self, n_heads: int) -> int:
        """Return the number of key and value heads."""
        return n_heads // math.gcd(n_heads, 2)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q = _heads(self.q_proj(query), self.width)
        k = _heads(self.k_proj(key), self.width).repeat_interleave(self.repeats, 1)
        v = _heads(self.v_proj(value), self.width).repeat_interleave(self.repeats, 1)
        found = attend_plainly(q, k, v, attending(mask), empty=None)
        return self.o_proj(found.output.transpose(1, 2).flatten(2)), found.weights


class OneKeyHead(nn.Module):
    """Multi-query attention: one key and one value head for all, which are never repeated, in a packed layer."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.d_model, self.width = d_model, d_model // n_heads
        self.to_q = nn.Linear(d_model, d_model)
        self.to_kv = nn.Linear(d_model, 2 * self.width)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k = _heads(self.to_q(query), self.width), self.to_kv(key)[..., : self.width]
        v = F.linear(value, self.to_kv.weight[self.width :], self.to_kv.bias[self.width :])
        scores = torch.einsum("bhld,bsd->bhls", q * self.width**-0.5, k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, lowest(scores))
        mixed = torch.einsum("bhls,bsd->blhd", scores.softmax(-1), v)
        output: Tensor = self.to_out(mixed.flatten(2))
        return output


class PackedByHead(nn.Module):
    """query_key_value over one tensor, whose rows are a query, a key and a value for each head in turn."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query_key_value = nn.Linear(d_model, 3 * d_model)
        self.dense = nn.Linear(d_model, d_model)

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = self.query_key_value(hidden).unflatten(-1, (self.n_heads, 3, -1)).permute(3, 0, 2, 1, 4).unbind(0)
        found = attend_plainly(q, k, v, attending(mask), empty=None)
        return self.dense(found.output.transpose(1, 2).flatten(2)), found.weights


class GroupedPackedByHead(nn.Module):
    """One layer whose rows are, for every group, its queries, a key and a value."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.repeats = math.gcd(n_heads, 2)
        self.groups, self.width = n_heads // self.repeats, d_model // n_heads
        self.qkv_proj = nn.Linear(d_model, (n_heads + 2 * self.groups) * self.width)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        rows = self.qkv_proj(x).unflatten(-1, (self.groups, self.repeats + 2, self.width)).movedim(1, 3)
        q, k, v = rows.split([self.repeats, 1, 1], dim=2)
        found = attend_plainly(
            q.flatten(1, 2), k.expand_as(q).flatten(1, 2), v.expand_as(q).flatten(1, 2), attending(mask), empty=None
        )
        output: Tensor = self.out_proj(found.output.transpose(1, 2).flatten(2))
        return output


class WithoutOutput(nn.Module):
    """query, key and value around the attention; what follows the merged heads is left to the caller."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.width = d_model // n_heads
        self.query, self.key, self.value = (nn.Linear(d_model, d_model) for _ in range(3))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = (_heads(layer(x), self.width) for layer, x in
                   ((self.query, query), (self.key, key), (self.value, value)))  # fmt: skip
        found = attend_plainly(q, k, v, attending(mask), empty=None)
        return found.output.transpose(1, 2).flatten(2), found.weights


_ALL = {"dtypes": HALVES_TOO}
SOUND_STORAGE = (
    Program("grouped_heads", GroupedHeads, _ALL, "key and value projections of half the heads"),
    Program("one_key_head", OneKeyHead, {**_ALL, "second": None}, "one key and value head, never repeated"),
    Program("packed_by_head", PackedByHead, {**_ALL, "inputs": "self"}, "packed rows head by head"),
    Program(
        "grouped_packed_by_head",
        GroupedPackedByHead,
        {**_ALL, "inputs": "self", "second": None, "parameters": {"qkv": "qkv_proj by head", "output": "out_proj"}},
        "packed rows group by group, as declared",
    ),
    Program("without_output", WithoutOutput, _ALL, "no output projection"),
)
