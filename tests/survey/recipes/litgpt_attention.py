"""litgpt: CausalSelfAttention, with as many and with fewer key heads, at position 0."""

from __future__ import annotations

from typing import Any

from litgpt.config import Config
from litgpt.model import CausalSelfAttention
from torch import Tensor

from attention_conformance import register


def config(d_model: int, heads: int, groups: int, **more: Any) -> Any:
    """Return a configuration of this size."""
    width = d_model // heads
    return Config(
        n_embd=d_model, n_head=heads, head_size=width, n_query_groups=groups, n_layer=1, rotary_percentage=0.0, **more
    )


def equal(d_model: int, heads: int) -> Any:
    """Build the module with as many key heads as query heads."""
    return CausalSelfAttention(config(d_model, heads, heads, bias=True), 0)


def grouped(d_model: int, heads: int) -> Any:
    """Build the module with half as many key heads where they divide."""
    return CausalSelfAttention(config(d_model, heads, heads // 2 if heads % 2 == 0 else 1, bias=True), 0)


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None) -> Any:
    """Call it with no part of a head that is turned by its position."""
    empty = query.new_zeros(1, query.shape[1], 0)
    return module(query, empty, empty)


_ANSWERS: dict[str, Any] = {
    "reference": "MultiHeadAttention", "inputs": "self", "mask": (), "causal": "always top-left", "second": None,
    "precision": "fused", "gradient": "once", "call": call,
}  # fmt: skip

causal_self_attention = register(equal, **_ANSWERS)
causal_self_attention_grouped = register(grouped, **_ANSWERS)
