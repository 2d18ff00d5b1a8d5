"""The table of adapters, and what is judged when no target is named."""

from __future__ import annotations

from .adapter import Adapter
from .attention_packages import PACKAGE_ADAPTERS
from .torch_attention import TORCH_ADAPTERS
from .transformers_functions import FUNCTION_ADAPTERS
from .transformers_modules import MODULE_ADAPTERS
from .vision_packages import VISION_ADAPTERS

ADAPTERS: tuple[Adapter, ...] = (
    *TORCH_ADAPTERS,
    *FUNCTION_ADAPTERS,
    *MODULE_ADAPTERS,
    *PACKAGE_ADAPTERS,
    *VISION_ADAPTERS,
)
"""Every entry; a target together with a variant occurs once. Of two patterns that fit, the earlier one is taken."""

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


def find(target: object, table: tuple[Adapter, ...] = ADAPTERS) -> dict[str | None, Adapter]:
    """Return the entries that recognise `target`, by variant; the usual one first. Empty for an unknown target.

    An entry that names the target goes before a pattern, and an earlier pattern before a later one: all variants are
    those of one entry's `target`.
    """
    # Sorting keeps the order within the entries that name the target and within the patterns.
    fitting = sorted((each for each in table if each.recognises(target)), key=lambda each: each.is_pattern)
    return {each.variant: each for each in fitting if each.target == fitting[0].target}
