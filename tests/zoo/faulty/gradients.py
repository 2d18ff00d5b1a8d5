"""Faulty gradient formulas: the forward pass is right, and a term is missing or wrong on the way back."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..mutant import GRADIENT, Population
from .parts import (
    Pair,
    altered,
    attend,
    exponentials,
    fill_hidden,
    over_keys,
    scaled,
    value_of,
)

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
def value_gradient_averaged_over_queries(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
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
    return lambda scores: _Softmax.apply(scores, rule)  # type: ignore[no-untyped-call]


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


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G1 numerics G9")
def row_maximum_gradient_left_over(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Lets the row maximum's gradient through the numerator only, so that it does not cancel."""

    def normalise(scores: Tensor) -> Tensor:
        if scores.size(-1) == 0:
            return over_keys(scores)
        numerators = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        return numerators / exponentials(scores).sum(dim=-1, keepdim=True)

    return attend(query, key, value, mask, normalise=normalise)


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
    @once_differentiable
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
