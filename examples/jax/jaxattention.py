"""Attention for JAX arrays in the order (B, L, H, D), compiled."""

import jax
from jax import Array
from jax import numpy as jnp


@jax.jit
def attend(query: Array, key: Array, value: Array, mask: Array | None = None) -> Array:
    """Return output (B, L, H, E) for query (B, L, H, D), key (B, S, H, D) and value (B, S, H, E).

    `mask` broadcasts to (B, H, L, S); true or nonzero is where a query may attend.
    """
    scores = jnp.einsum("blhd,bshd->bhls", query, key) * query.shape[-1] ** -0.5
    if mask is not None:
        scores = jnp.where(mask != 0, scores, -1e9)
    return jnp.einsum("bhls,bshe->blhe", jax.nn.softmax(scores, axis=-1), value)
