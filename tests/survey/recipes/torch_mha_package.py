"""torch-multi-head-attention: its kernel, and its module with and without an activation."""

from __future__ import annotations

from typing import Any

from torch_multi_head_attention import MultiHeadAttention, ScaledDotProductAttention

from attention_conformance import register


def plain(d_model: int, heads: int) -> Any:
    """Build the module without its activation after the projections."""
    return MultiHeadAttention(d_model, heads, activation=None)


def activated(d_model: int, heads: int) -> Any:
    """Build the module as it comes."""
    return MultiHeadAttention(d_model, heads)


_MODULE: dict[str, Any] = {"reference": "MultiHeadAttention", "mask_shapes": ("BLS",), "second": None}

kernel = register(ScaledDotProductAttention(), leading="equal", second=None)
multi_head_attention = register(plain, **_MODULE)
multi_head_attention_activated = register(activated, **_MODULE)
