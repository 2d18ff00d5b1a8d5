"""Faulty shapes and dtypes of the result, and inputs of size zero, one or many axes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..mutant import BATCH, MIXED, OUTPUT, PATHS, ZERO, Population
from .parts import Pair, attend, positions

mutants = Population()


@mutants.add("SHAPE", kind=OUTPUT, repeats="B163 numerics 21")
def output_shaped_like_query(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives the output the query's width D: cut or padded with zeros where E differs."""
    output, weights = attend(query, key, value, mask)
    return pad(output, (0, query.size(-1) - output.size(-1))), weights


@mutants.add("SHAPE", "NUMERIC", kind=OUTPUT, repeats="B163 numerics 21")
def value_beyond_query_width_zero(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Leaves the value columns from D on at zero, in an output of the right shape."""
    output, weights = attend(query, key, value, mask)
    return output.masked_fill(positions(output, -1) >= query.size(-1), 0.0), weights


@mutants.add("SHAPE", kind=MIXED, repeats="B256")
def output_always_float32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns an fp32 output whatever the dtype of the inputs."""
    output, weights = attend(query, key, value, mask)
    return output.float(), weights


@mutants.add("SHAPE", kind=MIXED, repeats="B257")
def output_of_bf16_is_float32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns fp32 output and weights for bf16 inputs."""
    output, weights = attend(query, key, value, mask)
    return (output.float(), weights.float()) if query.dtype == torch.bfloat16 else (output, weights)


@mutants.add("WEIGHTS", "SHAPE", kind=MIXED)
def weights_always_float32(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns fp32 weights whatever the dtype of the inputs."""
    output, weights = attend(query, key, value, mask)
    return output, weights.float()


@mutants.add("SHAPE", kind=OUTPUT, repeats="B164")
def axes_of_size_one_squeezed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Squeezes the axes of size one out of output and weights."""
    output, weights = attend(query, key, value, mask)
    return output.squeeze(), weights.squeeze()


@mutants.add("SHAPE", kind=OUTPUT, repeats="B165")
def batch_of_one_squeezed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Squeezes the first axis of a batch of one."""
    output, weights = attend(query, key, value, mask)
    if output.dim() > 2:
        output, weights = output.squeeze(0), weights.squeeze(0)
    return output, weights


@mutants.add("SHAPE", kind=OUTPUT)
def leading_axis_added(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns a batch of one for inputs of two axes."""
    output, weights = attend(query, key, value, mask)
    return (output.unsqueeze(0), weights.unsqueeze(0)) if query.dim() == 2 else (output, weights)


@mutants.add("SHAPE", kind=OUTPUT)
def leading_axes_flattened(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns (B*H, L, E) for inputs (B, H, L, E)."""
    output, weights = attend(query, key, value, mask)
    return (output.flatten(0, 1), weights.flatten(0, 1)) if output.dim() == 4 else (output, weights)


@mutants.add("SHAPE", "SYMMETRY", kind=OUTPUT, repeats="B164")
def fifth_axis_merged_in_wrong_order(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Merges the leading axes of inputs with five axes and splits them in the wrong order."""
    output, weights = attend(query, key, value, mask)
    if output.dim() == 5:
        outer, inner = output.shape[:2]
        output = output.reshape(inner, outer, *output.shape[2:]).transpose(0, 1)
        weights = weights.reshape(inner, outer, *weights.shape[2:]).transpose(0, 1)
    return output, weights


@mutants.add("SHAPE", kind=OUTPUT, repeats="B164")
def leading_axes_not_broadcast(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Refuses a query batch of one beside several key batches."""
    if query.shape[:-2] != key.shape[:-2] or key.shape[:-2] != value.shape[:-2]:
        raise RuntimeError(f"leading axes differ: {query.shape[:-2]}, {key.shape[:-2]}, {value.shape[:-2]}")
    return attend(query, key, value, mask)


@mutants.add("SHAPE", "SYMMETRY", kind=BATCH, repeats="B164")
def broadcast_query_answers_first_sample(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives every sample the answer of sample 0 when one query batch meets several key batches."""
    output, weights = attend(query, key, value, mask)
    if query.dim() > 2 and query.size(0) == 1 and output.size(0) > 1:
        output, weights = output[:1].expand(output.shape), weights[:1].expand(weights.shape)
    return output, weights


@mutants.add("SHAPE", kind=OUTPUT)
def two_axes_refused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Refuses inputs without leading axes."""
    if query.dim() < 3:
        raise ValueError(f"a batch axis is needed, query has the shape {tuple(query.shape)}")
    return attend(query, key, value, mask)


@mutants.add("SHAPE", "NUMERIC", kind=ZERO, repeats="B255")
def no_keys_nan(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Gives NaN without keys, 0/0, and does not declare it."""
    output, weights = attend(query, key, value, mask)
    return (output + torch.nan, weights) if key.size(-2) == 0 else (output, weights)


@mutants.add("SHAPE", kind=ZERO, repeats="B255")
def no_keys_refused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Raises without keys and does not declare it."""
    if key.size(-2) == 0:
        raise IndexError("the maximum over no keys is not defined")
    return attend(query, key, value, mask)


@mutants.add("SHAPE", kind=ZERO, repeats="B252 B253")
def empty_batch_refused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Raises for a batch of none."""
    if query.dim() > 2 and query.size(0) == 0:
        raise RuntimeError("grid of size 0: launch a kernel over at least one sample")
    return attend(query, key, value, mask)


@mutants.add("SHAPE", kind=ZERO, repeats="B252")
def no_queries_refused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Raises without queries."""
    if query.size(-2) == 0:
        raise RuntimeError("grid of size 0: launch a kernel over at least one query")
    return attend(query, key, value, mask)


@mutants.add("SHAPE", "NUMERIC", kind=OUTPUT, repeats="B167")
def one_query_attends_best_key_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Takes a single query for decoding and attends the key with the largest score only."""
    output, weights = attend(query, key, value, mask)
    if query.size(-2) == 1 and key.size(-2):
        best = weights.argmax(dim=-1, keepdim=True)
        weights = torch.zeros_like(weights).scatter(-1, best, 1.0)
        output = torch.matmul(weights, value)
    return output, weights


@mutants.add("SHAPE", "NUMERIC", kind=OUTPUT, repeats="numerics 35")
def odd_width_loses_a_component(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Reads pairs of components and drops the last one of an odd width D."""
    even = query.size(-1) // 2 * 2 if query.size(-1) > 1 else 1
    scale = query.size(-1) ** -0.5
    return attend(query[..., :even], key[..., :even], value, mask, scale=scale)


@mutants.add("SHAPE", "NUMERIC", kind=OUTPUT, repeats="numerics 21")
def odd_value_width_loses_a_column(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Writes pairs of columns and leaves the last one of an odd width E at zero."""
    output, weights = attend(query, key, value, mask)
    last = positions(output, -1) == output.size(-1) - 1
    return (output.masked_fill(last, 0.0) if output.size(-1) % 2 else output), weights


@mutants.add("SHAPE", "NUMERIC", kind=OUTPUT, repeats="B167 numerics 35")
def width_beyond_64_ignored(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Uses the first 64 components of query and key."""
    scale = query.size(-1) ** -0.5
    return attend(query[..., :64], key[..., :64], value, mask, scale=scale)


@mutants.add("SHAPE", "NUMERIC", kind=OUTPUT, repeats="B167 numerics 21")
def value_width_beyond_64_zero(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Leaves the output columns from 64 on at zero."""
    output, weights = attend(query, key, value, mask)
    return output.masked_fill(positions(output, -1) >= 64, 0.0), weights


@mutants.add("SHAPE", "PURITY", kind=PATHS, repeats="B253 numerics 1")
def output_of_inference_path_is_transposed(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Returns (B, L, H, E) on the path without gradients and (B, H, L, E) otherwise."""
    output, weights = attend(query, key, value, mask)
    return (output.transpose(-3, -2) if output.dim() > 3 and not torch.is_grad_enabled() else output), weights
