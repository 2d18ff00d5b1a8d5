"""Faulty symmetry: samples, heads, queries or keys reach each other, or values are not treated linearly."""

from __future__ import annotations

import torch
from torch import Tensor

from ..mutant import BATCH, LAYOUT, WINDOW, Population
from .parts import Pair, attend, positions, scaled

mutants = Population()


def _batched(tensor: Tensor) -> bool:
    return tensor.dim() > 2 and tensor.size(0) > 1


@mutants.add("SYMMETRY", "NUMERIC", kind=BATCH, repeats="numerics 2")
def batch_mean_subtracted_from_query(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtracts the mean over the batch from the query; a batch of one stays."""
    return attend(query - query.mean(dim=0, keepdim=True) if _batched(query) else query, key, value, mask)


@mutants.add("SYMMETRY", "NUMERIC", kind=BATCH, repeats="numerics 2")
def output_normalised_over_the_batch(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds a thousandth of the batch mean to every output."""
    output, weights = attend(query, key, value, mask)
    return output + 1e-3 * output.mean(dim=0, keepdim=True) if _batched(output) else output, weights


@mutants.add("SYMMETRY", "NUMERIC", kind=BATCH, repeats="numerics 7")
def samples_exchanged_in_a_batch_of_two(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Exchanges the outputs of a batch of two."""
    output, weights = attend(query, key, value, mask)
    return output.flip(0) if output.dim() > 2 and output.size(0) == 2 else output, weights


@mutants.add("SYMMETRY", "NUMERIC", kind=BATCH, repeats="numerics 2 numerics 7")
def output_rolled_over_a_batch_of_three(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives each sample the output of its neighbour in batches of three or more."""
    output, weights = attend(query, key, value, mask)
    return output.roll(1, dims=0) if output.dim() > 2 and output.size(0) > 2 else output, weights


@mutants.add("SYMMETRY", "NUMERIC", kind=BATCH, repeats="numerics 2")
def value_of_first_sample_for_all(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads the value of sample 0 for the whole batch."""
    return attend(query, key, value[:1] if _batched(value) else value, mask)


@mutants.add("SYMMETRY", "NUMERIC", kind=LAYOUT, repeats="numerics 3")
def output_rolled_over_heads(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives each head the output of its neighbour."""
    output, weights = attend(query, key, value, mask)
    return output.roll(1, dims=-3) if output.dim() > 3 else output, weights


@mutants.add("SYMMETRY", "NUMERIC", kind=LAYOUT, repeats="numerics 3")
def head_order_reversed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Writes the heads of the output in reverse order."""
    output, weights = attend(query, key, value, mask)
    return output.flip(-3) if output.dim() > 3 else output, weights


@mutants.add("SYMMETRY", "NUMERIC", kind=LAYOUT, repeats="numerics 3")
def heads_mixed_slightly(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds a thousandth of the neighbouring head to the scores of each head."""

    def score(query: Tensor, key: Tensor) -> Tensor:
        scores = scaled(query, key)
        mixed = scores.dim() > 3 and scores.size(-3) > 1
        return scores + 1e-3 * scores.roll(1, dims=-3) if mixed else scores

    return attend(query, key, value, mask, score=score)


@mutants.add("SYMMETRY", "NUMERIC", kind="numerics 4", repeats="numerics 10")
def neighbouring_query_leaks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds a thousandth of the preceding query to each query."""
    before = torch.nn.functional.pad(query, (0, 0, 1, 0))[..., : query.size(-2), :]
    return attend(query + 1e-3 * before, key, value, mask)


@mutants.add("SYMMETRY", "NUMERIC", kind="numerics 4", repeats="numerics 10")
def queries_rolled_past_8(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads the next query's row for the queries from 8 on."""
    rows = torch.arange(query.size(-2))
    rows = torch.where(rows >= 8, (rows + 1).clamp(max=query.size(-2) - 1), rows)
    return attend(query[..., rows, :], key, value, mask)


@mutants.add("SYMMETRY", "NUMERIC", kind=WINDOW, repeats="numerics 11 B103")
def later_keys_weigh_less(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Lowers the score of key j by j/100, an undeclared position bias."""

    def score(query: Tensor, key: Tensor) -> Tensor:
        scores = scaled(query, key)
        return scores - positions(scores, -1).to(scores.dtype) / 100

    return attend(query, key, value, mask, score=score)


@mutants.add("SYMMETRY", "NUMERIC", kind=WINDOW, repeats="B104")
def position_bias_by_head(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds an undeclared linear bias with slopes that halve from head to head, none for head 0."""

    def score(query: Tensor, key: Tensor) -> Tensor:
        scores = scaled(query, key)
        if scores.dim() < 4:
            return scores
        head = positions(scores, -3).to(scores.dtype)
        return scores - torch.where(head > 0, 0.5**head, 0.0).to(scores.dtype) * positions(scores, -1)

    return attend(query, key, value, mask, score=score)


@mutants.add("SYMMETRY", "NUMERIC", kind="numerics 11", repeats="numerics 13 numerics 27")
def first_values_exchanged(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Exchanges the values of the first two keys."""
    order = torch.arange(value.size(-2))
    order[:2] = order[:2].flip(0)
    return attend(query, key, value[..., order, :], mask)


@mutants.add("SYMMETRY", "NUMERIC", kind="numerics 11", repeats="numerics 27")
def values_from_16_shifted_by_one(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads the preceding value for the keys from 16 on."""
    order = torch.arange(value.size(-2))
    return attend(query, key, value[..., torch.where(order >= 16, order - 1, order), :], mask)


@mutants.add("SYMMETRY", "NUMERIC", kind="numerics 13", repeats="numerics 14")
def equal_keys_counted_once(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Divides the weight of a key among its equals, as a look-up table of keys does."""
    equals = (key.unsqueeze(-2) == key.unsqueeze(-3)).all(dim=-1).sum(dim=-1)
    shares = equals.to(key.dtype).log().unsqueeze(-2)
    return attend(query, key, value, mask, score=lambda query, key: scaled(query, key) - shares)


@mutants.add("NUMERIC", "SYMMETRY", kind="numerics 18", repeats="numerics 20")
def values_clipped_at_10(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Clips the values to [-10, 10]."""
    return attend(query, key, value.clamp(-10, 10), mask)


@mutants.add("NUMERIC", "SYMMETRY", kind="numerics 18", repeats="numerics 20")
def values_clipped_at_100(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Clips the values to [-100, 100]."""
    return attend(query, key, value.clamp(-100, 100), mask)


@mutants.add("NUMERIC", "SYMMETRY", kind="numerics 18", repeats="numerics 19 numerics 20")
def negative_output_clipped(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Clips negative outputs to zero, which inputs drawn from [0, 1) do not show."""
    output, weights = attend(query, key, value, mask)
    return output.clamp_min(0), weights


@mutants.add("NUMERIC", "SYMMETRY", kind="numerics 19", repeats="numerics 18")
def output_shrunk_by_a_thousandth(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Multiplies the output by 0.999."""
    output, weights = attend(query, key, value, mask)
    return output * 0.999, weights


@mutants.add("NUMERIC", "SYMMETRY", kind="numerics 21")
def value_columns_mixed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtracts a thousandth of the mean over the columns from every output."""
    output, weights = attend(query, key, value, mask)
    return output - 1e-3 * output.mean(dim=-1, keepdim=True) if output.size(-1) else output, weights


@mutants.add("NUMERIC", kind="numerics 35", repeats="numerics 16")
def long_queries_shortened(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Shortens queries whose length exceeds 8 to 8."""
    length = query.norm(dim=-1, keepdim=True)
    short = length <= 8
    return attend(torch.where(short, query, query * (8 / length.masked_fill(short, 8.0))), key, value, mask)


@mutants.add("NUMERIC", kind="numerics 35", repeats="numerics 15")
def key_components_centred(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtracts from each key the mean of its own components."""
    return attend(query, key - key.mean(dim=-1, keepdim=True), value, mask)


@mutants.add("NUMERIC", kind="numerics 35")
def positions_rotated(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Rotates the first two components of query and key by their position, which nobody asked for."""

    def turned(tensor: Tensor) -> Tensor:
        angle = positions(tensor, -2).to(tensor.dtype) / 10
        first, second = tensor[..., :1], tensor[..., 1:2]
        cosine, sine = angle.cos(), angle.sin()
        pair = (cosine * first - sine * second, sine * first + cosine * second)
        return torch.cat((*pair, tensor[..., 2:]), dim=-1)

    return attend(turned(query), turned(key), value, mask) if query.size(-1) > 1 else attend(query, key, value, mask)
