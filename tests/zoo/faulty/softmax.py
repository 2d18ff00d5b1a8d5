"""Faulty normalisation: the softmax runs over the wrong axis, adds to its denominator, or overflows."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..mutant import AXIS, LARGE, LEAK, Population
from .parts import HIDDEN, Pair, attend, exponentials, over_keys, scaled, without_empty_rows

mutants = Population()


@mutants.add("WEIGHTS", "NUMERIC", "SYMMETRY", kind=AXIS, repeats="B127 B128 numerics 4")
def softmax_over_queries(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Normalises over the queries."""
    return attend(query, key, value, mask, normalise=lambda scores: torch.softmax(scores, dim=-2))


@mutants.add("WEIGHTS", "NUMERIC", "SYMMETRY", kind=AXIS, repeats="numerics 3")
def softmax_over_heads(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Normalises over the heads of inputs with four axes or more."""
    return attend(
        query,
        key,
        value,
        mask,
        normalise=lambda scores: torch.softmax(scores, dim=-3 if scores.dim() > 3 else -1),
    )


@mutants.add("WEIGHTS", "NUMERIC", "SYMMETRY", kind=AXIS, repeats="B127 numerics 2")
def softmax_over_batch(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Normalises over the batch, if there is one: every weight is 1 in a batch of one."""
    return attend(
        query,
        key,
        value,
        mask,
        normalise=lambda scores: torch.softmax(scores, dim=0 if scores.dim() > 2 else -1),
    )


@mutants.add("WEIGHTS", "NUMERIC", "SYMMETRY", kind=AXIS, repeats="B127 B129")
def softmax_over_implicit_axis(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Leaves the axis to the old default: 0 for one or three axes and 1 otherwise, which suits two axes only."""
    return attend(
        query,
        key,
        value,
        mask,
        normalise=lambda scores: torch.softmax(scores, dim=0 if scores.dim() == 3 else 1),
    )


@mutants.add("WEIGHTS", "NUMERIC", "SYMMETRY", kind=AXIS, repeats="numerics 4")
def softmax_over_queries_and_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Normalises over queries and keys together, which is right for one query."""

    def normalise(scores: Tensor) -> Tensor:
        return torch.softmax(scores.flatten(-2), dim=-1).reshape(scores.shape)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("WEIGHTS", "NUMERIC", kind=AXIS, repeats="B131")
def softmax_missing(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Normalises an added axis of size one, so that every weight is 1."""
    return attend(
        query,
        key,
        value,
        mask,
        normalise=lambda scores: torch.softmax(scores.unsqueeze(-1), dim=-1).squeeze(-1),
    )


@mutants.add("WEIGHTS", "NUMERIC", kind="numerics 19", repeats="numerics 26")
def normalisation_missing(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Does not divide the exponentials by their sum."""
    return attend(query, key, value, mask, normalise=exponentials)


@mutants.add("WEIGHTS", "NUMERIC", kind="numerics 19", repeats="numerics 26")
def sigmoid_for_softmax(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Weighs each key by the sigmoid of its score, without normalising."""
    return attend(query, key, value, mask, normalise=torch.sigmoid)


def _epsilon(scores: Tensor, epsilon: float) -> Tensor:
    numerators = exponentials(scores)
    return numerators / (numerators.sum(dim=-1, keepdim=True) + epsilon)


@mutants.add("NUMERIC", "WEIGHTS", kind="numerics 22", repeats="numerics 15 numerics 19")
def epsilon_1e_3_in_denominator(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds 1e-3 to the denominator of the softmax."""
    return attend(query, key, value, mask, normalise=lambda scores: _epsilon(scores, 1e-3))


@mutants.add("NUMERIC", "WEIGHTS", kind="numerics 22", repeats="numerics 15 numerics 19")
def epsilon_1e_6_in_denominator(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds 1e-6 to the denominator of the softmax."""
    return attend(query, key, value, mask, normalise=lambda scores: _epsilon(scores, 1e-6))


@mutants.add("NUMERIC", "WEIGHTS", kind="numerics 22", repeats="numerics 15 numerics 19")
def epsilon_1e_8_in_denominator(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds 1e-8 to the denominator of the softmax, which only fp64 shows."""
    return attend(query, key, value, mask, normalise=lambda scores: _epsilon(scores, 1e-8))


@mutants.add("NUMERIC", "WEIGHTS", kind=LARGE, repeats="B181 numerics 15")
def softmax_without_max(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes exponentials without subtracting the row maximum, so that scores above 89 overflow in fp32."""

    def normalise(scores: Tensor) -> Tensor:
        numerators = without_empty_rows(scores).exp()
        return numerators / numerators.sum(dim=-1, keepdim=True)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", kind="numerics 15", repeats="numerics 22")
def epsilon_without_max(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtracts only a positive maximum and adds 1e-9 to the denominator, so that rows of low scores lose weight."""

    def normalise(scores: Tensor) -> Tensor:
        if scores.size(-1) == 0:
            return scores
        shifted = without_empty_rows(scores)
        numerators = (shifted - shifted.amax(dim=-1, keepdim=True).detach().clamp_min(0)).exp()
        return numerators / (numerators.sum(dim=-1, keepdim=True) + 1e-9)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", "SYMMETRY", kind=LARGE, repeats="B181")
def maximum_taken_over_the_tensor(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtracts the maximum of all scores, so that rows far below it underflow to 0/0."""

    def normalise(scores: Tensor) -> Tensor:
        shifted = without_empty_rows(scores)
        numerators = (shifted - shifted.amax().detach()).exp() if shifted.numel() else shifted.exp()
        return numerators / numerators.sum(dim=-1, keepdim=True)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", kind=LARGE, repeats="B181")
def maximum_of_first_16_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtracts the maximum of the first 16 keys only, so that a late large score overflows."""

    def normalise(scores: Tensor) -> Tensor:
        if scores.size(-1) == 0:
            return scores
        shifted = without_empty_rows(scores)
        top = shifted[..., :16].amax(dim=-1, keepdim=True).detach()
        numerators = (shifted - top.masked_fill(top <= HIDDEN / 2, 0.0)).exp()
        return numerators / numerators.sum(dim=-1, keepdim=True)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", kind="numerics 15", repeats="numerics 22 numerics 37")
def softmax_with_a_sink(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds 1 to the denominator, as if a key of score 0 and value 0 stood in every row."""

    def normalise(scores: Tensor) -> Tensor:
        shifted = without_empty_rows(scores)
        sink = shifted.new_zeros(*shifted.shape[:-1], 1)
        return torch.softmax(torch.cat((shifted, sink), dim=-1), dim=-1)[..., :-1]

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", kind="numerics 22")
def single_key_gets_sigmoid(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Weighs a single key by the sigmoid of its score."""
    return attend(
        query,
        key,
        value,
        mask,
        normalise=lambda scores: scores.sigmoid() if scores.size(-1) == 1 else over_keys(scores),
    )


@mutants.add("NUMERIC", "WEIGHTS", kind="numerics 28")
def softmax_to_base_two(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes powers of two and forgets the factor log2(e)."""
    return attend(query, key, value, mask, normalise=lambda scores: over_keys(scores * math.log(2)))


@mutants.add("NUMERIC", "WEIGHTS", kind="numerics 15", repeats="numerics 27")
def scores_clamped_at_20(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Clamps the scores to [-20, 20]."""
    return attend(query, key, value, mask, score=lambda query, key: scaled(query, key).clamp(-20, 20))


@mutants.add("NUMERIC", "WEIGHTS", kind="numerics 15", repeats="B181 numerics 27")
def scores_clamped_at_50(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Clamps the scores to [-50, 50] in place of subtracting the maximum."""
    return attend(query, key, value, mask, score=lambda query, key: scaled(query, key).clamp(-50, 50))


@mutants.add("NUMERIC", "WEIGHTS", kind="numerics 19")
def small_weights_dropped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Sets weights below 0.01 to zero and does not renormalise."""

    def normalise(scores: Tensor) -> Tensor:
        weights = over_keys(scores)
        return weights.masked_fill(weights < 0.01, 0.0)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", kind="numerics 11", repeats="numerics 13")
def only_top_32_keys_kept(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Attends the 32 best keys of each row and forgets the others."""

    def normalise(scores: Tensor) -> Tensor:
        if scores.size(-1) <= 32:
            return over_keys(scores)
        least = scores.topk(32, dim=-1).values[..., -1:]
        return over_keys(scores.masked_fill(scores < least, HIDDEN))

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", kind=LEAK, repeats="B028")
def nan_query_answers_zero(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Turns a row that is NaN into zeros, which hides the fault upstream."""
    output, weights = attend(query, key, value, mask)
    return (
        output.masked_fill(output.isnan(), 0.0),
        weights.masked_fill(weights.isnan(), 0.0),
    )
