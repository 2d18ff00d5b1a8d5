"""mlx on the CPU: its fast kernel (B, H, L, D), and its module with the parameters of four projections handed in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import mlx.core as mx
import mlx.nn
import numpy as np

from attention_conformance import projected, register

mx.set_default_device(mx.cpu)


def fast(
    query: Any, key: Any, value: Any, mask: Any = None, *, causal: bool = False, scale: float | None = None
) -> Any:
    """Call mlx.core.fast.scaled_dot_product_attention, which asks for a scale and takes one mask."""
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    given = "causal" if causal else None if mask is None else mx.array(mask)
    return np.array(
        mx.fast.scaled_dot_product_attention(mx.array(query), mx.array(key), mx.array(value), scale=scale, mask=given)
    )


def module(query: Any, key: Any, value: Any, mask: Any = None, *, parameters: Mapping[str, Any], heads: int) -> Any:
    """Call mlx.nn.MultiHeadAttention."""
    layer = mlx.nn.MultiHeadAttention(query.shape[-1], heads, bias=True)
    names = {"query": "query_proj", "key": "key_proj", "value": "value_proj", "output": "out_proj"}
    given = {
        name: {kind: mx.array(parameters[f"{role}.{kind}"]) for kind in ("weight", "bias")}
        for role, name in names.items()
    }
    layer.update(given)
    arrays = (mx.array(each) for each in (query, key, value))
    return np.array(layer(*arrays, mask=None if mask is None else mx.array(mask)))


_MASKS = ("LS", "BHLS", "B1LS", "1HLS", "11LS", "B11S", "111S", "BH1S")
_ANSWERS: dict[str, Any] = {"dtypes": ("fp32",), "mask": ("bool", "additive"), "second": None}

scaled_dot_product_attention = register(
    fast, framework="numpy", layout="BHLD", leading="equal", heads="grouped", mask_shapes=_MASKS,
    causal="bottom-right", causal_with_mask="unspecified", options=("scale",), **_ANSWERS,
)  # fmt: skip
multi_head_attention = register(projected(module, framework="numpy"), mask_shapes=_MASKS, **_ANSWERS)
