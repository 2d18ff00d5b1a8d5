"""kornia: FullAttention of LoFTR."""

from __future__ import annotations

from typing import Any

from kornia.feature.loftr.loftr_module.linear_attention import FullAttention
from torch import Tensor

from attention_conformance import register


def both_masks(function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it with a mask of the keys, beside one of the queries that hides none."""
    if mask is None:
        return function(query, key, value)
    return function(query, key, value, q_mask=mask.new_ones(query.shape[:2]), kv_mask=mask)


def key_mask(function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it with a mask of the keys alone."""
    return function(query, key, value, kv_mask=mask)


_ANSWERS: dict[str, Any] = {
    "layout": "BLHD", "leading": "equal", "mask": ("bool",), "mask_shapes": ("BS",), "empty_row": "nan", "second": None,
    "dtypes": ("fp64", "fp32", "bf16", "fp16"),
}  # fmt: skip

full_attention = register(FullAttention(), call=both_masks, **_ANSWERS)
full_attention_key_mask = register(FullAttention(), call=key_mask, **_ANSWERS)
