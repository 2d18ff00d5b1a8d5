"""nystrom-attention: NystromAttention with four landmarks."""

from __future__ import annotations

from typing import Any

from nystrom_attention import NystromAttention
from torch import Tensor

from attention_conformance import register


def build(d_model: int, heads: int) -> Any:
    """Build the module without its convolution."""
    return NystromAttention(d_model, dim_head=d_model // heads, heads=heads, num_landmarks=4, residual=False)


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None) -> Any:
    """Call it with one tensor."""
    return module(query)


nystrom_attention = register(
    build,
    reference="MultiHeadAttention",
    call=call,
    inputs="self",
    mask=(),
    second=None,
    dtypes=("fp64", "fp32"),
)
