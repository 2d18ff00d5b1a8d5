"""ultralytics: Attention of its SAM decoder."""

from __future__ import annotations

from ultralytics.models.sam.modules.transformer import Attention

from attention_conformance import register

sam_attention = register(Attention, mask=(), second=None)
