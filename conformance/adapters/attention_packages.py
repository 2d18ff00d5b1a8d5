"""Packages about attention itself: x-transformers, memory-efficient-attention-pytorch and their relatives."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .adapter import Adapter

_KEYS = ("BS",)
_FULL = ("B11S", "B1LS", "BHLS")

_KERNEL: dict[str, Any] = {
    "layout": "BHLD",
    "leading": "equal",
    "mask": ("bool",),
    "mask_shapes": _FULL,
    "second": None,
}
_CONTEXT: dict[str, Any] = {
    "inputs": "context",
    "leading": "equal",
    "mask": ("bool",),
    "mask_shapes": _KEYS,
    "second": None,
}


def with_dim_head(target: Any, d_model: int, heads: int) -> Any:
    """Build a module whose heads have the width d_model / heads."""
    return target(dim=d_model, heads=heads, dim_head=d_model // heads)


def with_context_width(target: Any, d_model: int, heads: int) -> Any:
    """Build a module that is told the width of its context too."""
    return target(d_model, d_model, heads=heads, dim_head=d_model // heads)


def with_flash(target: Any, d_model: int, heads: int) -> Any:
    """Build a module that calls scaled_dot_product_attention."""
    return target(dim=d_model, heads=heads, dim_head=d_model // heads, flash=True)


def context(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call a module `forward(x, context, mask)`."""
    return module(query, context=key, mask=mask)


def x_context(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call x_transformers' Attention with its mask of query and key."""
    result = module(query, context=key, attn_mask=mask)
    return result[0] if isinstance(result, tuple) else result


def keyword_mask(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Any:
    """Call a kernel whose mask and causal are keywords."""
    return function(query, key, value, mask=mask, causal=causal)


def in_buckets(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Any:
    """Call a kernel in about three buckets of queries and of keys."""
    rows, columns = query.shape[-2] // 3 + 1, key.shape[-2] // 3 + 1
    return function(query, key, value, mask=mask, causal=causal, q_bucket_size=rows, k_bucket_size=columns)


def without_epsilon(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Any:
    """Call a kernel in about three buckets, with nothing added to the denominator."""
    sizes = {"q_bucket_size": query.shape[-2] // 3 + 1, "k_bucket_size": key.shape[-2] // 3 + 1}
    return function(query, key, value, mask=mask, causal=causal, eps=0.0, **sizes)


def ring_flash(function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call the ring kernel on one machine, in about three buckets."""
    return function(query, key, value, mask, False, key.shape[1] // 3 + 1)


_XM = "x_transformers.x_transformers:Attention"
_XM_ANSWERS = {**_CONTEXT, "mask_shapes": ("LS", "B1LS", "BHLS"), "empty_row": "zeros"}
_MEA = "memory_efficient_attention_pytorch"
_MODULE = "MultiHeadAttention"

PACKAGE_ADAPTERS: tuple[Adapter, ...] = (
    Adapter(
        _XM, "flash=False", x_context, {**_XM_ANSWERS, "precision": "softmax32"}, build=with_dim_head, reference=_MODULE
    ),
    Adapter(
        _XM,
        "flash=True",
        x_context,
        {**_XM_ANSWERS, "precision": "fused", "gradient": "once"},
        variant="flash",
        build=with_flash,
        reference=_MODULE,
    ),
    Adapter(
        f"{_MEA}.memory_efficient_attention:attention",
        "at once",
        keyword_mask,
        {**_KERNEL, "mask_shapes": ("BS", *_FULL), "causal": "bottom-right", "no_keys": "error"},
    ),
    Adapter(
        f"{_MEA}.memory_efficient_attention:memory_efficient_attention",
        "in buckets",
        in_buckets,
        {**_KERNEL, "mask_shapes": _KEYS, "causal": "top-left", "no_keys": "error", "gradient": "once"},
    ),
    Adapter(
        f"{_MEA}.memory_efficient_attention:memory_efficient_attention",
        "in buckets, eps=0",
        without_epsilon,
        {**_KERNEL, "mask_shapes": _KEYS, "causal": "top-left", "no_keys": "error", "gradient": "once"},
        variant="exact",
    ),
    Adapter(
        f"{_MEA}.memory_efficient_attention:Attention",
        "memory_efficient=False",
        context,
        {**_CONTEXT, "mask_shapes": ("BS", *_FULL)},
        build=with_dim_head,
        reference=_MODULE,
    ),
    Adapter(
        "ring_attention_pytorch.ring_attention:default_attention",
        "equal heads",
        keyword_mask,
        {
            **_KERNEL,
            "layout": "BLHD",
            "mask_shapes": _KEYS,
            "causal": "bottom-right",
            "causal_with_mask": "unspecified",
        },
    ),
    Adapter(
        "ring_attention_pytorch.ring_attention:default_attention",
        "grouped heads",
        keyword_mask,
        {
            **_KERNEL,
            "layout": "BLHD",
            "mask_shapes": _KEYS,
            "causal": "bottom-right",
            "causal_with_mask": "unspecified",
            "heads": "grouped",
        },
        variant="grouped",
    ),
    Adapter(
        "ring_attention_pytorch.ring_flash_attention:ring_flash_attn",
        "one machine",
        ring_flash,
        {
            **_KERNEL,
            "layout": "BLHD",
            "mask_shapes": _KEYS,
            "empty_row": "zeros",
            "value_width": "same",
            "no_keys": "error",
            "gradient": "once",
            "precision": "fused",
            "dtypes": ("fp32",),
        },
    ),
    Adapter(
        "perceiver_pytorch.perceiver_pytorch:Attention",
        "with a context",
        context,
        _CONTEXT,
        build=with_context_width,
        reference=_MODULE,
    ),
)
"""Every way to call these packages' attention that is judged."""
