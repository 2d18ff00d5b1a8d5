"""labml-nn: MultiHeadAttention of its transformer."""

from __future__ import annotations

from typing import Any

from labml_nn.transformers.mha import MultiHeadAttention
from torch import Tensor

from attention_conformance import register


def build(d_model: int, heads: int) -> Any:
    """Build the module without dropout."""
    return MultiHeadAttention(heads, d_model, dropout_prob=0.0)


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it with a mask (L, S, B)."""
    return module(query=query, key=key, value=value, mask=None if mask is None else mask.permute(1, 2, 0))


multi_head_attention = register(
    build, reference="MultiHeadAttention", call=call, layout="LBE", mask_shapes=("BLS",), second=None, empty_row="nan",
)  # fmt: skip
