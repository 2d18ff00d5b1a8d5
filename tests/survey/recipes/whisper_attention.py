"""openai-whisper: MultiHeadAttention, with scaled_dot_product_attention and with its own softmax."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from whisper.model import MultiHeadAttention, disable_sdpa

from attention_conformance import register


def triangle(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: None = None, *, causal: bool = False) -> Any:
    """Call it with the triangle as mask, which is how the model does it."""
    hidden = query.new_full((query.shape[1], query.shape[1]), float("-inf")).triu(1) if causal else None
    return module(query, mask=hidden)[0]


def own(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it with its own softmax."""
    with disable_sdpa():
        return module(query, mask=mask)[0]


def any_mask(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it with any mask."""
    return module(query, mask=mask)[0]


_ANSWERS: dict[str, Any] = {"inputs": "self", "second": None}
_MASK: dict[str, Any] = {"mask": ("additive",), "mask_shapes": ("LS",)}

multi_head_attention = register(
    MultiHeadAttention, call=triangle, mask=(), causal="top-left", precision="fused", gradient="once", **_ANSWERS
)
multi_head_attention_own = register(
    MultiHeadAttention, call=own, empty_row="nan", precision="softmax32", **_MASK, **_ANSWERS
)
multi_head_attention_any_mask = register(
    MultiHeadAttention, call=any_mask, empty_row="unspecified", precision="fused", gradient="once", **_MASK, **_ANSWERS
)
