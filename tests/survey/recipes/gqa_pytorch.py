"""grouped-query-attention-pytorch: the kernel, and the module without its layer norm."""

from __future__ import annotations

from typing import Any

from grouped_query_attention_pytorch.attention import MultiheadGQA, scaled_dot_product_gqa
from torch import Tensor

from attention_conformance import register


def kernel(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Any:
    """Call the kernel and put the axes of its weights, (B, L, S, H), in order."""
    output, weights = function(query, key, value, mask=mask, is_causal=causal or None, need_weights=True)
    return output, weights.permute(0, 3, 1, 2)


def averaged(function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call the kernel for weights that are averaged over the heads."""
    return function(query, key, value, mask=mask, need_weights=True, average_attn_weights=True)


def build(d_model: int, heads: int) -> Any:
    """Build the module with half as many key heads where they divide."""
    return MultiheadGQA(d_model, heads, heads // 2 if heads % 2 == 0 else 1, layer_norm=False)


def module(target: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None, *, causal: bool = False) -> Any:
    """Call the module."""
    return target(query, key, value, is_causal=causal)[0]


_KERNEL: dict[str, Any] = {
    "layout": "BLHD", "leading": "equal", "heads": "grouped", "mask": ("bool",), "mask_shapes": ("BS", "BLS"),
    "value_width": "same",
}  # fmt: skip

scaled_dot_product = register(
    scaled_dot_product_gqa, call=kernel, second="weights", causal="top-left", causal_with_mask="error", **_KERNEL
)
scaled_dot_product_averaged = register(scaled_dot_product_gqa, call=averaged, second="averaged weights", **_KERNEL)
multihead_gqa = register(
    build, reference="MultiHeadAttention", call=module, mask=(), second=None, causal="top-left", widths=(8, 16, 32, 64)
)
