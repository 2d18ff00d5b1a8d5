"""denoising-diffusion-pytorch: Attend."""

from __future__ import annotations

from typing import Any

from denoising_diffusion_pytorch.attend import Attend
from torch import Tensor

from attention_conformance import register


def plain(query: Tensor, key: Tensor, value: Tensor, mask: None = None, *, scale: float | None = None) -> Any:
    """Call Attend with a softmax of its own."""
    return Attend(scale=scale)(query, key, value)


def flash(query: Tensor, key: Tensor, value: Tensor, mask: None = None, *, scale: float | None = None) -> Any:
    """Call Attend with scaled_dot_product_attention."""
    return Attend(flash=True, scale=scale)(query, key, value)


_ANSWERS: dict[str, Any] = {"layout": "BHLD", "leading": "equal", "second": None, "mask": (), "options": ("scale",)}

attend = register(plain, **_ANSWERS)
attend_flash = register(flash, precision="fused", gradient="once", **_ANSWERS)
