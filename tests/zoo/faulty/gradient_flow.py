"""Faulty flow of gradients: they are lost, cut, kept or exchanged between a right forward and a right backward."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..mutant import GRADIENT, PRECISION, TAILS, Population
from .parts import HIDDEN, Pair, altered, attend, fill_hidden, positions, scaled, value_of, writable

mutants = Population()


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
def gradient_accumulates_across_calls(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
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
    return attend(altered(query, lambda gradient: gradient.to(torch.bfloat16).to(gradient.dtype)), key, value, mask)


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
def gradient_of_tail_queries_missing(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
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
def broadcast_gradient_from_first_sample(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes the gradient of a key that the batch shares from sample 0 in place of the sum."""
    if query.dim() == key.dim() > 2 and key.size(0) == 1 < query.size(0):
        others = (torch.arange(query.size(0)) > 0).reshape(-1, *[1] * (key.dim() - 1))
        wide = key.expand(query.size(0), *key.shape[1:])
        key = altered(wide, lambda gradient: gradient.masked_fill(others, 0.0))
    return attend(query, key, value, mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G12")
def gradient_lost_when_inputs_are_shared(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
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
def query_and_key_gradients_exchanged(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Exchanges the gradients of query and key where both have one shape, which self-attention does not show."""
    if query.shape == key.shape:
        query, key = _Exchanged.apply(query, key)  # type: ignore[no-untyped-call]
    return attend(query, key, value, mask)


@mutants.add("GRADIENT", kind=GRADIENT, repeats="numerics G8")
def future_rows_leak_into_value_gradient(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Spreads the incoming gradient of each query to the next one before it reaches the value."""
    weights = attend(query, key, value, mask)[1]
    right = torch.matmul(weights, value)
    rolled = torch.matmul(weights.roll(1, dims=-2).detach(), value)
    wrong = torch.matmul(weights, value.detach()) + rolled
    return value_of(right, wrong), weights


@mutants.add("GRADIENT", "NUMERIC", kind=GRADIENT, repeats="B191")
def gradient_nan_for_very_low_scores(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Makes the gradient of the query NaN where the best score of a row is below -50 and not hidden."""
    scores = fill_hidden(scaled(query, key), mask).detach()
    if scores.size(-1) == 0:
        return attend(query, key, value, mask)
    top = scores.amax(dim=-1, keepdim=True)
    low = (top < -50) & (top > HIDDEN / 2)
    output, weights = attend(query, key, value, mask)
    poison = torch.where(low, torch.nan, 1.0).to(output.dtype)
    return altered(output, lambda gradient: gradient * poison), weights
