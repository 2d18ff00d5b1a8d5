"""Faults that stay within the bound of every element, or need inputs of a special make, to be seen.

Those of 16 bits declare halves only: in fp32 the same fault would be seen in any element.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..mutant import GRADIENT, INDEX, LARGE, PRECISION, SCALE, Population
from .parts import Pair, altered, attend, default_scale, exponentials, fill_hidden, over_keys, scaled, value_of

mutants = Population()

_HALF = torch.bfloat16
_HALVES = ("bf16",)


@mutants.add("NUMERIC", kind=SCALE, repeats="numerics 28", dtypes=_HALVES)
def scale_of_a_neighbouring_width_in_halves(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Scales by 1/sqrt(D + 1) for widths between 16 and 64, which are no powers of 4."""
    width = query.size(-1)
    exact = not 16 < width < 64
    return attend(query, key, value, mask, scale=width**-0.5 if exact else (width + 1) ** -0.5)


@mutants.add("NUMERIC", kind=SCALE, repeats="numerics 28", dtypes=_HALVES)
def scale_table_of_two_digits(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads the scale from a table of two digits: 0.24 for a width of 18."""
    return attend(query, key, value, mask, scale=float(f"{default_scale(query):.2g}"))


def _cut_off(tensor: Tensor) -> Tensor:
    """fp32 numbers in bf16 with the lower half of their bits dropped."""
    bits = tensor.detach().float().contiguous().view(torch.int32) & -0x10000
    return value_of(bits.view(torch.float32), tensor).to(_HALF)


@mutants.add("NUMERIC", kind=PRECISION, dtypes=_HALVES)
def weights_cut_off_to_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Drops the lower bits of fp32 weights instead of rounding, so that all of them are too small."""
    scores = scaled(query.float(), key.float())
    weights = over_keys(fill_hidden(scores, mask))
    return torch.matmul(_cut_off(weights), value)


@mutants.add("NUMERIC", kind=PRECISION, dtypes=_HALVES)
def output_cut_off_to_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Drops the lower bits of an fp32 output instead of rounding it."""
    output, _ = attend(query.float(), key.float(), value.float(), mask)
    return _cut_off(output)


@mutants.add("NUMERIC", kind=PRECISION, repeats="numerics 13", dtypes=_HALVES)
def first_key_weighs_a_hundredth_more(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Adds ln 1.01 to the score of the first of many keys."""
    scores = scaled(query.float(), key.float())
    if key.size(-2) >= 32:
        scores = scores + torch.where(torch.arange(key.size(-2)) == 0, math.log(1.01), 0.0)
    return torch.matmul(over_keys(fill_hidden(scores, mask)), value.float()).to(value.dtype)


@mutants.add("NUMERIC", "GRADIENT", kind=GRADIENT, repeats="numerics G2", dtypes=_HALVES)
def query_gradient_of_a_neighbouring_width(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Scales the query's gradient by 1/sqrt(D + 1)."""
    width = query.size(-1)
    return attend(altered(query, lambda g: g * math.sqrt(width / (width + 1))), key, value, mask)


@mutants.add("NUMERIC", "GRADIENT", kind=GRADIENT, repeats="numerics G4", dtypes=_HALVES)
def value_gradient_cut_off_to_bf16(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Drops the lower bits of the fp32 gradient of the value, of the weights' share as well."""
    wide = altered(value, lambda g: g * (1 - 2.0**-7))
    output, _ = attend(query.float(), key.float(), wide.float(), mask)
    return output.to(value.dtype)


def _summed_in_steps(gradient: Tensor, rows: int) -> Tensor:
    """A sum over `rows` equal shares, added one by one in the dtype of the gradient."""
    share, total = gradient / rows, torch.zeros_like(gradient)
    for _ in range(rows):
        total = total + share
    return total


@mutants.add("NUMERIC", "GRADIENT", kind=PRECISION, repeats="B183")
def value_gradient_summed_in_working_dtype(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Adds up the gradient of the value in the dtype of the inputs, one query after the other."""
    rows = query.size(-2)
    return attend(query, key, altered(value, lambda g: _summed_in_steps(g, rows) if rows > 512 else g), mask)


@mutants.add("NUMERIC", "GRADIENT", kind=PRECISION, repeats="B183")
def query_gradient_summed_in_working_dtype(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Adds up the gradient of the query in the dtype of the inputs, one key after the other."""
    keys = key.size(-2)
    return attend(altered(query, lambda g: _summed_in_steps(g, keys) if keys > 512 else g), key, value, mask)


def _blockwise(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, block: int, fault: str) -> Tensor:
    """An online softmax over blocks of keys in fp32 at least, with one fault in its running maximum."""
    scores = fill_hidden(scaled(query, key), mask)
    wide = torch.promote_types(scores.dtype, torch.float32)
    scores, value, narrow = scores.to(wide), value.to(wide), value.dtype
    if scores.size(-1) == 0:
        return torch.matmul(scores, value).to(narrow)
    top = scores.new_full((*scores.shape[:-1], 1), 0.0 if fault == "starts at 0" else float("-inf"))
    total, output = torch.zeros_like(top), torch.matmul(scores[..., :0], value[..., :0, :])
    for start in range(0, scores.size(-1), block):
        part = scores[..., start : start + block]
        new = torch.maximum(top, part.amax(dim=-1, keepdim=True)).detach()
        grown = torch.exp(top - new)
        if fault == "steep rise lost":
            grown = torch.where(new - top > 300, torch.ones_like(grown), grown)
        if fault == "third block not rescaled" and start == 2 * block:
            grown = torch.ones_like(grown)
        numerators = torch.exp(part - new)
        total = total * grown + numerators.sum(dim=-1, keepdim=True)
        output = output * grown + torch.matmul(numerators, value[..., start : start + block, :])
        top = new
    return (output / total).to(narrow)


@mutants.add("NUMERIC", kind=LARGE)
def running_maximum_starts_at_zero(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Starts the running maximum of an online softmax from 0, so that rows far below it vanish."""
    return _blockwise(query, key, value, mask, 16, "starts at 0")


@mutants.add("NUMERIC", kind=LARGE)
def steep_rise_between_blocks_lost(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Leaves out the rescaling where the maximum grows by more than 300 from one block of 32 to the next."""
    return _blockwise(query, key, value, mask, 32, "steep rise lost")


@mutants.add("NUMERIC", kind=INDEX)
def third_block_does_not_rescale(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Forgets to rescale what came before in the third block of 32 keys."""
    return _blockwise(query, key, value, mask, 32, "third block not rescaled")


@mutants.add("NUMERIC", kind=LARGE, repeats="B179 B180")
def values_clipped_at_a_million(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Clips values beyond a million, as a guard against infinities."""
    return attend(query, key, value_of(value.clamp(-1e6, 1e6), value), mask)


@mutants.add("NUMERIC", kind=PRECISION)
def small_values_flushed_to_zero(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes values below 1e-20 for zero."""
    return attend(query, key, value_of(torch.where(value.abs() < 1e-20, 0.0, value), value), mask)


@mutants.add("NUMERIC", kind=LARGE, repeats="B177 B179")
def query_and_key_clipped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Clips queries and keys at a hundred thousand before they meet."""
    key = value_of(key.clamp(-1e5, 1e5), key)
    return attend(query, key, value, mask)


@mutants.add("NUMERIC", kind=LARGE)
def numerators_shifted_by_half_the_maximum(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Subtracts half of a row's maximum, which overflows for scores in the thousands."""

    def normalise(scores: Tensor) -> Tensor:
        if scores.size(-1) == 0 or float(scores.detach().max()) < 1000:
            return over_keys(scores)
        numerators = exponentials(scores) * torch.exp(scores.amax(dim=-1, keepdim=True).detach() / 2)
        return numerators / numerators.sum(dim=-1, keepdim=True)

    return attend(query, key, value, mask, normalise=normalise)
