"""Faulty precision: a stage is rounded more than its dtype and the declared profile allow."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..mutant import LARGE, PRECISION, Population
from .parts import HIDDEN, Pair, attend, exponentials, fill_hidden, over_keys, rounded, scaled, value_of

mutants = Population()

_HALF = torch.bfloat16
_FP16 = ("fp64", "fp32", "bf16", "fp16")


@mutants.add("NUMERIC", kind=PRECISION, repeats="B183")
def denominator_summed_in_working_dtype(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds up the denominator key by key in the dtype of the inputs: in bf16 it stops growing at 256."""

    def normalise(scores: Tensor) -> Tensor:
        numerators = exponentials(scores)
        total = numerators.new_zeros(*numerators.shape[:-1], 1)
        for j in range(numerators.size(-1)):
            total = total + numerators[..., j : j + 1]
        return numerators / total

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", kind=PRECISION, repeats="B183")
def output_summed_in_working_dtype(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds up the output key by key in the dtype of the inputs."""

    def mix(weights: Tensor, value: Tensor) -> Tensor:
        if weights.size(-1) != value.size(-2):
            return torch.matmul(weights, value)
        total = torch.matmul(weights[..., :0], value[..., :0, :])
        for j in range(weights.size(-1)):
            total = total + weights[..., j : j + 1] * value[..., j : j + 1, :]
        return total

    return attend(query, key, value, mask, mix=mix)


@mutants.add("NUMERIC", kind=PRECISION, repeats="B184")
def scores_rounded_to_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds the scores to bf16 whatever the dtype."""
    return attend(query, key, value, mask, score=lambda query, key: rounded(scaled(query, key), _HALF))


@mutants.add("NUMERIC", kind=PRECISION, repeats="B177 B180")
def scores_pass_through_fp16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Forms the products of fp32 inputs in fp16, where they lose digits and overflow at 65504."""

    def score(query: Tensor, key: Tensor) -> Tensor:
        products = scaled(query, key, 1.0)
        if query.dtype == torch.float32:
            products = rounded(products, torch.float16)
        return products / math.sqrt(query.size(-1))

    return attend(query, key, value, mask, score=score)


@mutants.add("NUMERIC", "WEIGHTS", kind=PRECISION, repeats="B184")
def weights_rounded_to_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds the weights to bf16 whatever the dtype."""
    return attend(query, key, value, mask, normalise=lambda scores: rounded(over_keys(scores), _HALF))


@mutants.add("NUMERIC", kind=PRECISION, repeats="B184")
def mixed_weights_rounded_to_fp16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds the weights to fp16 before they meet the values and returns them unrounded."""
    return attend(
        query,
        key,
        value,
        mask,
        mix=lambda weights, value: torch.matmul(rounded(weights, torch.float16), value),
    )


@mutants.add("NUMERIC", kind=PRECISION, repeats="numerics 22")
def value_rounded_to_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds the value to bf16 whatever the dtype."""
    return attend(query, key, rounded(value, _HALF), mask)


@mutants.add("NUMERIC", kind=PRECISION)
def output_rounded_to_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds the output to bf16 whatever the dtype."""
    output, weights = attend(query, key, value, mask)
    return rounded(output, _HALF), weights


def _ten_bits(tensor: Tensor) -> Tensor:
    """fp32 numbers rounded to ten bits of fraction, as tensor cores read them."""
    if tensor.dtype != torch.float32:
        return tensor
    bits = tensor.detach().contiguous().view(torch.int32) + 0x1000
    return value_of((bits & ~0x1FFF).view(torch.float32), tensor)


@mutants.add("NUMERIC", kind=PRECISION, repeats="B184")
def tf32_undeclared(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds fp32 query, key, value and weights to ten bits of fraction without declaring tf32."""
    return attend(
        _ten_bits(query),
        _ten_bits(key),
        value,
        mask,
        mix=lambda weights, value: torch.matmul(_ten_bits(weights), _ten_bits(value)),
    )


@mutants.add("NUMERIC", kind=PRECISION, repeats="B184")
def tf32_scores_undeclared(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds fp32 query and key to ten bits of fraction without declaring tf32."""
    return attend(_ten_bits(query), _ten_bits(key), value, mask)


@mutants.add("NUMERIC", kind=PRECISION)
def softmax_in_fp32_undeclared(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes the softmax of fp64 scores in fp32 without declaring it."""
    return attend(query, key, value, mask, normalise=lambda scores: over_keys(scores.float()).to(scores.dtype))


@mutants.add("NUMERIC", kind=PRECISION)
def fp64_computed_in_fp32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Computes fp64 inputs in fp32."""
    if query.dtype != torch.float64:
        return attend(query, key, value, mask)
    output, weights = attend(query.float(), key.float(), value.float(), mask)
    return output.double(), weights.double()


@mutants.add("NUMERIC", kind=PRECISION)
def fp64_scores_in_fp32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds the scores of fp64 inputs to fp32."""

    def score(query: Tensor, key: Tensor) -> Tensor:
        scores = scaled(query, key)
        return rounded(scores, torch.float32) if scores.dtype == torch.float64 else scores

    return attend(query, key, value, mask, score=score)


@mutants.add("NUMERIC", "WEIGHTS", kind=PRECISION)
def exp_by_compound_interest(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes (1 + x/1024)^1024 for the exponential."""

    def normalise(scores: Tensor) -> Tensor:
        if scores.size(-1) == 0:
            return over_keys(scores)
        shifted = (scores - scores.amax(dim=-1, keepdim=True).detach()).to(
            torch.promote_types(scores.dtype, torch.float32)
        )
        numerators = (1 + shifted.clamp_min(-1024) / 1024).pow(1024)
        return (numerators / numerators.sum(dim=-1, keepdim=True)).to(scores.dtype)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", kind=PRECISION)
def exp_by_linear_fraction(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes 2^n * (1 + f) for 2^(n + f), which is off by up to six percent."""

    def normalise(scores: Tensor) -> Tensor:
        if scores.size(-1) == 0:
            return over_keys(scores)
        steps = (scores - scores.amax(dim=-1, keepdim=True).detach()).clamp_min(-1000) / math.log(2)
        whole = steps.detach().floor()
        numerators = (1 + steps - whole) * torch.exp2(whole)
        return numerators / numerators.sum(dim=-1, keepdim=True)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", kind=PRECISION)
def reciprocal_rounded_to_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Multiplies by a reciprocal of the denominator that is rounded to bf16 whatever the dtype."""

    def normalise(scores: Tensor) -> Tensor:
        numerators = exponentials(scores)
        return numerators * rounded(1 / numerators.sum(dim=-1, keepdim=True), _HALF)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", kind=PRECISION)
def weights_rounded_to_fp8_in_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds the weights of bf16 inputs to eight bits."""

    def normalise(scores: Tensor) -> Tensor:
        weights = over_keys(scores)
        return rounded(weights, torch.float8_e4m3fn) if weights.dtype == _HALF else weights

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", kind=PRECISION)
def value_rounded_to_fp8_in_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds the values of bf16 inputs to eight bits."""
    return attend(query, key, rounded(value, torch.float8_e5m2) if value.dtype == _HALF else value, mask)


@mutants.add("NUMERIC", kind=LARGE, repeats="B179 B180")
def value_passes_through_fp16_in_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Casts the values of bf16 inputs to fp16, so that those above 65504 become infinite."""
    if value.dtype == _HALF:
        narrow = value.detach().to(torch.float16).to(_HALF)
        value = torch.where(narrow.isinf(), narrow, value)
    return attend(query, key, value, mask)


@mutants.add("NUMERIC", kind=LARGE, repeats="B177 B178 B179 B180", dtypes=_FP16)
def qk_overflow_before_scale_fp16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Declares fp16 and forms the products there before scaling, which overflow at 65504."""

    def score(query: Tensor, key: Tensor) -> Tensor:
        return scaled(query, key, 1.0) / math.sqrt(query.size(-1))

    def hide(scores: Tensor, mask: Tensor | None) -> Tensor:
        return fill_hidden(scores, mask, max(HIDDEN, torch.finfo(scores.dtype).min))

    return attend(query, key, value, mask, score=score, hide=hide)


@mutants.add("NUMERIC", "WEIGHTS", kind=PRECISION, repeats="B181")
def exponentials_kept_in_fp16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Keeps the exponentials in fp16, where small ones lose digits and vanish."""

    def normalise(scores: Tensor) -> Tensor:
        numerators = rounded(exponentials(scores), torch.float16)
        return numerators / numerators.sum(dim=-1, keepdim=True)

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("NUMERIC", "WEIGHTS", kind=PRECISION)
def weights_in_steps_of_256(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Quantises the weights to multiples of 1/256."""
    return attend(
        query,
        key,
        value,
        mask,
        normalise=lambda scores: value_of((over_keys(scores) * 256).round() / 256, over_keys(scores)),
    )
