"""tinygrad's scaled_dot_product_attention in its Python interpreter, which needs no compiler and takes its time."""

from __future__ import annotations

import os
from typing import Any

os.environ.setdefault("DEV", "PYTHON")

from tinygrad import Tensor

from attention_conformance import register


def attend(query: Any, key: Any, value: Any, mask: Any = None, *, causal: bool = False) -> Any:
    """Attend."""
    given = None if mask is None else Tensor(mask)
    return (
        Tensor(query)
        .scaled_dot_product_attention(Tensor(key), Tensor(value), attn_mask=given, is_causal=causal)
        .numpy()
    )


scaled_dot_product_attention = register(
    attend, framework="numpy", layout="BHLD", leading="equal", mask=("bool", "additive"), causal="top-left",
    mask_shapes=("LS", "BHLS", "B1LS", "1HLS", "11LS", "B11S", "111S", "BH1S"), second=None, dtypes=("fp32",),
    causal_with_mask="error", empty_row="nan",
)  # fmt: skip
