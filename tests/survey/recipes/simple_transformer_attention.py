"""simple-transformer: the listing of the second document, as a package."""

from __future__ import annotations

from simple_transformer.self_attention import SelfAttention

from attention_conformance import register

self_attention = register(SelfAttention, reference="SelfAttention")
