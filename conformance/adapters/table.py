"""The table of adapters, and what is judged when no target is named."""

from __future__ import annotations

from .adapter import Adapter
from .torch_attention import TORCH_ADAPTERS

ADAPTERS: tuple[Adapter, ...] = TORCH_ADAPTERS
"""Every entry; a target together with a variant occurs once."""

DEFAULT_TARGETS: tuple[str, ...] = (
    "attention_conformance.reference.attention:attention",
    "attention_conformance.reference:MultiHeadAttention",
    "attention_conformance.reference:SelfAttention",
    "torch.nn.functional:scaled_dot_product_attention",
    "torch.nn.functional:scaled_dot_product_attention[math]",
    "torch.nn:MultiheadAttention",
    "torch.nn:MultiheadAttention[weights]",
)
"""The documents' three objects, and torch's own attention."""


def find(target: object) -> dict[str | None, Adapter]:
    """Return the entries that recognise `target`, by variant; the usual one first. Empty for an unknown target."""
    return {each.variant: each for each in ADAPTERS if target is not None and each.object() is target}
