"""Faulty gradients: the forward pass is right, and something is missing or wrong on the way back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..mutant import GRADIENT, PRECISION, TAILS, Population
from .parts import HIDDEN, Pair, altered, attend, exponentials, fill_hidden, over_keys, positions, scaled, value_of
from .parts import writable

mutants = Population()


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G2")
def query_gradient_missing(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Detaches the query."""
    return attend(query.detach(), key, value, mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G2")
def key_gradient_missing(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Detaches the key."""
    return attend(query, key.detach(), value, mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G4")
def value_gradient_missing(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Detaches the value."""
    return attend(query, key, value.detach(), mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G2 numerics G10")
def output_gradient_skips_weights(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Detaches the weights before they meet the values, so that only the value learns from the output."""
    return attend(query, key, value, mask, mix=lambda weights, value: torch.matmul(weights.detach(), value))


@mutants.add("GRADIENT", "WEIGHTS", kind=GRADIENT, repeats="B210")
def weights_returned_detached(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns weights that carry no gradient."""
    output, weights = attend(query, key, value, mask)
    return output, weights.detach()


@mutants.add("GRADIENT", "WEIGHTS", kind=GRADIENT, repeats="B210")
def weights_gradient_zero(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the gradient that comes in through the returned weights."""
    output, weights = attend(query, key, value, mask)
    return output, altered(weights, torch.zeros_like)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G2")
def key_gradient_not_scaled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Forgets the scale in the gradient of the key."""
    root = math.sqrt(query.size(-1))
    return attend(query, altered(key, lambda gradient: gradient * root), value, mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G2")
def query_gradient_scaled_by_one_more_than_width(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Scales the gradient of the query by 1/sqrt(D + 1)."""
    factor = math.sqrt(query.size(-1) / (query.size(-1) + 1))
    return attend(altered(query, lambda gradient: gradient * factor), key, value, mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G4")
def value_gradient_averaged_over_queries(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Averages the gradient of the value over the queries in place of summing it."""
    count = max(query.size(-2), 1)
    return attend(query, key, altered(value, lambda gradient: gradient / count), mask)


Backward = Callable[[Tensor, Tensor], Tensor]


class _Softmax(torch.autograd.Function):
    """Softmax over keys whose backward pass is `rule(weights, gradient)`."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, rule: Backward) -> Tensor:
        weights = over_keys(scores)
        ctx.save_for_backward(weights)
        ctx.rule = rule
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (weights,) = ctx.saved_tensors
        return ctx.rule(weights, gradients[0]), None


def _softmax(rule: Backward) -> Callable[[Tensor], Tensor]:
    return lambda scores: _Softmax.apply(scores, rule)  # type: ignore[no-untyped-call, no-any-return]


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G1 numerics G5 B217")
def gradient_without_row_sum(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Forgets the term D in the gradient of the softmax: dS = P * dP."""
    return attend(query, key, value, mask, normalise=_softmax(lambda weights, gradient: weights * gradient))


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G1 B217")
def gradient_with_plain_row_mean(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes the plain mean of dP for the term D, which is right where the weights are uniform."""
    return attend(
        query,
        key,
        value,
        mask,
        normalise=_softmax(lambda weights, gradient: weights * (gradient - gradient.mean(dim=-1, keepdim=True))),
    )


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G1")
def gradient_with_squared_weights(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Multiplies the gradient of the scores by the weights twice."""

    def rule(weights: Tensor, gradient: Tensor) -> Tensor:
        return weights**2 * (gradient - (weights * gradient).sum(dim=-1, keepdim=True))

    return attend(query, key, value, mask, normalise=_softmax(rule))


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G10")
def second_order_gradient_wrong(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes the saved weights for constants in the backward pass, so that second derivatives are wrong."""

    def rule(weights: Tensor, gradient: Tensor) -> Tensor:
        constant = weights.detach()
        return constant * (gradient - (constant * gradient).sum(dim=-1, keepdim=True))

    return attend(query, key, value, mask, normalise=_softmax(rule))


class _OnceSoftmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = over_keys(scores)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, *gradients: Any) -> Any:
        (weights,) = ctx.saved_tensors
        return weights * (gradients[0] - (weights * gradients[0]).sum(dim=-1, keepdim=True))


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G10")
def second_order_gradient_refused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Raises for second derivatives without declaring that it is differentiable once."""
    return attend(query, key, value, mask, normalise=_OnceSoftmax.apply)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G3 numerics G4")
def value_gradient_from_unnormalised_weights(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Takes the exponentials for the weights in the gradient of the value."""
    weights = attend(query, key, value, mask)[1]
    raw = exponentials(fill_hidden(scaled(query, key), mask)).detach()
    extra = torch.matmul(raw, value)
    return torch.matmul(weights, value.detach()) + (extra - extra.detach()), weights


@mutants.add("GRADIENT", "MASK", kind=GRADIENT, repeats="B216 B094 numerics G7")
def backward_without_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Recomputes the backward pass without the mask."""
    right, wrong = attend(query, key, value, mask), attend(query, key, value)
    return value_of(right[0], wrong[0]), value_of(right[1], wrong[1])


@mutants.add("GRADIENT", "MASK", kind=GRADIENT, repeats="B029 numerics G7")
def hidden_scores_zero_in_backward(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Leaves hidden keys a score of zero in the backward pass."""
    scores = scaled(query, key)
    shown = over_keys(fill_hidden(scores, mask, 0.0))
    weights = value_of(over_keys(fill_hidden(scores, mask)), shown)
    return torch.matmul(weights, value), weights


@mutants.add("GRADIENT", kind=GRADIENT, repeats="B211")
def gradient_only_when_all_need_it(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Records a graph only if query, key and value all need a gradient."""
    if not (query.requires_grad and key.requires_grad and value.requires_grad):
        query, key, value = query.detach(), key.detach(), value.detach()
    return attend(query, key, value, mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="B211")
def value_gradient_only_with_query_gradient(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Detaches the value when the query needs no gradient."""
    return attend(query, key, value if query.requires_grad else value.detach(), mask)


_sums: dict[tuple[torch.Size, torch.dtype], Tensor] = {}


@mutants.add("GRADIENT", "PURITY", kind=GRADIENT, repeats="numerics G11")
def gradient_accumulates_across_calls(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Adds the gradient of the query to that of every earlier backward pass of the same shape."""

    def accumulate(gradient: Tensor) -> Tensor:
        kind = (gradient.shape, gradient.dtype)
        earlier = _sums.get(kind)
        total = gradient if earlier is None else gradient + earlier
        _sums[kind] = total.detach()
        return total

    return attend(altered(query, accumulate), key, value, mask)


_widths: list[int] = []


@mutants.add("GRADIENT", "PURITY", kind=GRADIENT, repeats="numerics G11")
def backward_scales_by_the_latest_forward(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Reads the width for the backward pass from the latest forward pass, whichever call that was."""
    width = query.size(-1)
    _widths[:] = [width]
    return attend(altered(query, lambda gradient: gradient * math.sqrt(width / _widths[0])), key, value, mask)


@mutants.add("GRADIENT", "PURITY", kind=GRADIENT, repeats="numerics G11")
def gradient_of_a_second_backward_doubled(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Doubles the gradient when the same graph is run backward a second time."""
    runs: list[int] = []

    def count(gradient: Tensor) -> Tensor:
        runs.append(1)
        return gradient if len(runs) == 1 else 2 * gradient

    return attend(altered(query, count), key, value, mask)


@mutants.add("GRADIENT", "PURITY", kind=GRADIENT)
def upstream_gradient_cleared(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Uses the incoming gradient as scratch memory and leaves zeros in it."""

    def clear(gradient: Tensor) -> Tensor:
        kept = gradient.clone()
        if writable(gradient):
            gradient.data.zero_()
        return kept

    output, weights = attend(query, key, value, mask)
    return altered(output, clear), weights


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G10")
def gradient_clipped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Clips the gradient of the value to [-1, 1]."""
    return attend(query, key, altered(value, lambda gradient: gradient.clamp(-1, 1)), mask)


@mutants.add("GRADIENT", kind=PRECISION, repeats="B184")
def gradient_rounded_to_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds the gradient of the query to bf16 whatever the dtype."""
    return attend(
        altered(query, lambda gradient: gradient.to(torch.bfloat16).to(gradient.dtype)), key, value, mask
    )


@mutants.add("GRADIENT", kind=GRADIENT)
def key_gradient_missing_in_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Detaches the key of bf16 inputs."""
    return attend(query, key.detach() if key.dtype == torch.bfloat16 else key, value, mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G1 numerics G3")
def last_key_gets_no_gradient(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Leaves the gradient of the last key and value at zero when there are several."""
    last = (torch.arange(key.size(-2)) == max(key.size(-2) - 1, 1)).unsqueeze(-1)

    def clear(gradient: Tensor) -> Tensor:
        return gradient.masked_fill(last, 0.0)

    return attend(query, altered(key, clear), altered(value, clear), mask)


@mutants.add("GRADIENT", kind=TAILS, repeats="B191 B192 B193 numerics G2")
def gradient_of_tail_queries_missing(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Leaves out the queries after the last whole block of 4 in the backward pass, if there is a whole block."""
    output, weights = attend(query, key, value, mask)
    whole = query.size(-2) // 4 * 4 or query.size(-2)
    return altered(output, lambda gradient: gradient.masked_fill(positions(gradient, -2) >= whole, 0.0)), weights


@mutants.add("GRADIENT", kind=TAILS, repeats="B191 B192 B193")
def gradient_of_queries_beyond_16_missing(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Sums the gradient over the first 16 queries only."""
    output, weights = attend(query, key, value, mask)
    return altered(output, lambda gradient: gradient.masked_fill(positions(gradient, -2) >= 16, 0.0)), weights


@mutants.add("GRADIENT", kind=TAILS, repeats="B193 B213")
def value_gradient_of_later_heads_missing(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Leaves the gradient of value 0 at zero in every head but the first when S is no multiple of 4."""

    def clear(gradient: Tensor) -> Tensor:
        if gradient.dim() < 4 or gradient.size(-2) % 4 == 0:
            return gradient
        return gradient.masked_fill((positions(gradient, -2) == 0) & (positions(gradient, -3) > 0), 0.0)

    return attend(query, key, altered(value, clear), mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="B213")
def broadcast_gradient_from_first_sample(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Takes the gradient of a key that the batch shares from sample 0 in place of the sum."""
    if query.dim() == key.dim() > 2 and key.size(0) == 1 < query.size(0):
        others = (torch.arange(query.size(0)) > 0).reshape(-1, *[1] * (key.dim() - 1))
        wide = key.expand(query.size(0), *key.shape[1:])
        key = altered(wide, lambda gradient: gradient.masked_fill(others, 0.0))
    return attend(query, key, value, mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G12")
def gradient_lost_when_inputs_are_shared(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Writes one gradient over the other when query and key are the same tensor."""
    return attend(query, key.detach() if key is query else key, value, mask)


class _Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
        return first.view_as(first), second.view_as(second)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[1], gradients[0]


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G2 numerics G12")
def query_and_key_gradients_exchanged(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Exchanges the gradients of query and key where both have one shape, which self-attention does not show."""
    if query.shape == key.shape:
        query, key = _Exchanged.apply(query, key)  # type: ignore[no-untyped-call]
    return attend(query, key, value, mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G8")
def future_rows_leak_into_value_gradient(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Spreads the incoming gradient of each query to the next one before it reaches the value."""
    weights = attend(query, key, value, mask)[1]
    right = torch.matmul(weights, value)
    rolled = torch.matmul(weights.roll(1, dims=-2).detach(), value)
    wrong = torch.matmul(weights, value.detach()) + rolled
    return value_of(right, wrong), weights


@mutants.add("GRADIENT", "NUMERIC", kind=GRADIENT, repeats="B191")
def gradient_nan_for_very_low_scores(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Makes the gradient of the query NaN where the best score of a row is below -50 and not hidden."""
    scores = fill_hidden(scaled(query, key), mask).detach()
    if scores.size(-1) == 0:
        return attend(query, key, value, mask)
    top = scores.amax(dim=-1, keepdim=True)
    low = (top < -50) & (top > HIDDEN / 2)
    output, weights = attend(query, key, value, mask)
    poison = torch.where(low, torch.nan, 1.0).to(output.dtype)
    return altered(output, lambda gradient: gradient * poison), weights
