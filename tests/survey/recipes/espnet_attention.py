"""espnet: the attention of its transformer, with its own softmax and with scaled_dot_product_attention."""

from __future__ import annotations

from typing import Any

from espnet.nets.pytorch_backend.transformer.attention import MultiHeadedAttention
from torch import Tensor

from attention_conformance import register


def build(d_model: int, heads: int) -> Any:
    """Build the module without dropout."""
    return MultiHeadedAttention(heads, d_model, 0.0)


def build_sdpa(d_model: int, heads: int) -> Any:
    """Build the module with scaled_dot_product_attention."""
    return MultiHeadedAttention(heads, d_model, 0.0, use_sdpa=True)


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it; its mask is not optional, and may be None."""
    return module(query, key, value, mask)


_ANSWERS: dict[str, Any] = {
    "reference": "MultiHeadAttention",
    "mask": ("bool", "number"),
    "mask_shapes": ("BLS",),
    "second": None,
    "empty_row": "zeros",
    "call": call,
}

multi_headed_attention = register(build, **_ANSWERS)
multi_headed_attention_sdpa = register(
    build_sdpa, **{**_ANSWERS, "mask": ("bool",), "precision": "fused", "gradient": "once"}
)
