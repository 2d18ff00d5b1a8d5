"""x-transformers: Attend, the kernel of all its layers."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from x_transformers.attend import Attend

from attention_conformance import register


def with_weights(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False,
    bias: Tensor | None = None,
) -> Any:  # fmt: skip
    """Call it, and take the weights out of what it keeps of the way."""
    output, kept = function(query, key, value, mask=mask, attn_bias=bias, causal=causal)
    return output, kept.post_softmax_attn


def output_only(function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it for the output."""
    return function(query, key, value, mask=mask)[0]


_ANSWERS: dict[str, Any] = {
    "layout": "BHLD", "leading": "equal", "mask": ("bool",), "mask_shapes": ("BS", "B11S", "B1LS", "BHLS"),
    "empty_row": "zeros",
}  # fmt: skip
_FUSED: dict[str, Any] = {**_ANSWERS, "second": None, "precision": "fused", "gradient": "once"}

attend = register(
    Attend(),
    call=with_weights,
    causal="bottom-right",
    options=("bias",),
    second="weights",
    precision="softmax32",
    **_ANSWERS,
)
attend_flash = register(Attend(flash=True), call=output_only, **_FUSED)
attend_flash_causal = register(
    Attend(flash=True, causal=True), call=output_only, causal="always bottom-right", lengths="at most", **_FUSED
)
attend_flash_causal_any_length = register(
    Attend(flash=True, causal=True), call=output_only, causal="always bottom-right", **_FUSED
)
