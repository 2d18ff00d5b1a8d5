"""jax.nn.dot_product_attention on the CPU (the XLA path), compiled as it is in use: (B, L, H, D), boolean masks."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax

from attention_conformance import Deviation, register

_attend = partial(jax.jit, static_argnames=("scale", "is_causal", "local_window_size", "return_residual"))(
    jax.nn.dot_product_attention
)


def attend(
    query: Any, key: Any, value: Any, mask: Any = None, *, causal: bool = False, scale: float | None = None,
    bias: Any = None, window: int | None = None,
) -> Any:  # fmt: skip
    """Attend; a window of w keys on either side, itself included, is (w - 1, w - 1) there."""
    reach = None if window is None else (window - 1, window - 1)
    return _attend(query, key, value, bias, mask, scale=scale, is_causal=causal, local_window_size=reach)


def with_logsumexp(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Attend and return the logsumexp, which comes as (B, L, H)."""
    output, residual = _attend(query, key, value, None, mask, return_residual=True)
    return output, residual.swapaxes(1, 2)


_ANSWERS: dict[str, Any] = {
    "framework": "jax", "layout": "BLHD", "leading": "equal", "value_width": "same", "heads": "grouped",
    "mask": ("bool",), "mask_shapes": ("BHLS", "B1LS", "1HLS", "11LS", "B11S", "111S", "BH1S"),
    "precision": "softmax32",
}  # fmt: skip

dot_product_attention = register(
    attend, causal="top-left", options=("scale", "bias", "window"), second=None, **_ANSWERS
)
_STOPPED = (
    "jax stops the gradient of the logsumexp that it returns (jax/_src/nn/functions.py: _dot_product_attention_xla)"
)
dot_product_attention_lse = register(
    with_logsumexp, second="lse", deviations=[Deviation(rule, _STOPPED) for rule in ("GRADIENT-015", "GRADIENT-016")],
    **_ANSWERS,
)  # fmt: skip
