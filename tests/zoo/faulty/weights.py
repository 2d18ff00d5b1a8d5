"""Faulty second results: weights that are not those which made the output, and wrong log-sum-exps."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..mutant import WEIGHTS, Population
from .parts import Pair, attend, fill_hidden, over_keys, scaled

mutants = Population()


@mutants.add("WEIGHTS", "SHAPE", kind=WEIGHTS, repeats="numerics 25")
def weights_averaged_over_heads(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Averages the returned weights over the heads without declaring it."""
    output, weights = attend(query, key, value, mask)
    return output, weights.mean(dim=-3) if weights.dim() > 3 else weights


@mutants.add("WEIGHTS", kind=WEIGHTS, repeats="numerics 25")
def weights_averaged_and_spread(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns for every head the average over the heads, in the right shape."""
    output, weights = attend(query, key, value, mask)
    if weights.dim() > 3 and weights.size(-3):
        weights = weights.mean(dim=-3, keepdim=True).expand(weights.shape)
    return output, weights


@mutants.add("WEIGHTS", "SHAPE", kind=WEIGHTS, repeats="numerics 25")
def weights_of_first_head(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns the weights of head 0 for every head."""
    output, weights = attend(query, key, value, mask)
    return output, weights[..., :1, :, :].expand(weights.shape) if weights.dim() > 3 else weights


@mutants.add("WEIGHTS", kind=WEIGHTS, repeats="numerics 25")
def weights_before_softmax(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns the masked scores in place of the weights."""
    output, _ = attend(query, key, value, mask)
    return output, fill_hidden(scaled(query, key), mask)


@mutants.add("WEIGHTS", kind=WEIGHTS, repeats="numerics 25")
def weights_in_logarithms(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns the logarithms of the weights."""
    output, _ = attend(query, key, value, mask)
    return output, torch.log_softmax(fill_hidden(scaled(query, key), mask), dim=-1)


@mutants.add("WEIGHTS", kind=WEIGHTS, repeats="numerics 25")
def weights_not_normalised(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns weights relative to the largest of their row, as an online softmax holds them."""
    output, weights = attend(query, key, value, mask)
    if weights.size(-1):
        weights = weights / weights.amax(dim=-1, keepdim=True)
    return output, weights


@mutants.add("WEIGHTS", kind=WEIGHTS, repeats="numerics 25")
def square_weights_transposed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns the weights transposed where there are as many queries as keys."""
    output, weights = attend(query, key, value, mask)
    return output, weights.transpose(-2, -1) if weights.size(-2) == weights.size(-1) else weights


@mutants.add("WEIGHTS", "SHAPE", kind=WEIGHTS)
def weights_transposed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns weights (..., S, L)."""
    output, weights = attend(query, key, value, mask)
    return output, weights.transpose(-2, -1)


@mutants.add("WEIGHTS", "MASK", kind=WEIGHTS, repeats="numerics 25 numerics 26")
def weights_returned_unmasked(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns weights that were computed without the mask."""
    output, _ = attend(query, key, value, mask)
    return output, over_keys(scaled(query, key))


@mutants.add("WEIGHTS", kind=WEIGHTS, repeats="numerics 25")
def weights_returned_unscaled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns the weights of unscaled scores beside the right output."""
    output, _ = attend(query, key, value, mask)
    return output, attend(query, key, value, mask, scale=1.0)[1]


_previous: dict[tuple[torch.Size, torch.dtype], Tensor] = {}


@mutants.add("WEIGHTS", "PURITY", kind=WEIGHTS, repeats="numerics 25 B234")
def weights_of_the_previous_call(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns the weights of the previous call with the same shape, if there was one."""
    output, weights = attend(query, key, value, mask)
    kept = (weights.shape, weights.dtype)
    stale = _previous.get(kept, weights)
    _previous[kept] = weights.detach()
    return output, stale


@mutants.add("WEIGHTS", kind=WEIGHTS, repeats="numerics 26")
def small_returned_weights_cleared(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Clears returned weights below 0.001, for the eye."""
    output, weights = attend(query, key, value, mask)
    return output, weights.masked_fill(weights < 1e-3, 0.0)


@mutants.add("WEIGHTS", kind=WEIGHTS, repeats="numerics 26")
def returned_weights_cut_to_four_digits(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Cuts the returned weights of fp64 and fp32 to four decimal digits."""
    output, weights = attend(query, key, value, mask)
    cut = (weights.detach() * 1e4).floor() / 1e4
    return output, weights if weights.dtype == torch.bfloat16 else weights + (cut - weights).detach()


@mutants.add("WEIGHTS", "PURITY", kind=WEIGHTS, repeats="numerics 1")
def weights_missing_without_gradient(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Returns None in place of the weights on the path without gradients."""
    output, weights = attend(query, key, value, mask)
    return output, weights if torch.is_grad_enabled() else None


@mutants.add("WEIGHTS", "SHAPE", kind=WEIGHTS, second="weights")
def weights_missing(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Returns the output alone and declares that weights come second."""
    return attend(query, key, value, mask)[0]


@mutants.add("WEIGHTS", "SHAPE", kind=WEIGHTS)
def weights_come_first(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns the weights first and the output second."""
    output, weights = attend(query, key, value, mask)
    return weights, output


def _lse(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    return torch.logsumexp(fill_hidden(scaled(query, key), mask), dim=-1)


@mutants.add("WEIGHTS", kind=WEIGHTS, repeats="numerics 30", second="lse")
def lse_to_base_two(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares the natural log-sum-exp and returns it to base two."""
    return attend(query, key, value, mask)[0], _lse(query, key, mask) / math.log(2)


@mutants.add("WEIGHTS", kind=WEIGHTS, repeats="numerics 30", second="lse")
def lse_without_row_maximum(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares the log-sum-exp and returns the logarithm of the shifted sum, without the row maximum."""
    scores = fill_hidden(scaled(query, key), mask)
    top = scores.amax(dim=-1) if scores.size(-1) else torch.zeros_like(scores.sum(dim=-1))
    return attend(query, key, value, mask)[0], torch.logsumexp(scores, dim=-1) - top


@mutants.add("WEIGHTS", "MASK", kind=WEIGHTS, repeats="numerics 30", second="lse")
def lse_of_hidden_keys_too(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares the log-sum-exp and lets hidden keys count in it."""
    return attend(query, key, value, mask)[0], _lse(query, key, None)
