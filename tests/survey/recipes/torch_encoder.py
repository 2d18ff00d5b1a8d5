"""torch's TransformerEncoderLayer: its self attention, without the norms and the feed-forward part."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from attention_conformance import register


def build(d_model: int, heads: int) -> Any:
    """Build a layer for tensors (B, L, d_model)."""
    return nn.TransformerEncoderLayer(d_model, heads, dim_feedforward=d_model, dropout=0.0, batch_first=True)


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call the part that attends."""
    return module._sa_block(query, mask, None)


_PARAMETERS = {"qkv": "self_attn.in_proj_weight self_attn.in_proj_bias", "output": "self_attn.out_proj"}

self_attention = register(
    build, reference="MultiHeadAttention", call=call, inputs="self", mask=("bool", "additive"), mask_means="hide",
    mask_shapes=("LS", "(BH)LS"), empty_row="unspecified", second=None, gradient="once", parameters=_PARAMETERS,
)  # fmt: skip
