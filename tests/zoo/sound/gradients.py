"""Kernels with a backward pass of their own, and kernels that cannot be differentiated at all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..program import HALVES_TOO, Program
from .parts import (
    INFINITY,
    Pair,
    accumulator,
    equal_leading,
    finite_or_zero,
    full_mask,
    lowest,
    one_where_zero,
    row_max,
    safe_softmax,
)


class _SavedWeights(torch.autograd.Function):
    """Save the weights, which are a result as well: the backward pass can itself be differentiated."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> tuple[Tensor, Tensor]:
        scores = (query @ key.mT) * query.size(-1) ** -0.5
        weights = torch.softmax(scores.masked_fill(~allowed, lowest(scores)), -1)
        ctx.save_for_backward(query, key, value, allowed, weights)
        return weights @ value, weights

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        query, key, value, allowed, weights = ctx.saved_tensors
        slopes = upstream[0] @ value.mT + upstream[1]
        mean = (weights * slopes).sum(-1, keepdim=True)
        scores = (weights * (slopes - mean)).masked_fill(~allowed, 0.0) * query.size(-1) ** -0.5
        return scores @ key, scores.mT @ query, weights.mT @ upstream[0], None


def saved_weights(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Run the hand-written backward pass that saves the weights."""
    query, key, value = equal_leading(query, key, value)
    output, weights = _SavedWeights.apply(query, key, value, full_mask(mask, query, key))
    return output, weights


class _FromLogsumexp(torch.autograd.Function):
    """Save output and logsumexp only, and compute the weights again from them, as flash attention does."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
        wide = accumulator(query.dtype)
        scores = (query.to(wide) @ key.to(wide).mT) * query.size(-1) ** -0.5
        scores = scores.masked_fill(~allowed, -INFINITY)
        largest = finite_or_zero(row_max(scores, empty=-INFINITY))
        exponentials = torch.exp(scores - largest)
        total = one_where_zero(exponentials.sum(-1, keepdim=True))
        output = (exponentials.to(query.dtype).to(wide) @ value.to(wide)) / total
        output = output.to(query.dtype)
        ctx.save_for_backward(query, key, value, allowed, output, largest + total.log())
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        query, key, value, allowed, output, level = ctx.saved_tensors
        dtype, wide, scale = query.dtype, accumulator(query.dtype), query.size(-1) ** -0.5
        query, key, value, output, upstream = (t.to(wide) for t in (query, key, value, output, upstream))
        weights = torch.exp(((query @ key.mT) * scale).masked_fill(~allowed, -INFINITY) - level)
        mean = (upstream * output).sum(-1, keepdim=True)
        scores = (weights * (upstream @ value.mT - mean)).to(dtype).to(wide)
        grad_value = weights.to(dtype).to(wide).mT @ upstream
        grad_query, grad_key = (scores @ key) * scale, (scores.mT @ query) * scale
        return grad_query.to(dtype), grad_key.to(dtype), grad_value.to(dtype), None


def recomputed_from_logsumexp(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Run the hand-written backward pass that recomputes the weights."""
    query, key, value = equal_leading(query, key, value)
    output: Tensor = _FromLogsumexp.apply(query, key, value, full_mask(mask, query, key))
    return output


class _SoftmaxOnly(torch.autograd.Function):
    """A softmax over allowed keys that saves its own result."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, allowed: Tensor) -> Tensor:
        weights = safe_softmax(scores, allowed)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        product = weights * upstream
        return product - weights * product.sum(-1, keepdim=True), None


def softmax_with_own_backward(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Leave the products to autograd and write only the softmax's backward pass."""
    query, key, value = equal_leading(query, key, value)
    scores = torch.matmul(query, key.mT) / math.sqrt(query.size(-1))
    weights = _SoftmaxOnly.apply(scores, full_mask(mask, query, key))
    return weights @ value, weights


class _QueryBlocks(torch.autograd.Function):
    """Add key and value gradients up over blocks of two queries; query gradients come block by block."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, value, allowed)
        wide = accumulator(query.dtype)
        scores = (query.to(wide) @ key.to(wide).mT) * query.size(-1) ** -0.5
        return (safe_softmax(scores, allowed) @ value.to(wide)).to(query.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        query, key, value, allowed = ctx.saved_tensors
        dtype, wide, scale = query.dtype, accumulator(query.dtype), query.size(-1) ** -0.5
        query, key, value, upstream = (tensor.to(wide) for tensor in (query, key, value, upstream))
        grads = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
        for start in range(0, query.size(-2), 2):
            rows = slice(start, start + 2)
            q, g = query[..., rows, :], upstream[..., rows, :]
            weights = safe_softmax((q @ key.mT) * scale, allowed[..., rows, :])
            slopes = g @ value.mT
            scores = weights * (slopes - (weights * slopes).sum(-1, keepdim=True)) * scale
            grads[0][..., rows, :] = scores @ key
            grads[1].add_(scores.mT @ q)
            grads[2].add_(weights.mT @ g)
        return grads[0].to(dtype), grads[1].to(dtype), grads[2].to(dtype), None


def backward_in_query_blocks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Run the backward pass block by block."""
    query, key, value = equal_leading(query, key, value)
    output: Tensor = _QueryBlocks.apply(query, key, value, full_mask(mask, query, key))
    return output


def forward_only(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Compute without a graph."""
    with torch.no_grad():
        scores = torch.matmul(query, key.mT) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = torch.softmax(scores, -1)
        return weights @ value, weights


def forward_only_numpy(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Leave torch for numpy; bf16, which numpy lacks, passes through fp32."""
    wide = accumulator(query.dtype)
    q, k, v = (tensor.detach().to(wide).cpu().numpy() for tensor in (query, key, value))
    scores = (q @ k.swapaxes(-1, -2)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = np.where((mask == 0).cpu().numpy(), scores.dtype.type(-1e9), scores)
    if scores.shape[-1]:
        scores = scores - scores.max(-1, keepdims=True)
    exponentials = torch.from_numpy(scores).exp().numpy()
    weights = exponentials / exponentials.sum(-1, keepdims=True)
    return torch.from_numpy(weights @ v).to(query.dtype).to(query.device)


def _shuffled(query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
    """Add the keys in an order that differs from call to call, as atomic additions do."""
    generator = torch.Generator()
    generator.seed()
    order = torch.randperm(key.size(-2), generator=generator).to(key.device)
    wide = accumulator(query.dtype)
    query, key, value = query.to(wide), key[..., order, :].to(wide), value[..., order, :].to(wide)
    scores = ((query @ key.mT) * query.size(-1) ** -0.5).masked_fill(~allowed[..., order], -INFINITY)
    exponentials = torch.exp(scores - finite_or_zero(row_max(scores, empty=-INFINITY)))
    total = one_where_zero(exponentials.sum(-1, keepdim=True))
    return (exponentials @ value) / total


def shuffled_order(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return sums whose last bits differ from call to call."""
    query, key, value = equal_leading(query, key, value)
    return _shuffled(query, key, value, full_mask(mask, query, key)).to(query.dtype)


class _ShuffledBackward(torch.autograd.Function):
    """A fixed forward pass, and a backward pass that adds in an order of its own each time."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, allowed: Tensor) -> Tensor:
        ctx.save_for_backward(query, key, value, allowed)
        wide = accumulator(query.dtype)
        scores = (query.to(wide) @ key.to(wide).mT) * query.size(-1) ** -0.5
        return (safe_softmax(scores, allowed) @ value.to(wide)).to(query.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        *inputs, allowed = ctx.saved_tensors
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in inputs]
            output = _shuffled(*leaves, allowed)
        grads = torch.autograd.grad(output, leaves, upstream.to(output.dtype))
        return (*grads, None)


def shuffled_backward(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return the same output every time, with gradients that differ in their last bits."""
    query, key, value = equal_leading(query, key, value)
    output: Tensor = _ShuffledBackward.apply(query, key, value, full_mask(mask, query, key))
    return output


_ZEROS = {"dtypes": HALVES_TOO, "empty_row": "zeros"}
_ONCE = {**_ZEROS, "gradient": "once", "second": None}
SOUND_GRADIENTS = (
    Program("saved_weights", saved_weights, {"dtypes": HALVES_TOO}, "the backward pass uses the returned weights"),
    Program(
        "recomputed_from_logsumexp",
        recomputed_from_logsumexp,
        {**_ONCE, "precision": "fused"},
        "the backward pass starts from logsumexp and the rounded output",
    ),
    Program(
        "softmax_with_own_backward",
        softmax_with_own_backward,
        _ZEROS,
        "only the softmax has its own backward",
    ),
    Program(
        "backward_in_query_blocks",
        backward_in_query_blocks,
        {**_ONCE, "precision": "upcast"},
        "key and value gradients add up block by block",
    ),
    Program("forward_only", forward_only, {"gradient": "none"}, "no_grad surrounds the computation"),
    Program("forward_only_numpy", forward_only_numpy, {"gradient": "none", "second": None}, "numpy computes"),
    Program(
        "shuffled_order",
        shuffled_order,
        {**_ZEROS, "second": None, "precision": "upcast", "deterministic": "no"},
        "keys are added in another order at every call",
    ),
    Program(
        "shuffled_backward",
        shuffled_backward,
        {**_ONCE, "precision": "upcast", "deterministic": "forward"},
        "the backward pass adds in another order at every call",
    ),
)
