"""Faulty scales: the scores are multiplied by the wrong number, everywhere or from some size on."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..mutant import SCALE, Population
from .parts import Pair, attend, default_scale, positions, rounded, scaled

mutants = Population()


@mutants.add("NUMERIC", "WEIGHTS", "GRADIENT", kind=SCALE)
def scale_by_one_more_than_width(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales by 1/sqrt(D + 1)."""
    return attend(query, key, value, mask, scale=1 / math.sqrt(query.size(-1) + 1))


@mutants.add("NUMERIC", "WEIGHTS", "GRADIENT", kind=SCALE, repeats="numerics 17")
def scale_by_value_width(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales by 1/sqrt(E), the width of the value, which shows where E differs from D."""
    return attend(query, key, value, mask, scale=1 / math.sqrt(max(value.size(-1), 1)))


@mutants.add("NUMERIC", "WEIGHTS", "GRADIENT", kind=SCALE)
def scale_by_width_without_root(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales by 1/D: the scale is applied twice, once to the query and once to the scores."""
    return attend(query * default_scale(query), key, value, mask)


@mutants.add("NUMERIC", "WEIGHTS", "GRADIENT", kind=SCALE)
def scale_missing(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Does not scale the scores."""
    return attend(query, key, value, mask, scale=1.0)


@mutants.add("NUMERIC", "WEIGHTS", kind=SCALE)
def scale_missing_in_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Does not scale the scores of bf16 inputs."""
    return attend(query, key, value, mask, scale=1.0 if query.dtype == torch.bfloat16 else None)


@mutants.add("NUMERIC", "WEIGHTS", "GRADIENT", kind=SCALE)
def temperature_off_by_one_percent(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales one percent too much."""
    return attend(query, key, value, mask, scale=1.01 * default_scale(query))


@mutants.add("NUMERIC", "WEIGHTS", kind=SCALE, repeats="numerics 28")
def scale_sign_flipped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales by -1/sqrt(D), so that the least similar key weighs most."""
    return attend(query, key, value, mask, scale=-default_scale(query))


@mutants.add("NUMERIC", "WEIGHTS", kind=SCALE, repeats="B125")
def scale_by_width_of_at_least_8(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales by 1/sqrt(max(D, 8)), the smallest width of the kernel."""
    return attend(query, key, value, mask, scale=1 / math.sqrt(max(query.size(-1), 8)))


@mutants.add("NUMERIC", "WEIGHTS", kind=SCALE, repeats="B125 numerics 17")
def scale_by_padded_dim(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Pads D to a multiple of 8 and scales by the padded width."""
    return attend(query, key, value, mask, scale=1 / math.sqrt(-(-query.size(-1) // 8) * 8))


@mutants.add("NUMERIC", "WEIGHTS", kind=SCALE, repeats="B125")
def scale_by_next_power_of_two(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales by the width rounded up to a power of two."""
    return attend(query, key, value, mask, scale=1 / math.sqrt(2 ** (query.size(-1) - 1).bit_length()))


@mutants.add("NUMERIC", "WEIGHTS", kind=SCALE)
def scale_by_width_of_at_most_64(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales by 1/sqrt(min(D, 64))."""
    return attend(query, key, value, mask, scale=1 / math.sqrt(min(query.size(-1), 64)))


@mutants.add("NUMERIC", "WEIGHTS", kind=SCALE)
def scale_by_whole_root(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Divides by the root of D cut to an integer, which is right for D = 1, 4, 16, 64."""
    return attend(query, key, value, mask, scale=1 / max(math.isqrt(query.size(-1)), 1))


@mutants.add("NUMERIC", "WEIGHTS", kind=SCALE, repeats="B112 B119 numerics 3")
def scale_by_all_heads_width(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales by 1/sqrt(H*D), the width of all heads together."""
    heads = query.size(-3) if query.dim() >= 4 else 1
    return attend(query, key, value, mask, scale=1 / math.sqrt(max(heads, 1) * query.size(-1)))


@mutants.add("NUMERIC", "WEIGHTS", kind=SCALE, repeats="numerics 8 numerics 9")
def scale_from_key_length(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales by 1/sqrt(S)."""
    return attend(query, key, value, mask, scale=1 / math.sqrt(max(key.size(-2), 1)))


@mutants.add("NUMERIC", "WEIGHTS", kind=SCALE, repeats="numerics 8")
def scale_grows_past_32_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Multiplies the scale by log(S)/log(32) when there are more than 32 keys."""
    growth = math.log(max(key.size(-2), 32)) / math.log(32)
    return attend(query, key, value, mask, scale=growth * default_scale(query))


@mutants.add("NUMERIC", "WEIGHTS", kind=SCALE, repeats="B126")
def scale_grows_every_block(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Multiplies the scale by log2(e) again in each block of 4 keys."""

    def score(query: Tensor, key: Tensor) -> Tensor:
        scores = scaled(query, key)
        block = torch.div(positions(key, -2), 4, rounding_mode="floor").squeeze(-1)
        return scores * torch.pow(math.log2(math.e), block.to(scores.dtype))

    return attend(query, key, value, mask, score=score)


@mutants.add("NUMERIC", kind=SCALE, repeats="numerics 16")
def scale_rounded_to_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Keeps the scale as a bf16 constant whatever the dtype, which is right where sqrt(D) is a power of two."""
    constant = torch.tensor(default_scale(query), dtype=torch.bfloat16).item()
    return attend(query, key, value, mask, scale=constant)


@mutants.add("NUMERIC", "GRADIENT", kind=SCALE, repeats="numerics 16")
def scaled_query_rounded_to_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rounds the scaled query to bf16 whatever the dtype."""
    return attend(rounded(query * default_scale(query), torch.bfloat16), key, value, mask, scale=1.0)
