"""bert-pytorch: a kernel and its module."""

from __future__ import annotations

from typing import Any

from bert_pytorch.model.attention import Attention, MultiHeadedAttention

from attention_conformance import register


def build(d_model: int, heads: int) -> Any:
    """Build the module without dropout."""
    return MultiHeadedAttention(heads, d_model, dropout=0.0)


attention = register(Attention(), leading="equal", second="weights")
multi_headed_attention = register(
    build, reference="MultiHeadAttention", second=None,
    parameters={"query": "linear_layers.0", "key": "linear_layers.1", "value": "linear_layers.2", "output": "output_linear"},
)  # fmt: skip
