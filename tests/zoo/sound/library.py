"""Torch's own scaled_dot_product_attention, bare and wrapped."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..program import HALVES_TOO, Program
from .parts import equal_leading, full_mask


def call_sdpa(
    target: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """Call torch's function with its own names for the options."""
    return target(query, key, value, attn_mask=mask, is_causal=causal, scale=scale)


def sdpa_default(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Hand equal leading axes and a boolean mask to whichever backend torch chooses."""
    query, key, value = equal_leading(query, key, value)
    return F.scaled_dot_product_attention(query, key, value, None if mask is None else full_mask(mask, query, key))


def sdpa_math(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Force the backend that is composed of plain operations."""
    query, key, value = equal_leading(query, key, value)
    allowed = None if mask is None else full_mask(mask, query, key)
    with sdpa_kernel([SDPBackend.MATH]):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)


def sdpa_additive(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Translate the mask into 0 and the lowest finite number."""
    query, key, value = equal_leading(query, key, value)
    added = None
    if mask is not None:
        allowed = full_mask(mask, query, key)
        added = torch.zeros(allowed.shape, dtype=query.dtype, device=query.device)
        added = added.masked_fill(~allowed, torch.finfo(query.dtype).min)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=added)


def sdpa_repeated_heads(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Repeat key and value heads for grouped queries before the call."""
    groups = query.size(1) // key.size(1)
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    return F.scaled_dot_product_attention(query, key, value, None if mask is None else full_mask(mask, query, key))


def sdpa_grouped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Let torch share the heads."""
    allowed = None
    if mask is not None:
        allowed = (mask != 0).expand(*query.shape[:-1], key.size(-2))
    return F.scaled_dot_product_attention(query, key, value, allowed, enable_gqa=True)


def sdpa_one_problem_each(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Call torch once per batch element, with the heads as batch."""
    allowed = full_mask(mask, query, key)
    outputs = [
        F.scaled_dot_product_attention(query[b], key[b], value[b], attn_mask=allowed[b]) for b in range(query.size(0))
    ]
    return torch.stack(outputs) if outputs else query @ key.mT @ value


_ZEROS = {"dtypes": HALVES_TOO, "second": None, "empty_row": "zeros"}
_ONCE = {**_ZEROS, "gradient": "once"}
SOUND_LIBRARY = (
    Program(
        "sdpa_itself",
        F.scaled_dot_product_attention,
        {
            **_ONCE,
            "call": call_sdpa,
            "leading": "equal",
            "mask": ("bool", "additive"),
            "mask_shapes": ("LS", "BHLS", "B1LS", "B11S"),
            "causal": "top-left",
            "causal_with_mask": "unspecified",
            "options": ("scale",),
        },
        "torch's own function, called with its own option names",
    ),
    Program("sdpa_default", sdpa_default, _ONCE, "torch chooses the backend"),
    Program("sdpa_math", sdpa_math, {**_ZEROS, "precision": "upcast"}, "the backend made of plain operations"),
    Program(
        "sdpa_additive",
        sdpa_additive,
        {"second": None, "gradient": "once", "empty_row": "unspecified"},
        "a boolean mask travels as finite numbers that are added",
    ),
    Program(
        "sdpa_repeated_heads",
        sdpa_repeated_heads,
        {**_ONCE, "layout": "BHLD", "heads": "grouped", "leading": "equal"},
        "grouped heads by repetition",
    ),
    Program(
        "sdpa_grouped",
        sdpa_grouped,
        {**_ONCE, "layout": "BHLD", "heads": "grouped", "leading": "equal"},
        "grouped heads inside torch",
    ),
    Program(
        "sdpa_one_problem_each",
        sdpa_one_problem_each,
        {**_ONCE, "layout": "BHLD", "leading": "equal"},
        "one call for each element of the batch",
    ),
)
