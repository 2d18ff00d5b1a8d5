"""Sound modules in small steps, each of which a faulty module overrides in one place."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from .parts import Pair, attend


class MultiHead(nn.Module):
    """Multi-head attention with four projections; heads are consecutive slices of d_model, scale 1/sqrt(d_k).

    `forward` takes query (B, L, d_model), key and value (B, S, d_model) and a mask that broadcasts to (B, H, L, S);
    it returns the output (B, L, d_model) and the weights (B, H, L, S).
    """

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.d_model, self.n_heads, self.d_k = d_model, n_heads, d_model // n_heads
        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.W_q(query), self.W_k(key), self.W_v(value)

    def split(self, tensor: Tensor) -> Tensor:
        """(B, L, d_model) to (B, H, L, d_k)."""
        return tensor.reshape(*tensor.shape[:2], self.n_heads, self.d_k).transpose(1, 2)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return attend(query, key, value, mask)

    def merge(self, output: Tensor) -> Tensor:
        """(B, H, L, d_k) to (B, L, d_model)."""
        output = output.transpose(1, 2)
        return output.reshape(*output.shape[:2], self.d_model)

    def finish(self, merged: Tensor) -> Tensor:
        result: Tensor = self.W_o(merged)
        return result

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        query, key, value = self.project(query, key, value)
        output, weights = self.attend(self.split(query), self.split(key), self.split(value), mask)
        return self.finish(self.merge(output)), weights


class SharedHeads(nn.Module):
    """Multi-head attention whose heads share projections of one head's width, scale 1/sqrt(embed_size).

    `forward` takes values and keys (B, S, embed_size), query (B, L, embed_size) and a mask; it returns the output.
    """

    def __init__(self, embed_size: int, heads: int) -> None:
        super().__init__()
        self.embed_size, self.heads, self.head_dim = embed_size, heads, embed_size // heads
        self.values = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.keys = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.queries = nn.Linear(self.head_dim, self.head_dim, bias=False)
        self.fc_out = nn.Linear(heads * self.head_dim, embed_size)

    def split(self, tensor: Tensor) -> Tensor:
        """(B, L, embed_size) to (B, L, H, head_dim)."""
        return tensor.reshape(*tensor.shape[:2], self.heads, self.head_dim)

    def energy(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        energy = torch.einsum("nqhd,nkhd->nhqk", queries, keys)
        energy = energy if mask is None else energy.masked_fill(mask == 0, -1e20)
        return energy / math.sqrt(self.embed_size)

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        queries = self.queries(self.split(query))
        weights = torch.softmax(self.energy(queries, self.keys(self.split(keys)), mask), dim=3)
        output = torch.einsum("nhql,nlhd->nqhd", weights, self.values(self.split(values)))
        result: Tensor = self.fc_out(output.reshape(*query.shape[:2], self.heads * self.head_dim))
        return result
