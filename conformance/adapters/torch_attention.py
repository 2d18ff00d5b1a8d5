"""torch's own attention: the function and the module, each in two ways."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from .adapter import Adapter

_SDPA = "torch.nn.functional:scaled_dot_product_attention"
_MHA = "torch.nn:MultiheadAttention"


def sdpa(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *,
    causal: bool = False, scale: float | None = None,
) -> Any:  # fmt: skip
    """Call scaled_dot_product_attention; query (..., H, L, D), key (..., H or fewer, S, D)."""
    grouped = query.dim() > 2 and key.dim() > 2 and query.shape[-3] > key.shape[-3]
    return function(query, key, value, mask, is_causal=causal, scale=scale, enable_gqa=grouped)


def sdpa_math(function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any) -> Any:
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


_SDPA_ANSWERS: dict[str, Any] = {
    "heads": "grouped",
    "mask": ("bool", "additive"),
    "mask_shapes": ("LS", "11LS", "111S", "B11S", "B1LS", "1HLS", "BH1S", "BHLS"),
    "empty_row": "zeros",
    "causal": "top-left",
    "second": None,
    "options": ("scale",),
    "dtypes": ("fp64", "fp32", "bf16", "fp16"),
}

_MHA_ANSWERS: dict[str, Any] = {
    "mask": ("bool", "additive"),
    "mask_means": "hide",
    "mask_shapes": ("LS", "B11S", "(BH)LS"),
    "no_keys": "zeros",
}

TORCH_ADAPTERS: tuple[Adapter, ...] = (
    Adapter(
        _SDPA, "the path that torch chooses on this device", sdpa,
        {**_SDPA_ANSWERS, "causal_with_mask": "unspecified", "precision": "fused", "gradient": "once"},
    ),
    Adapter(
        _SDPA, "the MATH backend", sdpa_math,
        {**_SDPA_ANSWERS, "causal_with_mask": "error", "precision": "upcast"}, variant="math",
    ),
    Adapter(
        _MHA, "batch_first=True, need_weights=False", mha,
        {**_MHA_ANSWERS, "empty_row": "zeros", "second": None}, build=batch_first, reference="MultiHeadAttention",
    ),
    Adapter(
        _MHA, "batch_first=True, need_weights=True, average_attn_weights=False", mha_weights,
        {**_MHA_ANSWERS, "empty_row": "nan", "second": "weights"}, variant="weights", build=batch_first,
        reference="MultiHeadAttention",
    ),
)  # fmt: skip
"""Every way to call torch's own attention that is judged."""
