"""torch's own attention where it takes more than a call: causal bias objects, and flex_attention run eagerly."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from attention_conformance import register

_ALL = ("fp64", "fp32", "bf16", "fp16")


def lower_right(function: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None) -> Tensor:
    """Call scaled_dot_product_attention with the bias object that aligns the triangle with the last key."""
    from torch.nn.attention.bias import causal_lower_right

    return function(query, key, value, causal_lower_right(query.shape[-2], key.shape[-2]))


def upper_left(function: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None) -> Tensor:
    """Call scaled_dot_product_attention with the bias object that aligns the triangle with the first key."""
    from torch.nn.attention.bias import causal_upper_left

    return function(query, key, value, causal_upper_left(query.shape[-2], key.shape[-2]))


def flex_attention(query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
    """Call torch's flex_attention without compiling it."""
    from torch.nn.attention.flex_attention import flex_attention as flex

    grouped = query.shape[1] > key.shape[1]
    return flex(query, key, value, enable_gqa=grouped, return_lse=True, **options)


def flex_block_mask(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False,
    scale: float | None = None,
) -> Any:  # fmt: skip
    """Call flex_attention with the mask, (B, H, L, S), and the triangle as one block mask."""
    from torch.nn.attention.flex_attention import create_block_mask

    sizes = (*query.shape[:3], key.shape[2])
    seen = None if mask is None else mask.expand(sizes)

    def allowed(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        by_mask = torch.ones_like(q, dtype=torch.bool) if seen is None else seen[b, h, q, k]
        return by_mask & (k <= q) if causal else by_mask

    block = create_block_mask(allowed, *sizes, device=str(query.device)) if causal or mask is not None else None
    return function(query, key, value, block_mask=block, scale=scale)


def flex_score(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Any:
    """Call flex_attention with an additive mask, (B, H, L, S), in its score_mod."""
    if mask is None:
        return function(query, key, value, scale=scale)
    bias = mask.expand(*query.shape[:3], key.shape[2])
    return function(query, key, value, scale=scale, score_mod=lambda score, b, h, q, k: score + bias[b, h, q, k])


_LOWER = {"layout": "BHLD", "leading": "equal", "mask": (), "second": None, "dtypes": _ALL, "precision": "fused"}
_FLEX = {
    "layout": "BHLD", "leading": "equal", "heads": "grouped", "mask_shapes": ("BHLS",), "empty_row": "zeros", "no_keys": "error",
    "second": "lse", "options": ("scale",), "dtypes": _ALL, "precision": "fused", "gradient": "none",
}  # fmt: skip

sdpa_causal_lower_right = register(
    scaled_dot_product_attention, call=lower_right, causal="always bottom-right", empty_row="zeros", gradient="once",
    **_LOWER,
)  # fmt: skip
sdpa_causal_upper_left = register(
    scaled_dot_product_attention, call=upper_left, causal="always top-left", gradient="once", **_LOWER
)
flex_attention_eager_block_mask = register(
    flex_attention, call=flex_block_mask, mask=("bool",), causal="top-left", **_FLEX
)
flex_attention_eager = register(flex_attention, call=flex_score, mask=("additive",), **_FLEX)
