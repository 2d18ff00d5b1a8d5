"""stackformer: self attention with and without grouped heads."""

from __future__ import annotations

from typing import Any

from stackformer.modules.Attention import Group_query_Attention, Multi_Head_Attention
from torch import Tensor

from attention_conformance import register


def multi_head(d_model: int, heads: int) -> Any:
    """Build the module with a causal mask to switch on."""
    return Multi_Head_Attention(d_model, heads, mask_type=["causal"])


def grouped(d_model: int, heads: int) -> Any:
    """Build the module with half as many key heads where they divide."""
    return Group_query_Attention(d_model, heads, heads // 2 if heads % 2 == 0 else 1, mask_type=["causal"])


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None, *, causal: bool = False) -> Any:
    """Call either module."""
    return module(query, mask=causal)


_ANSWERS: dict[str, Any] = {
    "reference": "MultiHeadAttention",
    "inputs": "self",
    "mask": (),
    "causal": "top-left",
    "second": None,
    "precision": "fused",
    "gradient": "once",
    "call": call,
}

multi_head_attention = register(multi_head, **_ANSWERS)
group_query_attention = register(grouped, **_ANSWERS)
