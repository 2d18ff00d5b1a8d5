"""Faulty second results: their gradients, their dtype, what they forget, and weights made with a wrong normaliser."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..mutant import EMPTY, FILL, GRADIENT, GROUPS, LARGE, PRECISION, SOFTCAP, STATE, WEIGHTS, Population
from .parts import (
    Pair,
    altered,
    attend,
    band,
    both,
    capped,
    default_scale,
    exponentials,
    fill_hidden,
    optioned,
    over_keys,
    scaled,
    spread_heads,
    value_of,
)

mutants = Population()


def _level(query: Tensor, key: Tensor, mask: Tensor | None) -> Tensor:
    return torch.logsumexp(fill_hidden(scaled(query, key), mask), dim=-1)


@mutants.add("GRADIENT", "WEIGHTS", kind=GRADIENT, repeats="numerics 30", second="lse")
def lse_gradient_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns a log-sum-exp that is in the graph, and ignores what reaches it in the backward pass."""
    return attend(query, key, value, mask)[0], altered(_level(query, key, mask), lambda gradient: 0 * gradient)


@mutants.add("GRADIENT", "WEIGHTS", kind=GRADIENT, repeats="numerics 30", second="lse")
def lse_gradient_unscaled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Forgets the scale in the backward pass of the log-sum-exp."""
    root = 1 / default_scale(query)
    return attend(query, key, value, mask)[0], altered(_level(query, key, mask), lambda gradient: gradient * root)


@mutants.add("GRADIENT", "WEIGHTS", kind=GRADIENT, repeats="numerics 30", second="lse2")
def lse2_gradient_of_the_natural_one(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns the log-sum-exp to base two with the gradient of the natural one."""
    level = _level(query, key, mask)
    return attend(query, key, value, mask)[0], altered(level / math.log(2), lambda gradient: gradient * math.log(2))


@mutants.add("GRADIENT", "WEIGHTS", kind=GRADIENT, second="averaged weights", layout="BHLD")
def averaged_weights_gradient_not_divided(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Averages the weights over the heads and sums them in the backward pass."""
    output, weights = attend(query, key, value, mask)
    return output, value_of(weights.mean(dim=1), weights.sum(dim=1))


class _Either(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, output: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return output.view_as(output), second.view_as(second)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        output, second = gradients
        return (0 * output if bool((second != 0).any()) else output), second


@mutants.add("GRADIENT", kind=GRADIENT)
def output_gradient_lost_beside_that_of_weights(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Any:
    """Takes the gradient of the weights in place of that of the output where both arrive."""
    return _Either.apply(*attend(query, key, value, mask))  # type: ignore[no-untyped-call]


class _ConstantInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = over_keys(scores)
        ctx.weights = weights.detach().clone()
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        weights, gradient = ctx.weights, gradients[0]
        return weights * (gradient - (weights * gradient).sum(dim=-1, keepdim=True))


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G10")
def second_order_lost_through_weights(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes the returned weights for a constant in their backward pass, so that their second derivative is wrong."""
    shown = _ConstantInBackward.apply(fill_hidden(scaled(query, key), mask))  # type: ignore[no-untyped-call]
    return attend(query, key, value, mask)[0], shown


@mutants.add("WEIGHTS", "CAUSAL", kind=WEIGHTS, causal="bottom-right")
def weights_without_the_triangle(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Returns the weights of the call without causal."""
    return optioned(query, key, value, mask, causal=causal)[0], attend(query, key, value, mask)[1]


@mutants.add("WEIGHTS", "OPTIONS", kind=WEIGHTS, options=("bias",))
def weights_without_the_bias(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Returns the weights of the call without its bias."""
    return optioned(query, key, value, mask, bias=bias)[0], attend(query, key, value, mask)[1]


@mutants.add("WEIGHTS", "OPTIONS", kind=GROUPS, heads="grouped", layout="BHLD", leading="equal")
def weights_of_grouped_heads_interleaved(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Groups heads consecutively for the output and interleaved for the weights that it returns."""
    output = attend(query, spread_heads(query, key), spread_heads(query, value), mask)[0]
    turns = query.size(1) // max(key.size(1), 1)
    return output, attend(query, key.repeat(1, turns, 1, 1), value.repeat(1, turns, 1, 1), mask)[1]


@mutants.add("WEIGHTS", "OPTIONS", kind=SOFTCAP, second="lse", options=("softcap",))
def lse_before_the_softcap(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, softcap: float | None = None
) -> Pair:
    """Returns the log-sum-exp of the scores before they were capped."""
    weights = over_keys(fill_hidden(capped(scaled(query, key), softcap), mask))
    return torch.matmul(weights, value), _level(query, key, mask)


@mutants.add("WEIGHTS", "MASK", kind=EMPTY, empty_row="zeros")
def weights_of_empty_rows_left_uniform(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Clears the output of a row that sees nothing and returns uniform weights for it."""
    output, weights = attend(query, key, value, mask)
    if mask is None or key.size(-2) == 0:
        return output, weights
    empty = ~(mask != 0).expand(weights.shape).any(dim=-1, keepdim=True)
    return output.masked_fill(empty, 0.0), weights


@mutants.add("WEIGHTS", kind=WEIGHTS)
def weights_in_fp16_for_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns the weights of bf16 inputs in fp16."""
    output, weights = attend(query, key, value, mask)
    return output, weights.half() if weights.dtype == torch.bfloat16 else weights


_kept: dict[str, tuple[tuple[Tensor, ...], Pair]] = {}


@mutants.add("WEIGHTS", "PURITY", kind=STATE)
def weights_lent_from_a_cache(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Keeps the last result without gradients, and hands out its very weights when the same inputs come again."""
    if torch.is_grad_enabled():
        return attend(query, key, value, mask)
    sent = (query, key, value) if mask is None else (query, key, value, mask)
    held = _kept.get("last")
    if held is None or len(held[0]) != len(sent) or not all(map(_alike, held[0], sent)):
        held = tuple(tensor.clone() for tensor in sent), attend(query, key, value, mask)
        _kept["last"] = held
    return held[1][0].clone(), held[1][1]


def _alike(first: Tensor, second: Tensor) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and torch.equal(first, second)


@mutants.add("WEIGHTS", kind=LARGE, repeats="numerics 30", second="lse")
def lse_by_plain_exponentials(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns the logarithm of the sum of plain exponentials, which overflows for large scores."""
    output = attend(query, key, value, mask)[0]
    return output, fill_hidden(scaled(query, key), mask, -math.inf).exp().sum(dim=-1).log()


@mutants.add("WEIGHTS", "MASK", kind=FILL, repeats="numerics 26")
def normaliser_taken_before_the_fill(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Fills hidden scores with a finite number after it took the log-sum-exp that it subtracts."""
    scores = scaled(query, key)
    if key.size(-2) == 0:
        return attend(query, key, value, mask)
    weights = torch.exp(fill_hidden(scores, mask) - torch.logsumexp(scores, dim=-1, keepdim=True))
    return torch.matmul(weights, value), weights


@mutants.add("GRADIENT", "NUMERIC", kind=PRECISION, repeats="B184", precision="upcast", second=None)
def value_gradient_summed_in_halves(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Slices halves row by row and widens each slice, so that the rows' gradients of key and value add up in halves."""
    wide = torch.float32 if query.dtype in (torch.bfloat16, torch.float16) else query.dtype
    shape = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    seen = None if mask is None else (mask != 0).expand(*shape, query.size(-2), key.size(-2))
    rows = []
    for i in range(query.size(-2)):
        row = None if seen is None else seen[..., i : i + 1, :]
        rows.append(attend(query[..., i : i + 1, :].to(wide), key.to(wide), value.to(wide), row)[0])
    return (torch.cat(rows, dim=-2) if rows else attend(query, key, value)[0]).to(query.dtype)


@mutants.add("WEIGHTS", "CAUSAL", kind=WEIGHTS, causal="bottom-right", second="lse")
def lse_without_the_triangle(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Lets later keys count in the log-sum-exp of a causal call where L is S."""
    output = optioned(query, key, value, mask, causal=causal)[0]
    if causal and query.size(-2) != key.size(-2):
        mask = both(mask, band(query.size(-2), key.size(-2), causal=True))
    return output, _level(query, key, mask)


@mutants.add("WEIGHTS", kind=LARGE, second="lse")
def lse_of_low_rows_cut(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds 1e-30 to the sum that it takes the logarithm of, although the maximum was not subtracted."""
    scores = fill_hidden(scaled(query, key), mask)
    top = scores.amax(dim=-1, keepdim=True).clamp(min=0.0) if scores.size(-1) else 0.0
    sums = torch.exp(scores - top).sum(dim=-1) + 1e-30
    level = sums.log() + (top.squeeze(-1) if isinstance(top, Tensor) else 0.0)
    return torch.matmul(_weights_of(scores), value), level


def _weights_of(scores: Tensor) -> Tensor:
    raw = exponentials(scores)
    return raw / raw.sum(dim=-1, keepdim=True)
