"""Modules of equinox, equimo and haiku, with the parameters of four projections handed in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
from equimo.layers.attention import Attention

from attention_conformance import Deviation, projected, register

_compiled = partial(jax.jit, static_argnames="heads")
_NOT_PICKLED = (
    Deviation("PROJECTION-006", "pickle does not find a function by its name that jax.jit has wrapped here"),
)


@_compiled
def equinox_module(
    query: Any, key: Any, value: Any, mask: Any = None, *, parameters: Mapping[str, Any], heads: int
) -> Any:
    """Call equinox.nn.MultiheadAttention, which knows no batch."""
    layer = eqx.nn.MultiheadAttention(
        heads, query.shape[-1], use_query_bias=True, use_key_bias=True, use_value_bias=True, use_output_bias=True,
        inference=True, key=jax.random.key(0),
    )  # fmt: skip
    for role in ("query", "key", "value", "output"):
        where = lambda tree, name=f"{role}_proj": (getattr(tree, name).weight, getattr(tree, name).bias)  # noqa: E731
        layer = eqx.tree_at(where, layer, (parameters[f"{role}.weight"], parameters[f"{role}.bias"]))
    if mask is None:
        return jax.vmap(layer)(query, key, value)
    every = jnp.broadcast_to(mask, (query.shape[0], heads, query.shape[1], key.shape[1]))
    return jax.vmap(lambda q, k, v, m: layer(q, k, v, mask=m))(query, key, value, every)


@_compiled
def equimo_module(x: Any, mask: Any = None, *, parameters: Mapping[str, Any], heads: int) -> Any:
    """Call equimo's Attention, which takes one tensor and knows no batch."""
    layer = Attention(x.shape[-1], heads, key=jax.random.PRNGKey(0))
    joined = [jnp.concatenate([parameters[f"{r}.{kind}"] for r in ("query", "key", "value")]) for kind in _KINDS]
    where = lambda tree: (tree.qkv.weight, tree.qkv.bias, tree.proj.weight, tree.proj.bias)  # noqa: E731
    layer = eqx.tree_at(where, layer, (*joined, *(parameters[f"output.{kind}"] for kind in _KINDS)))
    key = jax.random.PRNGKey(0)
    if mask is None:
        return jax.vmap(lambda each: layer(each, key, inference=True))(x)
    every = jnp.broadcast_to(mask, (x.shape[0], heads, x.shape[1], x.shape[1]))
    return jax.vmap(lambda each, m: layer(each, key, inference=True, mask=m))(x, every)


_KINDS = ("weight", "bias")


@_compiled
def haiku_module(
    query: Any, key: Any, value: Any, mask: Any = None, *, parameters: Mapping[str, Any], heads: int
) -> Any:
    """Apply haiku's MultiHeadAttention."""
    width = query.shape[-1]

    def layer(*arrays: Any) -> Any:
        return hk.MultiHeadAttention(heads, width // heads, w_init=jnp.zeros, model_size=width)(*arrays)

    names = {"query": "query", "key": "key", "value": "value", "output": "linear"}
    given = {
        f"multi_head_attention/{name}": {"w": parameters[f"{role}.weight"].T, "b": parameters[f"{role}.bias"]}
        for role, name in names.items()
    }
    return hk.without_apply_rng(hk.transform(layer)).apply(given, query, key, value, mask)


_FULL = ("BHLS", "B1LS", "1HLS", "11LS", "B11S", "111S", "BH1S")

equinox_multi_head = register(
    projected(equinox_module, framework="jax"), deviations=_NOT_PICKLED, second=None, mask=("bool",), mask_shapes=_FULL
)
equimo_attention = register(
    projected(equimo_module, framework="jax"),
    deviations=_NOT_PICKLED,
    inputs="self",
    precision="softmax32",
    second=None,
    mask=("bool", "number"),
    mask_shapes=_FULL,
)
haiku_multi_head = register(
    projected(haiku_module, framework="jax"),
    deviations=_NOT_PICKLED,
    second=None,
    mask=("bool", "number"),
    mask_shapes=_FULL,
)
