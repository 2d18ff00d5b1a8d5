"""flash-attention-softmax-n: both kernels with n = 0, which is the usual softmax."""

from __future__ import annotations

from typing import Any

from flash_attention_softmax_n import flash_attention_n, slow_attention_n
from torch import Tensor

from attention_conformance import register


def call(
    function: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """Call either of them."""
    return function(query, key, value, attn_mask=mask, is_causal=causal, scale=scale, softmax_n_param=0)


_ANSWERS: dict[str, Any] = {"layout": "BHLD", "leading": "equal", "second": None, "options": ("scale",), "call": call}

slow_bool = register(
    slow_attention_n,
    mask=("bool",),
    mask_shapes=("BHLS",),
    causal="bottom-right",
    causal_with_mask="error",
    empty_row="nan",
    no_keys="error",
    **_ANSWERS,
)
slow_additive = register(
    slow_attention_n,
    mask=("additive",),
    mask_shapes=("LS",),
    causal="bottom-right",
    causal_with_mask="error",
    empty_row="nan",
    no_keys="error",
    **_ANSWERS,
)
flash = register(
    flash_attention_n,
    mask=("bool",),
    mask_shapes=("BHLS", "B1LS", "B11S"),
    causal="bottom-right",
    empty_row="zeros",
    precision="fused",
    gradient="once",
    **_ANSWERS,
)
