"""Faulty options: a scale, bias or softcap that is ignored, misplaced or loses its gradient."""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import FILL, GRADIENT, MEANING, PATHS, SCALE, SOFTCAP, Population
from .parts import (
    Pair,
    altered,
    attend,
    both,
    capped,
    default_scale,
    fill_hidden,
    optioned,
    over_keys,
    rounded,
    scaled,
    value_of,
)

mutants = Population()


@mutants.add("OPTIONS", kind=SCALE, repeats="B121 B122 B123 numerics 16", options=("scale",))
def scale_argument_ignored(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Pair:
    """Scales by 1/sqrt(D) whatever scale is given."""
    return attend(query, key, value, mask)


@mutants.add("OPTIONS", kind=SCALE, repeats="B124 numerics 16", options=("scale",))
def scale_argument_times_default(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Pair:
    """Multiplies a given scale by the default one."""
    factor = default_scale(query) * (1.0 if scale is None else scale)
    return attend(query, key, value, mask, scale=factor)


@mutants.add("OPTIONS", kind=SCALE, repeats="numerics 28", options=("scale",))
def scale_zero_means_default(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Pair:
    """Takes a scale of 0.0 for none."""
    return attend(query, key, value, mask, scale=scale or None)


@mutants.add("OPTIONS", kind=SCALE, repeats="numerics 28", options=("scale",))
def scale_split_by_square_root(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Pair:
    """Gives query and key the root of the scale each and loses the sign of a negative one."""
    return attend(query, key, value, mask, scale=None if scale is None else abs(scale))


@mutants.add("OPTIONS", kind=SCALE, repeats="numerics 16", options=("scale",))
def scale_of_one_means_default(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Pair:
    """Takes a scale of 1.0 for none."""
    return attend(query, key, value, mask, scale=None if scale == 1.0 else scale)


def _biased(scores: Tensor, bias: Tensor | None) -> Tensor:
    return scores if bias is None else scores + bias.to(scores.dtype)


@mutants.add("OPTIONS", kind=FILL, repeats="numerics 38", options=("bias",))
def bias_ignored(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Ignores the bias."""
    return attend(query, key, value, mask)


@mutants.add("OPTIONS", "NUMERIC", kind=FILL, repeats="B052 numerics 14", options=("bias",))
def scale_also_on_bias(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Multiplies the bias by the scale as well."""
    factor = default_scale(query)
    return optioned(query, key, value, mask, bias=None if bias is None else bias * factor)


@mutants.add("OPTIONS", "GRADIENT", kind=GRADIENT, repeats="B212 B211 numerics G6", options=("bias",))
def bias_gradient_missing(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Detaches the bias."""
    return optioned(query, key, value, mask, bias=None if bias is None else bias.detach())


@mutants.add("GRADIENT", "OPTIONS", kind=GRADIENT, repeats="B211", options=("bias",))
def bias_gradient_only_with_query_gradient(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Detaches the bias when the query needs no gradient."""
    lost = bias is not None and not query.requires_grad
    return optioned(query, key, value, mask, bias=bias.detach() if bias is not None and lost else bias)


@mutants.add("GRADIENT", "OPTIONS", kind=GRADIENT, repeats="B213 numerics G6", options=("bias",))
def bias_gradient_from_first_sample(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Takes the gradient of a bias that the batch shares from sample 0 in place of the sum."""
    scores = scaled(query, key)
    if bias is not None:
        shared = bias.dim() < scores.dim() or bias.size(0) == 1
        wide = bias.to(scores.dtype).expand(scores.shape)
        if shared and scores.dim() > 2:
            others = (torch.arange(scores.size(0)) > 0).reshape(-1, *[1] * (scores.dim() - 1))
            wide = altered(wide, lambda gradient: gradient.masked_fill(others, 0.0))
        scores = scores + wide
    weights = over_keys(fill_hidden(scores, mask))
    return torch.matmul(weights, value), weights


@mutants.add("OPTIONS", "WEIGHTS", kind=FILL, repeats="numerics 14", options=("bias",))
def bias_after_softmax(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Adds the bias to the weights."""
    weights = _biased(attend(query, key, value, mask)[1], bias)
    return torch.matmul(weights, value), weights


@mutants.add("OPTIONS", kind=FILL, options=("bias",))
def bias_of_first_head_for_all(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Uses the bias of head 0 for every head."""
    several = bias is not None and bias.dim() > 2
    return optioned(query, key, value, mask, bias=bias[..., :1, :, :] if bias is not None and several else bias)


@mutants.add("OPTIONS", kind=MEANING, repeats="B034 B036", options=("bias",))
def bias_read_as_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Keeps the keys whose bias is exactly zero."""
    return attend(query, key, value, both(mask, None if bias is None else bias == 0))


@mutants.add("OPTIONS", kind=FILL, repeats="B081", options=("bias",))
def bias_dropped_if_mask_given(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Forgets the bias when a mask is given."""
    return optioned(query, key, value, mask, bias=bias if mask is None else None)


@mutants.add("OPTIONS", "NUMERIC", kind="numerics 14", repeats="B215", options=("bias",))
def bias_rounded_to_bf16(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Rounds the bias to bf16 whatever the dtype."""
    return optioned(query, key, value, mask, bias=None if bias is None else rounded(bias, torch.bfloat16))


@mutants.add("OPTIONS", "NUMERIC", kind=SOFTCAP, repeats="B107", options=("bias", "softcap"))
def softcap_also_on_bias(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    bias: Tensor | None = None,
    softcap: float | None = None,
) -> Pair:
    """Adds the bias before the softcap."""
    scores = capped(_biased(scaled(query, key), bias), softcap)
    weights = over_keys(fill_hidden(scores, mask))
    return torch.matmul(weights, value), weights


@mutants.add("OPTIONS", kind=SOFTCAP, repeats="B109 B111 numerics 38", options=("softcap",))
def softcap_ignored(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, softcap: float | None = None
) -> Pair:
    """Ignores the softcap."""
    return attend(query, key, value, mask)


@mutants.add("OPTIONS", "MASK", kind=SOFTCAP, repeats="B105 B107 B108", options=("softcap",))
def softcap_after_mask(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, softcap: float | None = None
) -> Pair:
    """Caps the masked scores, so that hidden keys get the score -cap."""
    weights = over_keys(capped(fill_hidden(scaled(query, key), mask), softcap))
    return torch.matmul(weights, value), weights


@mutants.add("OPTIONS", "NUMERIC", kind=SOFTCAP, options=("softcap",))
def softcap_before_scale(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, softcap: float | None = None
) -> Pair:
    """Caps the products before they are scaled."""
    scores = capped(scaled(query, key, 1.0), softcap) * default_scale(query)
    weights = over_keys(fill_hidden(scores, mask))
    return torch.matmul(weights, value), weights


@mutants.add("OPTIONS", "NUMERIC", kind=SOFTCAP, options=("softcap",))
def softcap_clamps(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, softcap: float | None = None
) -> Pair:
    """Clamps at the cap in place of the tanh."""
    scores = scaled(query, key)
    scores = scores if softcap is None else scores.clamp(-softcap, softcap)
    weights = over_keys(fill_hidden(scores, mask))
    return torch.matmul(weights, value), weights


@mutants.add("OPTIONS", kind=SOFTCAP, repeats="B109 B111", options=("softcap",))
def softcap_fixed_at_50(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, softcap: float | None = None
) -> Pair:
    """Caps at 50 whatever cap is given."""
    return optioned(query, key, value, mask, softcap=None if softcap is None else 50.0)


@mutants.add("GRADIENT", "OPTIONS", kind=GRADIENT, repeats="B105 numerics G2", options=("softcap",))
def softcap_gradient_straight_through(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, softcap: float | None = None
) -> Pair:
    """Forgets the derivative of the tanh in the backward pass."""
    scores = scaled(query, key)
    weights = over_keys(fill_hidden(value_of(capped(scores, softcap), scores), mask))
    return torch.matmul(weights, value), weights


@mutants.add("OPTIONS", "PURITY", kind=PATHS, repeats="B109 B121", options=("scale",))
def scale_argument_ignored_without_gradient(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, scale: float | None = None
) -> Pair:
    """Ignores a given scale on the path without gradients."""
    return attend(query, key, value, mask, scale=scale if torch.is_grad_enabled() else None)
