"""Kernels that are classes: memory-efficient-attention-pytorch, local-attention and performer-pytorch."""

from __future__ import annotations

from typing import Any

from local_attention import LocalAttention
from memory_efficient_attention_pytorch.flash_attention import FlashAttentionFunction
from performer_pytorch import FastAttention
from torch import Tensor

from attention_conformance import register


def flash(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Any:
    """Apply FlashAttentionFunction in about three buckets of queries and of keys."""
    return FlashAttentionFunction.apply(
        query, key, value, mask, causal, query.shape[-2] // 3 + 1, key.shape[-2] // 3 + 1
    )


def one_window(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call LocalAttention with a window as long as the sequence, so that nothing is left out."""
    return LocalAttention(window_size=query.shape[-2], use_rotary_pos_emb=False)(query, key, value, mask=mask)


def padded_window(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call LocalAttention with a window longer than the sequence, which it pads."""
    function = LocalAttention(window_size=query.shape[-2] + 1, autopad=True, use_rotary_pos_emb=False)
    return function(query, key, value, mask=mask)


def random_features(query: Tensor, key: Tensor, value: Tensor, mask: None = None) -> Any:
    """Call Performer's FastAttention with 256 random features."""
    import torch

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return FastAttention(query.shape[-1], nb_features=256)(query, key, value)


_ANSWERS: dict[str, Any] = {"layout": "BHLD", "leading": "equal", "second": None}
_LOCAL: dict[str, Any] = {
    **_ANSWERS,
    "lengths": "equal",
    "mask": ("bool",),
    "mask_shapes": ("BS",),
    "empty_row": "unspecified",
    "no_keys": "error",
}

flash_attention_function = register(
    flash,
    mask=("bool",),
    mask_shapes=("BS", "B11S", "B1LS", "BHLS"),
    empty_row="zeros",
    value_width="same",
    no_keys="nan",
    causal="bottom-right",
    gradient="once",
    precision="fused",
    dtypes=("fp32",),
    **_ANSWERS,
)
local_attention = register(one_window, **_LOCAL)
local_attention_autopad = register(padded_window, **_LOCAL)
performer = register(random_features, mask=(), **_ANSWERS)
