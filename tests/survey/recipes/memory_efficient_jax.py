"""The JAX kernel of memory-efficient-attention, (B, L, H, D), in one chunk and in chunks of four keys."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from memory_efficient_attention import efficient_dot_product_attention_jax

from attention_conformance import register


@partial(jax.jit, static_argnames="chunk")
def _attend(query: Any, key: Any, value: Any, mask: Any, bias: Any, chunk: int) -> Any:
    batch, queries, heads = query.shape[:3]
    whole = (batch, heads, queries, key.shape[1])
    if bias is not None or mask is not None:
        # Either alone raises: the shape of the other is asked for.
        bias = jnp.broadcast_to(jnp.zeros((), query.dtype) if bias is None else bias, whole)
        mask = jnp.broadcast_to(jnp.ones((), bool) if mask is None else mask, whole)
    return efficient_dot_product_attention_jax(query, key, value, mask=mask, bias=bias, key_chunk_size=chunk)


def attend(query: Any, key: Any, value: Any, mask: Any = None, *, bias: Any = None) -> Any:
    """Attend in chunks of the default size."""
    return _attend(query, key, value, mask, bias, 4096)


def attend_in_chunks(query: Any, key: Any, value: Any, mask: Any = None, *, bias: Any = None) -> Any:
    """Attend in chunks of four keys."""
    return _attend(query, key, value, mask, bias, 4)


_ANSWERS: dict[str, Any] = {
    "framework": "jax", "layout": "BLHD", "leading": "equal", "mask": ("bool",), "options": ("bias",), "second": None,
    "no_keys": "error",
    "mask_shapes": ("BHLS", "B1LS", "1HLS", "11LS", "B11S", "111S", "BH1S"),
}  # fmt: skip

efficient_attention = register(attend, **_ANSWERS)
efficient_attention_in_chunks = register(attend_in_chunks, **_ANSWERS)
