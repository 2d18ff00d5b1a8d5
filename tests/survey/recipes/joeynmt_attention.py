"""joeynmt: its attention takes key, value and query in this order."""

from __future__ import annotations

from typing import Any

from joeynmt.transformer_layers import MultiHeadedAttention
from torch import Tensor

from attention_conformance import register


def build(d_model: int, heads: int) -> Any:
    """Build the module without dropout."""
    return MultiHeadedAttention(heads, d_model, dropout=0.0)


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it with its averaged weights."""
    return module(key, value, query, mask=mask, return_weights=True)


multi_headed_attention = register(
    build,
    reference="MultiHeadAttention",
    call=call,
    mask=("bool",),
    mask_shapes=("BLS",),
    second="averaged weights",
    empty_row="nan",
)
