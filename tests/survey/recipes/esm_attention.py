"""fair-esm: MultiheadAttention, through torch's function and with weights of every head."""

from __future__ import annotations

from typing import Any

from esm.multihead_attention import MultiheadAttention
from torch import Tensor

from attention_conformance import register


def through_torch(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it where it calls torch's function."""
    return module(query, key, value, key_padding_mask=mask, need_weights=False)[0]


def head_weights(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it where it computes itself; its weights are (H, B, L, S)."""
    output, weights = module(query, key, value, key_padding_mask=mask, need_head_weights=True)
    return output, weights.transpose(0, 1)


_ANSWERS: dict[str, Any] = {"layout": "LBE", "mask": ("bool",), "mask_means": "hide", "mask_shapes": ("BS",)}

multihead_attention = register(
    MultiheadAttention,
    call=through_torch,
    second=None,
    empty_row="zeros",
    precision="fused",
    gradient="once",
    **_ANSWERS,
)
multihead_attention_weights = register(
    MultiheadAttention, call=head_weights, second="weights", empty_row="nan", precision="softmax32", **_ANSWERS
)
