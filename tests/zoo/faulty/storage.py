"""Faulty modules whose storage is unusual: fewer key and value heads, rows packed head by head."""

from __future__ import annotations

import math

from torch import Tensor, nn

from ..mutant import GROUPS, LAYOUT, Population
from .parts import Pair, attend

mutants = Population()

MHA = "MultiHeadAttention"


@mutants.add("PROJECTION", kind=GROUPS, reference=MHA)
class GroupedHeadsTiled(nn.Module):
    """Repeats its fewer key and value heads as a whole, so that query head h meets h modulo their number."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.width, self.repeats = d_model // n_heads, math.gcd(n_heads, 2)
        narrow = d_model // self.repeats
        self.q_proj, self.o_proj = (nn.Linear(d_model, d_model, bias=False) for _ in range(2))
        self.k_proj, self.v_proj = (nn.Linear(d_model, narrow, bias=False) for _ in range(2))

    def split(self, tensor: Tensor) -> Tensor:
        """(B, L, heads * width) to (B, heads, L, width)."""
        return tensor.unflatten(-1, (-1, self.width)).transpose(1, 2)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        keys, values = (
            self.split(layer(tensor)).repeat(1, self.repeats, 1, 1)
            for layer, tensor in ((self.k_proj, key), (self.v_proj, value))
        )
        output, weights = attend(self.split(self.q_proj(query)), keys, values, mask)
        return self.o_proj(output.transpose(1, 2).flatten(2)), weights


@mutants.add(
    "PROJECTION",
    kind=LAYOUT,
    repeats="B145",
    reference=MHA,
    inputs="self",
    parameters={"qkv": "query_key_value by head", "output": "dense"},
)
class RowsByHeadCutIntoBlocks(nn.Module):
    """Cuts rows into blocks of query, key and value although the checkpoint that it declares holds them by head."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.query_key_value, self.dense = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Pair:
        heads = self.query_key_value(x).unflatten(-1, (3, self.n_heads, -1)).permute(2, 0, 3, 1, 4)
        output, weights = attend(heads[0], heads[1], heads[2], mask)
        return self.dense(output.transpose(1, 2).flatten(2)), weights
