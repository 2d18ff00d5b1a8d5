"""keras on torch (KERAS_BACKEND=torch): keras.ops, and its layers with the parameters of four projections handed in."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras

from attention_conformance import projected, register


def attend(
    query: Any, key: Any, value: Any, mask: Any = None, *, causal: bool = False, scale: float | None = None
) -> Any:
    """Call keras.ops.dot_product_attention."""
    return keras.ops.dot_product_attention(query, key, value, mask=mask, scale=scale, is_causal=causal)


def attention_layer(query: Any, key: Any, value: Any, mask: Any = None, *, causal: bool = False) -> Any:
    """Call keras.layers.Attention, which orders query, value, key and knows no heads; they go along with the batch."""
    layer = keras.layers.Attention(dtype=_dtype(query))
    masks = None if mask is None else [None, mask[:, 0]]
    return layer([query, value, key], mask=masks, use_causal_mask=causal)


def multi_head(
    query: Any, key: Any, value: Any, mask: Any = None, *, parameters: Mapping[str, Any], heads: int,
    causal: bool = False,
) -> Any:  # fmt: skip
    """Call keras.layers.MultiHeadAttention."""
    layer = _built("MultiHeadAttention", heads, query.shape[-1], _dtype(query))
    return _applied(layer, (query, value, key), parameters, heads, mask, causal)


def grouped_query(
    query: Any, key: Any, value: Any, mask: Any = None, *, parameters: Mapping[str, Any], heads: int,
    causal: bool = False,
) -> Any:  # fmt: skip
    """Call keras.layers.GroupQueryAttention with as many heads of keys as of queries."""
    layer = _built("GroupQueryAttention", heads, query.shape[-1], _dtype(query))
    return _applied(layer, (query, value, key), parameters, heads, mask, causal)


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@lru_cache(maxsize=64)
def _built(name: str, heads: int, width: int, dtype: str) -> Any:
    """Build a layer once. That draws a seed from Python's random generator, which is put back."""
    drawn = random.getstate()
    if name == "MultiHeadAttention":
        layer = keras.layers.MultiHeadAttention(heads, width // heads, dtype=dtype)
    else:
        layer = keras.layers.GroupQueryAttention(width // heads, heads, heads, dtype=dtype)
    layer.build(*[(None, None, width)] * 3)
    random.setstate(drawn)
    return layer


def _applied(
    layer: Any, sent: tuple[Any, Any, Any], parameters: Mapping[str, Any], heads: int, mask: Any, causal: bool
) -> Any:
    width = sent[0].shape[-1]
    given: list[Any] = []
    for role in ("query", "key", "value"):
        weight, bias = parameters[f"{role}.weight"], parameters[f"{role}.bias"]
        given += [weight.T.reshape(width, heads, -1), bias.reshape(heads, -1)]
    given += [parameters["output.weight"].T.reshape(heads, -1, width), parameters["output.bias"]]
    fixed = layer.non_trainable_variables
    return layer.stateless_call(given, fixed, *sent, attention_mask=mask, use_causal_mask=causal)[0]


_HALVES = ("fp32", "bf16")
_KERNEL: dict[str, Any] = {
    "layout": "BLHD", "leading": "equal", "value_width": "same", "second": None, "heads": "grouped",
    "mask": ("bool",), "mask_shapes": ("BHLS", "B1LS", "1HLS", "11LS", "B11S", "111S", "BH1S"), "causal": "top-left",
    "options": ("scale",), "precision": "fused", "gradient": "once",
}  # fmt: skip
_LAYER: dict[str, Any] = {
    "second": None, "mask": ("bool",), "mask_shapes": ("BLS",), "causal": "top-left", "dtypes": _HALVES,
    "gradient": "once",
}  # fmt: skip

dot_product_attention = register(attend, dtypes=_HALVES, **_KERNEL)
dot_product_attention_fp64 = register(attend, dtypes=("fp64",), **_KERNEL)
attention = register(
    attention_layer, layout="(BH)LD", leading="equal", scale=1.0, second=None, mask=("bool",), mask_shapes=("(BH)1S",),
    causal="top-left", empty_row="unspecified", dtypes=_HALVES,
)  # fmt: skip
multi_head_attention = register(projected(multi_head), **_LAYER)
group_query_attention = register(projected(grouped_query), **_LAYER)
