"""transformerkit: a kernel and its module, in whose mask 1 hides."""

from __future__ import annotations

from typing import Any

from transformerkit.attention import MultiHeadAttention, scaled_dot_product_attention

from attention_conformance import register


def build(d_model: int, heads: int) -> Any:
    """Build the module without dropout."""
    return MultiHeadAttention(d_model, heads, dropout=0.0)


kernel = register(scaled_dot_product_attention, leading="equal", mask=("bool",), mask_means="hide", second="weights")
multi_head_attention = register(
    build, reference="MultiHeadAttention", mask=("bool",), mask_means="hide", second="weights"
)
