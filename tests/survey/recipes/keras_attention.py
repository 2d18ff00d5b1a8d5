"""keras on torch (KERAS_BACKEND=torch): keras.ops, and its layers with the parameters of four projections handed in."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
    layer = keras.layers.Attention(dtype=str(query.dtype).removeprefix("torch."))
    masks = None if mask is None else [None, mask[:, 0]]
    return layer([query, value, key], mask=masks, use_causal_mask=causal)


def multi_head(
    query: Any, key: Any, value: Any, mask: Any = None, *, parameters: Mapping[str, Any], heads: int,
    causal: bool = False,
) -> Any:  # fmt: skip
    """Call keras.layers.MultiHeadAttention."""
    dtype = str(query.dtype).removeprefix("torch.")
    layer = keras.layers.MultiHeadAttention(heads, query.shape[-1] // heads, dtype=dtype)
    return _stateless(layer, (query, value, key), parameters, heads, mask, causal)


def grouped_query(
    query: Any, key: Any, value: Any, mask: Any = None, *, parameters: Mapping[str, Any], heads: int,
    causal: bool = False,
) -> Any:  # fmt: skip
    """Call keras.layers.GroupQueryAttention with as many heads of keys as of queries."""
    dtype = str(query.dtype).removeprefix("torch.")
    layer = keras.layers.GroupQueryAttention(query.shape[-1] // heads, heads, heads, dtype=dtype)
    return _stateless(layer, (query, value, key), parameters, heads, mask, causal)


def _stateless(
    layer: Any, sent: tuple[Any, Any, Any], parameters: Mapping[str, Any], heads: int, mask: Any, causal: bool
) -> Any:
    layer.build(*(tuple(each.shape) for each in sent))
    width = sent[0].shape[-1]
    given: list[Any] = []
    for role in ("query", "key", "value"):
        given += [
            parameters[f"{role}.weight"].T.reshape(width, heads, -1),
            parameters[f"{role}.bias"].reshape(heads, -1),
        ]
    given += [parameters["output.weight"].T.reshape(heads, -1, width), parameters["output.bias"]]
    result, _ = layer.stateless_call(given, layer.non_trainable_variables, *sent, attention_mask=mask,
                                     use_causal_mask=causal)  # fmt: skip
    return result


_HALVES = ("fp32", "bf16")
_KERNEL: dict[str, Any] = {
    "layout": "BLHD", "leading": "equal", "value_width": "same", "second": None, "heads": "grouped",
    "mask": ("bool",), "mask_shapes": ("BHLS", "B1LS", "1HLS", "11LS", "B11S", "111S", "BH1S"), "causal": "top-left",
    "options": ("scale",), "precision": "fused",
}  # fmt: skip
_LAYER: dict[str, Any] = {
    "second": None, "mask": ("bool",), "mask_shapes": ("BLS",), "causal": "top-left", "dtypes": _HALVES,
}  # fmt: skip

dot_product_attention = register(attend, dtypes=_HALVES, **_KERNEL)
dot_product_attention_fp64 = register(attend, dtypes=("fp64",), **_KERNEL)
attention = register(
    attention_layer, layout="(BH)LD", leading="equal", scale=1.0, second=None, mask=("bool",), mask_shapes=("(BH)1S",),
    causal="top-left", empty_row="unspecified", dtypes=_HALVES,
)  # fmt: skip
multi_head_attention = register(projected(multi_head), **_LAYER)
group_query_attention = register(projected(grouped_query), **_LAYER)
