"""Kernels with causal masking, further options, other scales, other precisions and fewer dtypes."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ..program import HALVES_TOO, Program
from .parts import Pair, accumulator, full_mask, lowest, round_through, safe_softmax
from .plain import attend_plainly, attending, band, both


def _causal(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, *, bottom_right: bool, empty: float | None
) -> Pair:
    """Attend to no later key, and only where the mask allows it."""
    triangle = band(query.size(-2), key.size(-2), bottom_right=bottom_right, causal=True, device=query.device)
    found = attend_plainly(query, key, value, both(attending(mask), triangle), empty=empty)
    return found.output, found.weights


def causal_top_left(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Align the triangle with the first key."""
    if causal:
        return _causal(query, key, value, mask, bottom_right=False, empty=None)
    found = attend_plainly(query, key, value, attending(mask), empty=None)
    return found.output, found.weights


def causal_bottom_right(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Align the triangle with the last key; queries before the first key are zeros."""
    if causal:
        return _causal(query, key, value, mask, bottom_right=True, empty=0.0)
    found = attend_plainly(query, key, value, attending(mask))
    return found.output, found.weights


def causal_bottom_right_uniform(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Fill with a finite number, so that queries before the first key are the mean over all keys."""
    scores = (query @ key.mT) * query.size(-1) ** -0.5
    if causal:
        shape = (query.size(-2), key.size(-2))
        later = torch.ones(shape, dtype=torch.bool, device=query.device).triu(shape[1] - shape[0] + 1)
        scores = scores.masked_fill(later, lowest(scores))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, lowest(scores))
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def always_causal_top_left(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Apply the triangle whether asked or not."""
    return _causal(query, key, value, mask, bottom_right=False, empty=None)


def always_causal_bottom_right(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Apply the triangle of a decoder with a cache."""
    return _causal(query, key, value, mask, bottom_right=True, empty=0.0)


def causal_or_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Refuse a mask beside causal=True."""
    if causal and mask is not None:
        raise ValueError("give either causal=True or a mask")
    return causal_top_left(query, key, value, mask, causal=causal)


def mask_beats_causal(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Let a mask replace the triangle."""
    return causal_top_left(query, key, value, mask, causal=causal and mask is None)


def causal_without_masks(query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False) -> Pair:
    """Offer the triangle and no mask."""
    return causal_bottom_right(query, key, value, causal=causal)


def causal_by_growing_prefix(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Tensor:
    """Give each query the keys up to its own place, and no others."""
    if not causal:
        return attend_plainly(query, key, value, attending(mask)).output
    allowed, rows, dtype = full_mask(mask, query, key), [], query.dtype
    # Slices share their keys: in a half their gradients would add up in a half.
    query, key, value = (tensor.to(accumulator(dtype)) for tensor in (query, key, value))
    for i in range(query.size(-2)):
        visible = min(i + 1, key.size(-2))
        part = attend_plainly(
            query[..., i : i + 1, :],
            key[..., :visible, :],
            value[..., :visible, :],
            allowed[..., i : i + 1, :visible],
        )
        rows.append(part.output)
    return (torch.cat(rows, -2) if rows else query @ key.mT @ value).to(dtype)


def scale_option(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Pair:
    """Replace the scale when one is given, 0 and negative ones included."""
    scale = query.size(-1) ** -0.5 if scale is None else scale
    scores = torch.matmul(query, key.mT) * scale
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def unscaled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Leave the scores as they are."""
    found = attend_plainly(query, key, value, attending(mask), scale=1.0, empty=None)
    return found.output, found.weights


def fixed_scale(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Multiply the scores by 0.125 at every width."""
    found = attend_plainly(query * 0.125, key, value, attending(mask), scale=1.0, empty=None)
    return found.output, found.weights


def bias_option(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Add a bias that broadcasts to the scores and has a gradient."""
    scores = torch.matmul(query, key.mT) * query.size(-1) ** -0.5
    if bias is not None:
        scores = scores + bias.to(scores.dtype)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def softcap_option(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, softcap: float | None = None
) -> Pair:
    """Bend the scaled scores by tanh before the mask."""
    scores = torch.matmul(query, key.mT) * query.size(-1) ** -0.5
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = torch.softmax(scores, -1)
    return weights @ value, weights


def window_option(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
    bottom_right: bool = False,
) -> Pair:
    """Attend to keys less than `window` places away, on both sides unless causal."""
    near = band(
        query.size(-2),
        key.size(-2),
        bottom_right=bottom_right,
        causal=causal,
        window=window,
        device=query.device,
    )
    found = attend_plainly(query, key, value, both(attending(mask), near))
    return found.output, found.weights


def window_bottom_right(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
) -> Pair:
    """Measure the window from places that end at the last key."""
    return window_option(query, key, value, mask, causal=causal, window=window, bottom_right=True)


def dropout_option(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Tensor:
    """Drop weights at random, scale the others up, and return the output alone."""
    return attend_plainly(query, key, value, attending(mask), dropout=dropout, empty=None).output


def every_option(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
    bias: Tensor | None = None,
    window: int | None = None,
    softcap: float | None = None,
    dropout: float = 0.0,
) -> Pair:
    """Take all options at once, aligned to the bottom right; weights are those before dropout."""
    near = band(query.size(-2), key.size(-2), bottom_right=True, causal=causal, window=window, device=query.device)
    found = attend_plainly(
        query,
        key,
        value,
        both(attending(mask), near),
        scale=scale,
        bias=bias,
        softcap=softcap,
        dropout=dropout,
    )
    return found.output, found.weights


def tf32_products(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Keep ten fraction bits of fp32 queries and keys, as a tensor core in TF32 mode does."""
    if query.dtype == torch.float32:
        query, key = _round_to_tf32(query), _round_to_tf32(key)
    scores = (query @ key.mT) * query.size(-1) ** -0.5
    weights = safe_softmax(scores, full_mask(mask, query, key))
    return weights @ value, weights


def _round_to_tf32(tensor: Tensor) -> Tensor:
    """Round to the nearest multiple of 2^13 units in the last place; the gradient passes."""
    bits = tensor.detach().contiguous().view(torch.int32)
    rounded = ((bits + 0x1000) & ~0x1FFF).view(torch.float32)
    return tensor + (rounded - tensor.detach())


def halves_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Refuse every dtype but bf16 and fp16, and round the weights before the product."""
    if query.dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"only bf16 and fp16 are supported, not {query.dtype}")
    scores = (query.float() @ key.float().mT) * query.size(-1) ** -0.5
    weights = round_through(safe_softmax(scores, full_mask(mask, query, key)), query.dtype)
    return (weights @ value.float()).to(query.dtype)


def single_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Refuse every dtype but fp32."""
    if query.dtype != torch.float32:
        raise TypeError(f"only fp32 is supported, not {query.dtype}")
    found = attend_plainly(query, key, value, attending(mask), empty=None)
    return found.output, found.weights


partial_scale = partial(scale_option, scale=None)

_ZEROS = {"empty_row": "zeros"}
SOUND_OPTIONS = (
    Program("causal_top_left", causal_top_left, {"causal": "top-left"}, "a triangle aligned with the first key"),
    Program(
        "causal_bottom_right",
        causal_bottom_right,
        {**_ZEROS, "causal": "bottom-right", "dtypes": HALVES_TOO},
        "a triangle aligned with the last key",
    ),
    Program(
        "causal_bottom_right_uniform",
        causal_bottom_right_uniform,
        {"causal": "bottom-right", "dtypes": HALVES_TOO},
        "queries before the first key are the mean over all keys",
    ),
    Program("always_causal_top_left", always_causal_top_left, {"causal": "always top-left"}, "causal, always"),
    Program(
        "always_causal_bottom_right",
        always_causal_bottom_right,
        {**_ZEROS, "causal": "always bottom-right"},
        "causal, always, aligned with the last key",
    ),
    Program(
        "causal_or_mask",
        causal_or_mask,
        {"causal": "top-left", "causal_with_mask": "error"},
        "causal together with a mask raises ValueError",
    ),
    Program(
        "mask_beats_causal",
        mask_beats_causal,
        {"causal": "top-left", "causal_with_mask": "unspecified"},
        "a mask replaces the triangle",
    ),
    Program(
        "causal_without_masks",
        causal_without_masks,
        {**_ZEROS, "mask": (), "causal": "bottom-right"},
        "causal is the only restriction",
    ),
    Program(
        "causal_by_growing_prefix",
        causal_by_growing_prefix,
        {**_ZEROS, "causal": "top-left", "second": None, "precision": "upcast"},
        "later keys are never touched",
    ),
    Program("scale_option", scale_option, {"options": ("scale",)}, "the scale can be given"),
    Program("partial_scale", partial_scale, {"options": ("scale",)}, "the target is a functools.partial"),
    Program("unscaled", unscaled, {"scale": 1.0}, "the scores are not scaled"),
    Program("fixed_scale", fixed_scale, {"scale": 0.125}, "the scale does not depend on the width"),
    Program("bias_option", bias_option, {"options": ("bias",)}, "a bias is added to the scores"),
    Program("softcap_option", softcap_option, {"options": ("softcap",)}, "scores are capped before the mask"),
    Program(
        "window_option",
        window_option,
        {**_ZEROS, "causal": "top-left", "options": ("window",)},
        "a local window",
    ),
    Program(
        "window_bottom_right",
        window_bottom_right,
        {**_ZEROS, "causal": "bottom-right", "options": ("window",)},
        "a local window that ends at the last key",
    ),
    Program("dropout_option", dropout_option, {"options": ("dropout",), "second": None}, "weights are dropped"),
    Program(
        "every_option",
        every_option,
        {
            **_ZEROS,
            "causal": "bottom-right",
            "options": ("scale", "bias", "window", "softcap", "dropout"),
            "dtypes": HALVES_TOO,
        },
        "all options together",
    ),
    Program("tf32_products", tf32_products, {**_ZEROS, "precision": "tf32"}, "fp32 inputs lose thirteen bits"),
    Program(
        "halves_only",
        halves_only,
        {**_ZEROS, "dtypes": ("bf16", "fp16"), "precision": "fused", "second": None},
        "other dtypes raise TypeError",
    ),
    Program("single_only", single_only, {"dtypes": ("fp32",)}, "dtypes other than fp32 raise TypeError"),
)
