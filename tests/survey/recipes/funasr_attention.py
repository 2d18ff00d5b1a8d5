"""funasr: the attention of its transformer."""

from __future__ import annotations

from typing import Any

from funasr.models.sanm.attention import MultiHeadedAttention
from torch import Tensor

from attention_conformance import register


def build(d_model: int, heads: int) -> Any:
    """Build the module without dropout."""
    return MultiHeadedAttention(heads, d_model, 0.0)


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it; its mask is not optional, and may be None."""
    return module(query, key, value, mask)


multi_headed_attention = register(
    build,
    reference="MultiHeadAttention",
    call=call,
    mask=("bool", "number"),
    mask_shapes=("BLS",),
    second=None,
    empty_row="zeros",
)
