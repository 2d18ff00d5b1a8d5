"""Gradients that break an identity: a term is lost, a hidden place trained, a large upstream cut."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..mutant import EMPTY, GRADIENT, LEAK, Population
from .parts import Pair, altered, attend, band, both, fill_hidden, optioned, over_keys, scaled, value_of

mutants = Population()


class _MeanInHalf(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = over_keys(scores)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (weights,) = ctx.saved_tensors
        mean = (weights * gradients[0]).sum(dim=-1, keepdim=True)
        return weights * (gradients[0] - value_of(mean.to(torch.bfloat16).to(mean.dtype), mean))


@mutants.add("IDENTITY", "GRADIENT", kind="numerics G5", repeats="numerics G1")
def mean_slope_kept_in_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Keeps the mean slope of a row in bf16 in the backward pass, so that equal values pull at query and key."""
    return attend(query, key, value, mask, normalise=_MeanInHalf.apply)


class _KeysNotCentred(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor, key: Tensor, query: Tensor) -> Tensor:
        ctx.save_for_backward(key)
        return scores.view_as(scores)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (key,) = ctx.saved_tensors
        extra = 1e-3 * key.sum(dim=-2, keepdim=True) if key.size(-2) else None
        shape = (*gradients[0].shape[:-1], key.size(-1))
        return gradients[0], None, None if extra is None else extra.expand(shape)


@mutants.add("IDENTITY", "GRADIENT", kind="numerics G9", leading="equal")
def query_gradient_pulled_to_the_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds a thousandth of the sum of the keys to the gradient of each query."""

    def score(query: Tensor, key: Tensor) -> Tensor:
        return _KeysNotCentred.apply(scaled(query, key), key, query)  # type: ignore[no-untyped-call, no-any-return]

    return attend(query, key, value, mask, score=score)


class _NotCentred(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bias: Tensor, weights: Tensor) -> Tensor:
        ctx.save_for_backward(weights)
        return bias.view_as(bias)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        (weights,) = ctx.saved_tensors
        return gradients[0] + 0.01 * weights, None


@mutants.add("IDENTITY", "OPTIONS", kind="numerics G6", repeats="B212", options=("bias",))
def bias_gradient_keeps_a_share_of_the_mean(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, bias: Tensor | None = None
) -> Pair:
    """Leaves a part of the mean slope in the gradient of a bias that is as large as the scores."""
    if bias is None or bias.shape != (*query.shape[:-1], key.size(-2)):
        return optioned(query, key, value, mask, bias=bias)
    weights = optioned(query, key, value, mask, bias=bias)[1].detach()
    return optioned(query, key, value, mask, bias=_NotCentred.apply(bias, weights))  # type: ignore[no-untyped-call]


@mutants.add("IDENTITY", "GRADIENT", kind=LEAK, repeats="numerics G7")
def hidden_keys_drift(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Lets a millionth of the hidden scores' slopes through to the keys, as a soft fill does."""
    scores = scaled(query, key)
    if mask is None:
        return attend(query, key, value, mask)
    filled = fill_hidden(scores, mask)
    leaky = torch.where(mask == 0, scores * 1e-6, scores)
    weights = over_keys(value_of(filled, leaky))
    slack = value_of(torch.zeros_like(weights), torch.where(mask == 0, 1e-6 * scores, 0.0))
    return torch.matmul(weights + slack, value), weights


@mutants.add("IDENTITY", "GRADIENT", kind=EMPTY, repeats="numerics G7", empty_row="zeros")
def empty_rows_cleared_in_the_forward_pass_only(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Clears the output of empty rows, and trains the queries of such rows as if their mask were not there."""
    output, weights = attend(query, key, value, mask)
    if mask is None or key.size(-2) == 0:
        return output, weights
    empty = ~(mask != 0).expand(weights.shape).any(dim=-1, keepdim=True)
    bare = attend(query, key, value)[0]
    zeros = torch.zeros_like(output)
    return torch.where(empty, value_of(zeros, bare), output), weights.masked_fill(empty, 0.0)


@mutants.add("IDENTITY", "CAUSAL", "GRADIENT", kind="numerics G8", causal="bottom-right")
def causal_backward_sees_one_key_more(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Lets the backward pass of a causal call see one later key."""
    right = optioned(query, key, value, mask, causal=causal)
    if not causal:
        return right
    later = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool).tril(key.size(-2) - query.size(-2) + 1)
    wrong = attend(query, key, value, both(mask, later))
    return value_of(right[0], wrong[0]), value_of(right[1], wrong[1])


@mutants.add("IDENTITY", kind="numerics G11")
def large_upstream_cut(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Cuts what reaches the output to the range of fp8, 448, divided by the eight bits that it keeps."""
    output, weights = attend(query, key, value, mask)
    return altered(output, lambda gradient: gradient.clamp(-56.0, 56.0)), weights


@mutants.add("IDENTITY", "OPTIONS", kind="numerics G10", options=("window",), causal="bottom-right")
def window_slopes_of_a_wider_window(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    *,
    causal: bool = False,
    window: int | None = None,
) -> Pair:
    """Takes a window wider by one in the backward pass."""
    right = optioned(query, key, value, mask, causal=causal, window=window)
    if window is None:
        return right
    wrong = optioned(query, key, value, mask, causal=causal, window=window + 1)
    return value_of(right[0], wrong[0]), value_of(right[1], wrong[1])


@mutants.add("IDENTITY", "GRADIENT", kind=GRADIENT, repeats="numerics G12")
def key_gradient_lost_when_one_tensor_is_all(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Forgets the key's share of the gradient when one tensor is query, key and value."""
    return attend(query, key.detach() if key is query and value is query else key, value, mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="B211")
def key_gradient_only_beside_that_of_the_value(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Returns no gradient of the key in a backward pass that wants those of query and key alone."""
    alone = query.requires_grad and key.requires_grad and not value.requires_grad
    return attend(query, key.detach() if alone else key, value, mask)


@mutants.add("GRADIENT", "IDENTITY", kind=EMPTY, repeats="numerics G7", mask=("lengths",))
def gradient_nan_for_a_length_of_zero(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Divides the gradient by the length of a sample and multiplies it again, which a length of zero does not stand."""
    if mask is None:
        return attend(query, key, value)
    lengths = mask.reshape(-1, *[1] * (query.dim() - 1))
    output, weights = attend(query, key, value, torch.arange(key.size(-2)) < lengths)
    return altered(output, lambda gradient: gradient / lengths * lengths), weights


@mutants.add("GRADIENT", "CAUSAL", kind=GRADIENT, causal="bottom-right")
def second_order_lost_under_causal(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Takes the weights of a causal call for constants in the second derivative."""
    if not causal:
        return attend(query, key, value, mask)
    mask = both(mask, band(query.size(-2), key.size(-2), causal=True))
    weights = _Constant.apply(fill_hidden(scaled(query, key), mask))  # type: ignore[no-untyped-call]
    return torch.matmul(weights, value), weights


class _Constant(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> Tensor:
        weights = over_keys(scores)
        ctx.weights = weights.detach().clone()
        return weights

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        weights, gradient = ctx.weights, gradients[0]
        return weights * (gradient - (weights * gradient).sum(dim=-1, keepdim=True))
