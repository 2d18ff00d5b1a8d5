"""perceiver-io: MultiHeadAttention, with and without its causal mask."""

from __future__ import annotations

from typing import Any

from perceiver.model.core.modules import MultiHeadAttention
from torch import Tensor

from attention_conformance import register


def build(d_model: int, heads: int) -> Any:
    """Build the module."""
    return MultiHeadAttention(heads, d_model, d_model)


def causal(d_model: int, heads: int) -> Any:
    """Build the module with its causal mask."""
    return MultiHeadAttention(heads, d_model, d_model, causal_attention=True)


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it with a mask of the keys that are padding."""
    return module(query, key, pad_mask=mask)


_ANSWERS: dict[str, Any] = {
    "reference": "MultiHeadAttention",
    "inputs": "context",
    "mask": ("bool",),
    "mask_means": "hide",
    "mask_shapes": ("BS",),
    "second": None,
    "call": call,
}

multi_head_attention = register(build, **_ANSWERS)
multi_head_attention_causal = register(causal, causal="always bottom-right", **_ANSWERS)
