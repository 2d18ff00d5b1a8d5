"""Faulty dropout: on the wrong tensor, at the wrong rate, not rescaled, or drawn again in the backward pass.

Every kernel here declares `options=("dropout",)`: a positive rate drops whenever it is given.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import DROPOUT, WEIGHTS, Population
from .parts import HIDDEN, Pair, altered, attend, fill_hidden, value_of

mutants = Population()


def _kept(weights: Tensor, rate: float) -> Tensor:
    """1/(1 - rate) where a weight stays, 0 where it is dropped."""
    if rate <= 0:
        return torch.ones_like(weights)
    return (torch.rand(weights.shape) >= rate).to(weights.dtype) / (1 - rate)


@mutants.add("OPTIONS", kind=DROPOUT, repeats="numerics 37 numerics 38", options=("dropout",))
def dropout_ignored(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Ignores the dropout rate."""
    return attend(query, key, value, mask)


@mutants.add("OPTIONS", kind=DROPOUT, repeats="numerics 37", options=("dropout",))
def dropout_not_rescaled(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Does not divide the kept weights by the share that is kept."""
    weights = attend(query, key, value, mask)[1]
    return torch.matmul(weights * _kept(weights, dropout) * (1 - dropout), value), weights


@mutants.add("OPTIONS", kind=DROPOUT, repeats="B205 numerics 37", options=("dropout",))
def dropout_rescaled_by_the_rate(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Divides the kept weights by the rate, which is right at one half."""
    weights = attend(query, key, value, mask)[1]
    factor = (1 - dropout) / dropout if dropout > 0 else 1.0
    return torch.matmul(weights * _kept(weights, dropout) * factor, value), weights


@mutants.add("OPTIONS", kind=DROPOUT, repeats="B203 numerics 37", options=("dropout",))
def dropout_rate_is_the_kept_share(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Keeps a share of `dropout` in place of dropping it, which is right at one half."""
    weights = attend(query, key, value, mask)[1]
    rate = 1 - dropout if dropout > 0 else 0.0
    return torch.matmul(weights * _kept(weights, rate), value), weights


@mutants.add("OPTIONS", kind=DROPOUT, repeats="B208 numerics 37", options=("dropout",))
def dropout_on_the_output(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Drops elements of the output in place of weights."""
    output, weights = attend(query, key, value, mask)
    return output * _kept(output, dropout), weights


@mutants.add("OPTIONS", kind=DROPOUT, repeats="numerics 37", options=("dropout",))
def dropout_renormalised(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Drops before the softmax, so that the kept weights sum to one and are not p/(1 - rate)."""

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        return fill_hidden(scores, mask).masked_fill(_kept(scores, dropout) == 0, 2 * HIDDEN)

    output = attend(query, key, value, mask, hide=hide)[0]
    return output, attend(query, key, value, mask)[1]


@mutants.add("OPTIONS", "SYMMETRY", kind=DROPOUT, repeats="numerics 37", options=("dropout",))
def dropout_shared_by_the_batch(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Drops the same weights in every sample and head."""
    weights = attend(query, key, value, mask)[1]
    kept = _kept(weights.new_empty(weights.shape[-2:]), dropout)
    return torch.matmul(weights * kept, value), weights


@mutants.add("OPTIONS", kind=DROPOUT, repeats="numerics 37", options=("dropout",))
def dropout_drops_whole_keys(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Drops a key for all queries of a head at once."""
    weights = attend(query, key, value, mask)[1]
    return torch.matmul(weights * _kept(weights[..., :1, :], dropout), value), weights


@mutants.add("OPTIONS", "PURITY", kind=DROPOUT, repeats="numerics 37", options=("dropout",))
def dropout_active_at_rate_zero(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.1
) -> Pair:
    """Drops a tenth when no rate is given."""
    weights = attend(query, key, value, mask)[1]
    return torch.matmul(weights * _kept(weights, dropout), value), weights


@mutants.add("WEIGHTS", "OPTIONS", kind=WEIGHTS, repeats="B209 numerics 25", options=("dropout",))
def weights_returned_after_dropout(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Returns the weights after dropout, whose rows do not sum to one."""
    weights = attend(query, key, value, mask)[1]
    weights = weights * _kept(weights, dropout)
    return torch.matmul(weights, value), weights


@mutants.add("GRADIENT", "OPTIONS", kind=DROPOUT, repeats="B205 numerics 37", options=("dropout",))
def dropout_gradient_not_rescaled(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Multiplies the gradient of the kept weights by the share that is kept."""
    weights = attend(query, key, value, mask)[1]
    slow = altered(weights, lambda gradient: gradient * (1 - dropout))
    return torch.matmul(slow * _kept(weights, dropout), value), weights


@mutants.add("GRADIENT", "OPTIONS", kind=DROPOUT, repeats="B207", options=("dropout",))
def dropout_drawn_again_in_backward(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Drops other weights in the backward pass than in the forward pass."""
    weights = attend(query, key, value, mask)[1]
    dropped = value_of(weights * _kept(weights, dropout), weights * _kept(weights, dropout))
    return torch.matmul(dropped, value), weights


@mutants.add("PURITY", "OPTIONS", kind=DROPOUT, repeats="B195 numerics 37", options=("dropout",))
def dropout_from_a_generator_of_its_own(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float = 0.0
) -> Pair:
    """Draws from a generator that `torch.manual_seed` does not reach, always with the same seed."""
    weights = attend(query, key, value, mask)[1]
    kept = torch.ones_like(weights)
    if dropout > 0:
        drawn = torch.rand(weights.shape, generator=torch.Generator().manual_seed(0))
        kept = (drawn >= dropout).to(weights.dtype) / (1 - dropout)
    return torch.matmul(weights * kept, value), weights
