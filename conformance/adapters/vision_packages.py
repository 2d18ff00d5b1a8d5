"""Packages about images: diffusers, timm, open_clip, segment_anything, vit_pytorch and monai."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from .adapter import Adapter
from .torch_attention import ALL_DTYPES

_FOUR = ("LS", "B11S", "B1LS", "BHLS")
_MODULE = "MultiHeadAttention"
_SELF: dict[str, Any] = {"inputs": "self", "second": None, "dtypes": ALL_DTYPES}
_FUSED: dict[str, Any] = {"precision": "fused", "gradient": "once"}


def timm_unfused(target: Any, d_model: int, heads: int) -> Any:
    """Build timm's Attention with a softmax of its own."""
    module = target(d_model, heads, qkv_bias=True)
    module.fused_attn = False
    return module


def timm_fused(target: Any, d_model: int, heads: int) -> Any:
    """Build timm's Attention with scaled_dot_product_attention."""
    module = target(d_model, heads, qkv_bias=True)
    module.fused_attn = True
    return module


def timm(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Any:
    """Call timm's Attention."""
    return module(query, attn_mask=mask, is_causal=causal)


def one(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call a module with one tensor, and a mask if there is one."""
    return module(query) if mask is None else module(query, attn_mask=mask)


def three(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None) -> Any:
    """Call a module with three tensors."""
    return module(query, key, value)


def two(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None) -> Any:
    """Call a module with a query, and what it attends to."""
    return module(query, key)


def without_norm(target: Any, d_model: int, heads: int) -> Any:
    """Build a module whose layer norm of the input is taken out."""
    from torch import nn

    module = target(d_model, heads=heads, dim_head=d_model // heads)
    module.norm = nn.Identity()
    return module


def with_qkv_bias(target: Any, d_model: int, heads: int) -> Any:
    """Build one of monai's blocks."""
    return target(d_model, heads, qkv_bias=True)


def with_flash(target: Any, d_model: int, heads: int) -> Any:
    """Build one of monai's blocks with scaled_dot_product_attention."""
    return target(d_model, heads, qkv_bias=True, use_flash_attention=True)


def eager_processor(target: Any, d_model: int, heads: int) -> Any:
    """Build diffusers' Attention with a softmax of its own."""
    import sys

    width, processor = d_model // heads, sys.modules[target.__module__].AttnProcessor()
    return target(d_model, cross_attention_dim=d_model, heads=heads, dim_head=width, bias=True, processor=processor)


def fused_processor(target: Any, d_model: int, heads: int) -> Any:
    """Build diffusers' Attention with scaled_dot_product_attention."""
    import sys

    width, processor = d_model // heads, sys.modules[target.__module__].AttnProcessor2_0()
    return target(d_model, cross_attention_dim=d_model, heads=heads, dim_head=width, bias=True, processor=processor)


def diffusers(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call diffusers' Attention, mask (B * H, L, S)."""
    return module(query, encoder_hidden_states=key, attention_mask=mask)


_TIMM = "timm.layers.attention:Attention"
_TIMM_ANSWERS = {**_SELF, "mask": ("bool", "additive"), "mask_shapes": _FOUR, "causal": "top-left"}
_SABLOCK = "monai.networks.blocks.selfattention:SABlock"
_DIFFUSERS = "diffusers.models.attention_processor:Attention"
_DIFFUSERS_ANSWERS = {"inputs": "context", "mask_shapes": ("(BH)LS",), "second": None, "dtypes": ALL_DTYPES}

VISION_ADAPTERS: tuple[Adapter, ...] = (
    Adapter(
        _TIMM,
        "fused_attn=True",
        timm,
        {**_TIMM_ANSWERS, **_FUSED, "empty_row": "zeros"},
        build=timm_fused,
        reference=_MODULE,
    ),
    Adapter(
        _TIMM,
        "fused_attn=False",
        timm,
        {**_TIMM_ANSWERS, "empty_row": "nan", "causal_with_mask": "unspecified"},
        variant="unfused",
        build=timm_unfused,
        reference=_MODULE,
    ),
    Adapter(
        "open_clip.transformer:Attention",
        "with scaled_dot_product_attention",
        one,
        {
            **_SELF,
            **_FUSED,
            "mask": ("bool", "additive"),
            "mask_means": "hide",
            "mask_shapes": ("LS", "(BH)LS"),
            "empty_row": "zeros",
        },
        reference=_MODULE,
    ),
    Adapter(
        "segment_anything.modeling.transformer:Attention",
        "not downsampled",
        three,
        {"mask": (), "second": None, "dtypes": ALL_DTYPES},
        reference=_MODULE,
    ),
    Adapter(
        "vit_pytorch.vit:Attention",
        "without the layer norm of its input",
        one,
        {**_SELF, "mask": ()},
        build=without_norm,
        reference=_MODULE,
    ),
    Adapter(
        _SABLOCK,
        "use_flash_attention=False",
        one,
        {**_SELF, "mask": ("bool", "number"), "mask_shapes": ("BS",), "empty_row": "nan"},
        build=with_qkv_bias,
        reference=_MODULE,
    ),
    Adapter(
        _SABLOCK,
        "use_flash_attention=True",
        one,
        {**_SELF, **_FUSED, "mask": ("bool", "additive"), "mask_shapes": _FOUR, "empty_row": "zeros"},
        variant="flash",
        build=with_flash,
        reference=_MODULE,
    ),
    Adapter(
        "monai.networks.blocks.crossattention:CrossAttentionBlock",
        "use_flash_attention=False",
        two,
        {"inputs": "context", "mask": (), "second": None, "dtypes": ALL_DTYPES},
        build=with_qkv_bias,
        reference=_MODULE,
    ),
    Adapter(
        _DIFFUSERS,
        "AttnProcessor2_0",
        diffusers,
        {**_DIFFUSERS_ANSWERS, **_FUSED, "mask": ("bool", "additive"), "empty_row": "zeros"},
        build=fused_processor,
        reference=_MODULE,
    ),
    Adapter(
        _DIFFUSERS,
        "AttnProcessor",
        diffusers,
        {**_DIFFUSERS_ANSWERS, "mask": ("additive",), "empty_row": "nan"},
        variant="eager",
        build=eager_processor,
        reference=_MODULE,
    ),
)
"""Every way to call these packages' attention that is judged."""
