"""torch's own attention: the function and the module, each in two ways."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

from ..deviations import Deviation
from .adapter import Adapter

_SDPA = "torch.nn.functional:scaled_dot_product_attention"
_MHA = "torch.nn:MultiheadAttention"

_SINCE_2_5 = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2]) >= (2, 5)
"""torch 2.5 brought grouped heads, and zeros for rows without a key on every path."""


def sdpa(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *,
    causal: bool = False, scale: float | None = None,
) -> Any:  # fmt: skip
    """Call scaled_dot_product_attention; query (..., H, L, D), key (..., H or fewer, S, D)."""
    grouped = query.dim() > 2 and key.dim() > 2 and query.shape[-3] > key.shape[-3]
    more = {"enable_gqa": True} if grouped and _SINCE_2_5 else {}
    return function(query, key, value, mask, is_causal=causal, scale=scale, **more)


def sdpa_math(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any
) -> Any:
    """Call scaled_dot_product_attention with its MATH backend."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    with sdpa_kernel(SDPBackend.MATH):
        return sdpa(function, query, key, value, mask, **options)


def batch_first(d_model: int, heads: int) -> nn.MultiheadAttention:
    """Build the module for tensors (B, L, d_model)."""
    return nn.MultiheadAttention(d_model, heads, batch_first=True)


def mha(module: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Call the module without weights."""
    output: Tensor = module(query, key, value, need_weights=False, **_masks(mask))[0]
    return output


def mha_weights(
    module: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Call the module with the weights of every head, (B, H, L, S)."""
    output, weights = module(query, key, value, need_weights=True, average_attn_weights=False, **_masks(mask))
    return output, weights


def _masks(mask: Tensor | None) -> dict[str, Tensor]:
    """Return the mask under the name of the argument that takes its shape: (B, 1, 1, S) is a key padding mask."""
    if mask is None:
        return {}
    return {"key_padding_mask": mask[:, 0, 0]} if mask.dim() == 4 else {"attn_mask": mask}


def mha_self(
    module: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Tensor:
    """Call the module with one tensor; in eval mode, without gradients, torch then takes its fast path."""
    return mha(module, query, query, query, mask)


_ALL = ("fp64", "fp32", "bf16", "fp16")

_EMPTY_ROW = "zeros" if _SINCE_2_5 else "unspecified"

_MATH_PRECISION = "upcast" if _SINCE_2_5 else "eager"
"""Until 2.4 the MATH backend kept intermediates in 16 bits (pytorch/pytorch#128922); the other path falls back to it."""

_SDPA_ANSWERS: dict[str, Any] = {
    "heads": "grouped" if _SINCE_2_5 else "equal",
    "mask": ("bool", "additive"),
    "empty_row": _EMPTY_ROW,
    "causal": "top-left",
    "second": None,
    "options": ("scale",),
    "dtypes": _ALL,
}

# The fused CPU kernel takes no mask of one axis, combines causal with a mask where MATH raises, and rounds the weights.
_SDPA_CHOSEN: dict[str, Any] = {
    "mask_shapes": ("LS", "11LS", "111S", "B11S", "B1LS", "1HLS", "BH1S", "BHLS"),
    "causal_with_mask": "unspecified",
    "precision": "fused" if _SINCE_2_5 else "eager",
    "gradient": "once",
}

_MHA_ANSWERS: dict[str, Any] = {
    "mask": ("bool", "additive"),
    "mask_means": "hide",
    "mask_shapes": ("LS", "B11S", "(BH)LS"),
    "no_keys": "zeros",
    "dtypes": _ALL,
}

_VALUE_LENGTH = Deviation(
    "ERRORS-007",
    "The fused CPU kernel takes the number of keys from the value and does not compare it with the key: a shorter "
    "value drops keys silently, a longer one reads memory past the end of the key.",
    link="https://github.com/pytorch/pytorch/pull/193728",
    when="device == cpu",
)
_SWALLOWED_NAN = Deviation(
    "NUMERIC-012",
    "The fused CPU kernel gives zeros for a query that holds NaN where there are fewer keys than fit into one vector "
    "of the processor, so that a fault further up shows nowhere.",
    link="https://github.com/pytorch/pytorch/issues/141128",
    when="device == cpu and torch >= 2.5",
)
_FAST_PATH = (
    "In eval mode without gradients, one tensor for all three inputs takes a native fast path, which gives NaN for a "
    "row hidden by a boolean mask; everywhere else the same row gives the bias of the output projection."
)
_FAST_PATH_LINK = "https://github.com/pytorch/pytorch/pull/190486"

TORCH_ADAPTERS: tuple[Adapter, ...] = (
    Adapter(
        _SDPA, "the path that torch chooses on this device", sdpa, {**_SDPA_ANSWERS, **_SDPA_CHOSEN},
        deviations=(_VALUE_LENGTH, _SWALLOWED_NAN),
    ),
    Adapter(
        _SDPA, "the MATH backend", sdpa_math, {**_SDPA_ANSWERS, "causal_with_mask": "error", "precision": _MATH_PRECISION},
        variant="math",
    ),
    Adapter(
        _MHA, "batch_first=True, need_weights=False", mha,
        {**_MHA_ANSWERS, "empty_row": _EMPTY_ROW, "second": None, "gradient": "once"}, build=batch_first,
        reference="MultiHeadAttention", deviations=(_SWALLOWED_NAN,),
    ),
    Adapter(
        _MHA, "batch_first=True, need_weights=True, average_attn_weights=False", mha_weights,
        {**_MHA_ANSWERS, "empty_row": "nan", "second": "weights"}, variant="weights", build=batch_first,
        reference="MultiHeadAttention",
    ),
    Adapter(
        _MHA, "batch_first=True, need_weights=False, query, key and value are one tensor", mha_self,
        {**_MHA_ANSWERS, "inputs": "self", "empty_row": _EMPTY_ROW, "second": None, "gradient": "once"}, variant="self",
        build=batch_first, reference="MultiHeadAttention",
        deviations=tuple(Deviation(rule, _FAST_PATH, link=_FAST_PATH_LINK) for rule in ("MASK-002", "MASK-011")),
    ),
)  # fmt: skip
"""Every way to call torch's own attention that is judged."""
