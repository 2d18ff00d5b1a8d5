"""torchscale: MultiheadAttention as cross attention."""

from __future__ import annotations

from typing import Any

from torch import Tensor
from torchscale.architecture.config import EncoderConfig
from torchscale.component.multihead_attention import MultiheadAttention

from attention_conformance import register


def build(d_model: int, heads: int) -> Any:
    """Build the module from a configuration as it comes."""
    return MultiheadAttention(EncoderConfig(), d_model, heads, encoder_decoder_attention=True)


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it; its weights are (H, B, L, S)."""
    output, weights = module(query, key, value, key_padding_mask=mask)
    return output, weights.transpose(0, 1)


multihead_attention = register(
    build, reference="MultiHeadAttention", call=call, mask=("bool",), mask_means="hide", mask_shapes=("BS",), second="weights",
    empty_row="nan", precision="softmax32",
)  # fmt: skip
