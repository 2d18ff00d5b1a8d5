"""flax: its two functions (B, L, H, D), and its two modules with the parameters of four projections handed in."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import flax.linen as linen
import jax
from flax import nnx

from attention_conformance import Deviation, projected, register

_compiled = partial(jax.jit, static_argnames="heads")
_NOT_PICKLED = (
    Deviation("PROJECTION-006", "pickle does not find a function by its name that jax.jit has wrapped here"),
)

_linen = jax.jit(linen.dot_product_attention)
_nnx = jax.jit(nnx.dot_product_attention)


def linen_function(query: Any, key: Any, value: Any, mask: Any = None, *, bias: Any = None) -> Any:
    """Call flax.linen.dot_product_attention."""
    return _linen(query, key, value, bias=bias, mask=mask)


def nnx_function(query: Any, key: Any, value: Any, mask: Any = None, *, bias: Any = None) -> Any:
    """Call flax.nnx.dot_product_attention."""
    return _nnx(query, key, value, bias=bias, mask=mask)


def split(parameters: Mapping[str, Any], heads: int) -> dict[str, dict[str, Any]]:
    """Return kernels and biases of the four projections in flax's shapes: (M, H, D) and (H, D), output (H, D, M)."""
    found = {}
    for role in ("query", "key", "value"):
        weight, bias = parameters[f"{role}.weight"], parameters[f"{role}.bias"]
        found[role] = {"kernel": weight.T.reshape(weight.shape[1], heads, -1), "bias": bias.reshape(heads, -1)}
    weight = parameters["output.weight"]
    found["out"] = {"kernel": weight.T.reshape(heads, -1, weight.shape[0]), "bias": parameters["output.bias"]}
    return found


@_compiled
def linen_module(
    query: Any, key: Any, value: Any, mask: Any = None, *, parameters: Mapping[str, Any], heads: int
) -> Any:
    """Apply flax.linen.MultiHeadDotProductAttention."""
    width = query.shape[-1]
    layer = linen.MultiHeadDotProductAttention(num_heads=heads, qkv_features=width, out_features=width)
    given = {"params": split(parameters, heads)}
    return layer.apply(given, query, key, value, mask=mask, deterministic=True)


@_compiled
def nnx_module(query: Any, key: Any, value: Any, mask: Any = None, *, parameters: Mapping[str, Any], heads: int) -> Any:
    """Apply flax.nnx.MultiHeadAttention, built anew around the given parameters."""
    width = query.shape[-1]
    build = lambda: nnx.MultiHeadAttention(heads, width, width, width, decode=False, rngs=nnx.Rngs(0))  # noqa: E731
    graph, state = nnx.split(nnx.eval_shape(build))
    for role, given in split(parameters, heads).items():
        for name, array in given.items():
            state[role][name].set_value(array)
    layer = nnx.merge(graph, state)
    return layer(query, key, value, mask=mask, deterministic=True)


_MASKS = ("BHLS", "B1LS", "1HLS", "11LS", "B11S", "111S", "BH1S")
_KERNEL: dict[str, Any] = {
    "framework": "jax", "layout": "BLHD", "leading": "equal", "mask": ("bool", "number"), "options": ("bias",),
    "second": None,
}  # fmt: skip

linen_dot_product_attention = register(linen_function, **_KERNEL)
nnx_dot_product_attention = register(
    nnx_function, value_width="same", precision="softmax32", **{**_KERNEL, "mask": ("bool",), "mask_shapes": _MASKS}
)
linen_multi_head = register(
    projected(linen_module, framework="jax"), deviations=_NOT_PICKLED, second=None, mask=("bool", "number")
)
nnx_multi_head = register(
    projected(nnx_module, framework="jax"), deviations=_NOT_PICKLED, second=None, mask=("bool", "number")
)
