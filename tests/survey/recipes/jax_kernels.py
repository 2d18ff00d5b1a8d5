"""Kernels of attnax and flash_attention_jax, (B, H, L, D)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attnax.kernels
import flash_attention_jax
import jax
import jax.numpy as jnp

from attention_conformance import register


def _compiled(function: Callable[..., Any], **given: Any) -> Callable[..., Any]:
    @jax.jit
    def compiled(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        return function(query, key, value, mask=mask, **given)

    return compiled


_standard = _compiled(attnax.kernels.standard_attention)
_efficient = _compiled(attnax.kernels.memory_efficient_attention, block_size=8)
_flash = _compiled(attnax.kernels.flash_attention)


def standard(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Call attnax.kernels.standard_attention."""
    return _standard(query, key, value, mask)


def memory_efficient(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Call attnax.kernels.memory_efficient_attention in blocks of 8, so that short inputs are cut as well."""
    every = None if mask is None else jnp.broadcast_to(mask, (*query.shape[:3], key.shape[2]))
    return _efficient(query, key, value, every)


def flash(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Call attnax.kernels.flash_attention."""
    return _flash(query, key, value, mask)


def chunked(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Call flash_attention_jax.flash_attention, whose mask over keys cannot be left out."""
    keys = jnp.ones((key.shape[0], key.shape[2]), bool) if mask is None else mask
    return flash_attention_jax.flash_attention(query, key, value, keys)


def chunked_causal(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Call flash_attention_jax.causal_flash_attention."""
    return flash_attention_jax.causal_flash_attention(query, key, value)


def plain(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Call flash_attention_jax.plain_attention."""
    keys = jnp.ones((key.shape[0], key.shape[2]), bool) if mask is None else mask
    return flash_attention_jax.plain_attention(query, key, value, keys)


_JAX: dict[str, Any] = {"framework": "jax", "layout": "BHLD", "leading": "equal", "second": None}
_FULL = ("BHLS", "B1LS", "1HLS", "11LS", "B11S", "111S", "BH1S")
_ATTNAX: dict[str, Any] = {**_JAX, "mask": ("bool",), "mask_shapes": _FULL}
_CHUNKED: dict[str, Any] = {
    **_JAX, "mask": ("bool",), "mask_shapes": ("BS",), "no_keys": "error", "dtypes": ("fp32",),
}  # fmt: skip

attnax_standard = register(standard, **_ATTNAX)
attnax_memory_efficient = register(memory_efficient, value_width="same", dtypes=("fp32", "bf16"), **_ATTNAX)
attnax_memory_efficient_fp64 = register(memory_efficient, value_width="same", dtypes=("fp64",), **_ATTNAX)
attnax_flash = register(flash, value_width="same", **_ATTNAX)
flash_attention = register(chunked, empty_row="zeros", value_width="same", gradient="once", **_CHUNKED)
flash_attention_fp64 = register(
    chunked, empty_row="zeros", value_width="same", gradient="once", **{**_CHUNKED, "dtypes": ("fp64",)}
)
causal_flash_attention = register(
    chunked_causal, value_width="same", causal="always bottom-right", gradient="once", empty_row="nan",
    **{**_CHUNKED, "mask": (), "mask_shapes": "broadcast"},
)  # fmt: skip
plain_attention = register(plain, **{**_CHUNKED, "no_keys": "zeros", "dtypes": ("fp64", "fp32", "bf16")})
