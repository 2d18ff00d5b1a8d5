"""Small packages of language models: pylmt, simple-transformer, toroidal and uni2ts."""

from __future__ import annotations

from typing import Any

from lmt.layers.attention.flash_attention import flash_attention
from lmt.layers.attention.grouped_query_attention import GroupedQueryAttention
from lmt.models.config import ModelConfig
from torch import Tensor
from toroidal.models import Attention
from uni2ts.module.attention import GroupedQueryAttention as Uni2tsAttention
from uni2ts.module.attention import native_scaled_dot_product_attention

from attention_conformance import register


def flash(function: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None, *, causal: bool = False) -> Any:
    """Call pylmt's flash attention in about three blocks."""
    return function(query, key, value, block_size=query.shape[-2] // 3 + 1, causal=causal)


def lmt_grouped(d_model: int, heads: int) -> Any:
    """Build pylmt's module with half as many key heads where they divide."""
    groups = heads // 2 if heads % 2 == 0 else 1
    return GroupedQueryAttention(
        ModelConfig(embed_dim=d_model, num_heads=heads, num_kv_heads=groups, context_length=1024)
    )


def uni2ts(d_model: int, heads: int) -> Any:
    """Build uni2ts' module without its norms, with half as many key heads where they divide."""
    return Uni2tsAttention(d_model, heads, heads // 2 if heads % 2 == 0 else 1, norm_layer=None)


def one(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None) -> Any:
    """Call a module with one tensor."""
    return module(query)


_SELF: dict[str, Any] = {"reference": "MultiHeadAttention", "inputs": "self", "mask": (), "second": None, "call": one}

lmt_flash_attention = register(
    flash_attention, call=flash, layout="BHLD", leading="equal", lengths="equal", value_width="same", mask=(), no_keys="error",
    causal="top-left", second=None,
)  # fmt: skip
lmt_grouped_query_attention = register(lmt_grouped, causal="always top-left", precision="softmax32", **_SELF)
toroidal_attention = register(Attention, **_SELF)
uni2ts_native = register(
    native_scaled_dot_product_attention, leading="equal", mask=("bool", "additive"), empty_row="nan", second=None,
    options=("scale",),
)  # fmt: skip
uni2ts_grouped_query_attention = register(
    uni2ts, reference="MultiHeadAttention", mask=("bool",), mask_shapes=("BLS",), empty_row="zeros", second=None,
    precision="fused", gradient="once",
)  # fmt: skip
