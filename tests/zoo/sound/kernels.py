"""Kernels that differ in how the scores are multiplied and scaled; the softmax is torch's own."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..program import HALVES_TOO, Program
from .parts import Pair, equal_leading, fill_hidden, flatten_leading, full_mask, lowest


def einsum_ellipsis(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Contract with einsum and leave the leading axes to its ellipsis."""
    scores = torch.einsum("...ld,...sd->...ls", query, key) / math.sqrt(query.size(-1))
    weights = torch.softmax(fill_hidden(scores, mask, -1e9), dim=-1)
    return torch.einsum("...ls,...se->...le", weights, value), weights


def bmm_flattened(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Merge the leading axes and multiply batches of matrices."""
    allowed = flatten_leading(full_mask(mask, *equal_leading(query, key, value)[:2]))
    query, key, value = equal_leading(query, key, value)
    leading = query.shape[:-2]
    query, key, value = flatten_leading(query), flatten_leading(key), flatten_leading(value)
    scores = torch.bmm(query, key.transpose(1, 2)) * query.size(-1) ** -0.5
    scores = scores.masked_fill(~allowed, lowest(scores))
    output = torch.bmm(torch.softmax(scores, dim=-1), value)
    return output.reshape(*leading, *output.shape[-2:])


def scale_on_query(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scale the query before the product."""
    scores = torch.matmul(query * query.size(-1) ** -0.5, key.mT)
    weights = torch.softmax(fill_hidden(scores, mask, lowest(scores)), dim=-1)
    return weights @ value, weights


def scale_on_key(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scale the key before the product."""
    scores = torch.matmul(query, (key / math.sqrt(key.size(-1))).mT)
    weights = torch.softmax(fill_hidden(scores, mask, lowest(scores)), dim=-1)
    return weights @ value, weights


def scale_split(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Put the fourth root of the width on both sides, so that neither product grows."""
    root = query.size(-1) ** -0.25
    scores = torch.matmul(query * root, (key * root).mT)
    weights = torch.softmax(fill_hidden(scores, mask, lowest(scores)), dim=-1)
    return weights @ value, weights


def rounded_divisor(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Divide by a tensor that holds the root of the width rounded to the working dtype."""
    divisor = torch.full((), query.size(-1), dtype=query.dtype, device=query.device).sqrt()
    scores = torch.matmul(query, key.mT) / divisor
    weights = torch.softmax(fill_hidden(scores, mask, -1e9), dim=-1)
    return weights @ value, weights


def baddbmm_bias(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Let baddbmm scale the product and add the mask, as a term of finfo.min, in one step."""
    allowed = full_mask(mask, *equal_leading(query, key, value)[:2])
    query, key, value = equal_leading(query, key, value)
    hidden = torch.zeros(allowed.shape, dtype=query.dtype, device=query.device).masked_fill(~allowed, lowest(query))
    scores = torch.baddbmm(
        flatten_leading(hidden),
        flatten_leading(query),
        flatten_leading(key).transpose(1, 2),
        alpha=query.size(-1) ** -0.5,
    )
    output = torch.bmm(torch.softmax(scores, dim=-1), flatten_leading(value))
    return output.reshape(*query.shape[:-1], value.size(-1))


def keys_first(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Compute key query^T, take the softmax down its columns and transpose at the end."""
    scores = torch.matmul(key, query.mT) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.mT.masked_fill(mask == 0, lowest(scores)).mT
    weights = torch.softmax(scores, dim=-2)
    return torch.matmul(value.mT, weights).mT, weights.mT


def tensordot_per_problem(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Loop over the merged leading axes in Python and contract one problem at a time."""
    allowed = flatten_leading(full_mask(mask, *equal_leading(query, key, value)[:2]))
    query, key, value = equal_leading(query, key, value)
    shape = (*query.shape[:-1], value.size(-1))
    outputs = []
    for q, k, v, a in zip(*map(flatten_leading, (query, key, value)), allowed, strict=True):
        scores = torch.tensordot(q, k, dims=([1], [1])) / math.sqrt(q.size(-1))
        weights = torch.softmax(scores.masked_fill(~a, lowest(scores)), dim=-1)
        outputs.append(torch.tensordot(weights, v, dims=([1], [0])))
    if not outputs:
        return query @ key.mT @ value
    return torch.stack(outputs).reshape(shape)


def vmap_over_problems(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Write attention for two matrices and let vmap add the leading axes."""
    allowed = full_mask(mask, *equal_leading(query, key, value)[:2])
    query, key, value = equal_leading(query, key, value)

    def single(q: Tensor, k: Tensor, v: Tensor, a: Tensor) -> Tensor:
        scores = torch.mm(q, k.t()) * q.size(-1) ** -0.5
        return torch.mm(torch.softmax(torch.where(a, scores, lowest(scores)), dim=-1), v)

    if not query.shape[:-2]:
        return single(query, key, value, allowed)
    output = torch.vmap(single)(*map(flatten_leading, (query, key, value, allowed)))
    return output.reshape(*query.shape[:-1], value.size(-1))


def padded_to_tiles(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Pad the width to a multiple of 8 and the keys to a multiple of 16 that no query may attend to."""
    query, key, value = equal_leading(query, key, value)
    scale, keys = query.size(-1) ** -0.5, key.size(-2)
    wider, longer = -query.size(-1) % 8, -keys % 16
    allowed = full_mask(mask, query, key)
    # -1e9 for the caller's mask and -inf for the padding: a row without keys is the mean of the real ones.
    query, key = (torch.nn.functional.pad(tensor, (0, wider)) for tensor in (query, key))
    key, value = (torch.nn.functional.pad(tensor, (0, 0, 0, longer)) for tensor in (key, value))
    scores = (query @ key.mT) * scale
    scores = scores.masked_fill(~torch.nn.functional.pad(allowed, (0, longer), value=True), -1e9)
    if keys:
        padding = torch.arange(key.size(-2), device=query.device) >= keys
        scores = scores.masked_fill(padding, -math.inf)
    return torch.softmax(scores, dim=-1) @ value


SOUND_KERNELS = (
    Program("einsum_ellipsis", einsum_ellipsis, {}, "einsum does both products and an ellipsis the leading axes"),
    Program("bmm_flattened", bmm_flattened, {"dtypes": HALVES_TOO, "second": None}, "bmm over merged leading axes"),
    Program("scale_on_query", scale_on_query, {"dtypes": HALVES_TOO}, "the scale multiplies the query"),
    Program("scale_on_key", scale_on_key, {"dtypes": HALVES_TOO}, "the root of the width divides the key"),
    Program("scale_split", scale_split, {"dtypes": HALVES_TOO}, "the root of the scale is on query and key"),
    Program("rounded_divisor", rounded_divisor, {}, "the divisor is itself rounded to the working dtype"),
    Program(
        "baddbmm_bias",
        baddbmm_bias,
        {"second": None, "empty_row": "unspecified"},
        "baddbmm scales and adds the mask in one step, and an empty row still passes a gradient on",
    ),
    Program("keys_first", keys_first, {"dtypes": HALVES_TOO}, "the softmax runs down the columns of key query^T"),
    Program("tensordot_per_problem", tensordot_per_problem, {"second": None}, "a Python loop over batch and heads"),
    Program("vmap_over_problems", vmap_over_problems, {"second": None}, "vmap adds the leading axes"),
    Program("padded_to_tiles", padded_to_tiles, {"second": None}, "width and keys are padded to tile sizes"),
)
