"""Implementations whose names nobody would type. A function is registered once, so that each has one of its own."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from attention_conformance import register
from attention_conformance.reference.attention import attention

NAMES = (
    "<script>alert(1)</script>",
    "half \ud800",
    "\x1b[31mred\x07",
    "[bold]two\nlines[/bold]",
    "x" * 10_000,
    "a::b[c]",
    "",
)

for name in NAMES:

    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        return attention(query, key, value, mask)

    register(attend, name=name)
