"""curated-transformers: ScaledDotProductAttention."""

from __future__ import annotations

from typing import Any

import torch
from curated_transformers.layers.attention import AttentionMask, ScaledDotProductAttention
from torch import Tensor

from attention_conformance import register


def call(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Any:
    """Call it; its mask, (B, S), is not optional."""
    keep = torch.ones(query.shape[0], key.shape[2], dtype=torch.bool) if mask is None else mask
    return function(query=query, key=key, value=value, attention_mask=AttentionMask(keep), use_causal_mask=causal)


scaled_dot_product = register(
    ScaledDotProductAttention(dropout_prob=0.0, linear_biases=None), call=call, layout="BHLD", leading="equal", mask=("bool",),
    lengths="at most", mask_shapes=("BS",), causal="bottom-right", second=None,
)  # fmt: skip
