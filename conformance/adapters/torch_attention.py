"""torch's own attention: the function and the module, each in two ways."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import torch
from torch import Tensor

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
    grouped = query.dim() == key.dim() > 2 and query.shape[:-3] == key.shape[:-3] and query.shape[-3] > key.shape[-3]
    more = {"enable_gqa": True} if grouped else {}
    return function(query, key, value, mask, is_causal=causal, scale=scale, **more)


def sdpa_math(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *,
    causal: bool = False, scale: float | None = None,
) -> Any:  # fmt: skip
    """Call scaled_dot_product_attention with its MATH backend."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    grouped = query.dim() == key.dim() > 2 and query.shape[:-3] == key.shape[:-3] and query.shape[-3] > key.shape[-3]
    more = {"enable_gqa": True} if grouped else {}
    with sdpa_kernel(SDPBackend.MATH):
        return function(query, key, value, mask, is_causal=causal, scale=scale, **more)


def batch_first(target: Any, d_model: int, heads: int) -> Any:
    """Build the module for tensors (B, L, d_model)."""
    return target(d_model, heads, batch_first=True)


def mha(
    module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, weights: bool = False
) -> Any:
    """Call the module without weights, or with those of every head, (B, H, L, S).

    A mask goes where its shape is taken: (B, 1, 1, S) is a key padding mask.
    """
    masks = {}
    if mask is not None:
        masks = {"key_padding_mask": mask[:, 0, 0]} if mask.dim() == 4 else {"attn_mask": mask}
    result = module(query, key, value, need_weights=weights, average_attn_weights=False, **masks)
    return result if weights else result[0]


def mha_self(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call the module with one tensor; in eval mode, without gradients, torch then takes its fast path."""
    masks = {}
    if mask is not None:
        masks = {"key_padding_mask": mask[:, 0, 0]} if mask.dim() == 4 else {"attn_mask": mask}
    return module(query, query, query, need_weights=False, **masks)[0]


ALL_DTYPES = ("fp64", "fp32", "bf16", "fp16")

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
    "dtypes": ALL_DTYPES,
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
    "dtypes": ALL_DTYPES,
}

VALUE_LENGTH = Deviation(
    "ERRORS-007",
    "The fused CPU kernel takes the number of keys from the value and does not compare it with the key: a shorter "
    "value drops keys silently, a longer one reads memory past the end of the key.",
    link="https://github.com/pytorch/pytorch/pull/193728",
    when="device == cpu",
)
SWALLOWED_NAN = Deviation(
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
        deviations=(VALUE_LENGTH, SWALLOWED_NAN),
    ),
    Adapter(
        _SDPA, "the MATH backend", sdpa_math, {**_SDPA_ANSWERS, "causal_with_mask": "error", "precision": _MATH_PRECISION},
        variant="math",
    ),
    Adapter(
        _MHA, "batch_first=True, need_weights=False", mha,
        {**_MHA_ANSWERS, "empty_row": _EMPTY_ROW, "second": None, "gradient": "once"}, build=batch_first,
        reference="MultiHeadAttention", deviations=(SWALLOWED_NAN,),
    ),
    Adapter(
        _MHA, "batch_first=True, need_weights=True, average_attn_weights=False", partial(mha, weights=True),
        {**_MHA_ANSWERS, "empty_row": "nan", "second": "weights"}, variant="weights", build=batch_first,
        reference="MultiHeadAttention",
    ),
    Adapter(
        _MHA, "batch_first=True, need_weights=False, query, key and value are one tensor", mha_self,
        {**_MHA_ANSWERS, "inputs": "self", "empty_row": _EMPTY_ROW, "second": None, "gradient": "once"}, variant="self",
        build=batch_first, reference="MultiHeadAttention",
        deviations=tuple(
            Deviation(rule, _FAST_PATH, link=_FAST_PATH_LINK, when="torch >= 2.5") for rule in ("MASK-002", "MASK-011")
        ),
    ),
)  # fmt: skip
"""Every way to call torch's own attention that is judged."""
