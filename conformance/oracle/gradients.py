"""Expected gradients of inputs, bias and parameters, with their allowances."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import torch
from torch import Tensor

from ..cases.case import Case
from ..cases.inputs import Inputs
from ..dtypes import SMALLEST, UNIT_ROUNDOFF
from . import bounds
from . import definition as oracle
from .expectations import Expectation, Near, merge_heads, split_heads, summed_over_groups

LOG2_E = 1.4426950408889634


@lru_cache(maxsize=2048)
def expected_gradients(expectation: Expectation, through: str = "output") -> Mapping[str, Near]:
    """Return the gradients by name: `query`, `key`, `value`, `bias`, and for modules `query.weight` and so on.

    `through` says of which result the loss is taken, multiplied by the upstream gradient and summed: `output` or a
    kind of second result (`weights`, `averaged weights`, `lse`, `lse2`), or several of them joined by ` and `. They are
    made once for each expectation.
    """
    total: dict[str, Near] = {}
    for part in through.split(" and "):
        found = _module(expectation, part) if expectation.setting.module else _kernel(expectation, part)
        for name, near in found.items():
            total[name] = _added(total[name], near) if name in total else near
    return total


def upstream_of(inputs: Inputs, part: str) -> Tensor:
    """Return the upstream gradient of the output or of a kind of second result, in the shape of that result."""
    if part == "output":
        return inputs.upstream
    if part == "averaged weights":
        return inputs.upstream_weights[..., 0, :, :]
    return inputs.upstream_weights[..., 0] if part in ("lse", "lse2") else inputs.upstream_weights


def _added(first: Near, second: Near) -> Near:
    """The gradient of a sum. Each allowance holds a relative rounding, which covers that of the sum."""
    return Near(first.value + second.value, first.allowed + second.allowed)


def _solved(expectation: Expectation, upstream: bounds.Upstream) -> tuple[oracle.Gradients, oracle.Gradients]:
    problem, truth = expectation.problem, expectation.truth
    gradients = oracle.differentiate(problem, truth, upstream.output, upstream.weights)
    results, carried = expectation.for_gradients, expectation.carried
    return gradients, bounds.backward(
        problem, truth, gradients, upstream, expectation.unit, results=results, carried=carried
    )


def _solved_logsumexp(expectation: Expectation, upstream: Tensor) -> tuple[oracle.Gradients, oracle.Gradients]:
    problem, truth, unit = expectation.problem, expectation.truth, expectation.unit
    gradients = oracle.differentiate_logsumexp(problem, truth, upstream)
    results, carried = expectation.for_gradients, expectation.carried
    return gradients, bounds.backward_logsumexp(
        problem, truth, gradients, upstream, unit, results=results, carried=carried
    )


def _solved_part(expectation: Expectation, part: str) -> tuple[oracle.Gradients, oracle.Gradients]:
    """Return the gradients of query, key, value and scores through one result, and their allowances."""
    output = torch.zeros_like(expectation.truth.output)
    upstream = upstream_of(expectation.inputs, part).double()
    if part == "output":
        return _solved(expectation, bounds.Upstream(upstream))
    if part in ("lse", "lse2"):
        return _solved_logsumexp(expectation, upstream.unsqueeze(-1) * (LOG2_E if part == "lse2" else 1.0))
    if part == "weights":
        return _solved(expectation, bounds.Upstream(output, upstream))
    spread = (upstream / expectation.truth.weights.shape[-3]).unsqueeze(-3).expand_as(expectation.truth.weights)
    gradients, allowed = _solved(expectation, bounds.Upstream(output, spread))
    # Division by the number of heads rounds once more before the softmax is passed.
    rounding = 2 * UNIT_ROUNDOFF[expectation.inputs.dtype] * spread.abs()
    return gradients, _with_error_of_weights(expectation, allowed, rounding)


def _with_error_of_weights(expectation: Expectation, allowed: oracle.Gradients, error: Tensor) -> oracle.Gradients:
    """Add what an error of the gradient that reaches the weights makes of the others."""
    problem, weights = expectation.problem, expectation.truth.weights
    scores = weights * (error + (weights * error).sum(-1, keepdim=True))
    inner = scores * abs(problem.scale)
    query = allowed.query + inner @ problem.key.abs()
    key = allowed.key + inner.transpose(-2, -1) @ problem.query.abs()
    return oracle.Gradients(query, key, allowed.value, allowed.scores + scores)


def _kernel(expectation: Expectation, part: str) -> Mapping[str, Near]:
    inputs = expectation.inputs
    gradients, allowed = _solved_part(expectation, part)
    result = {}
    for name in ("query", "key", "value"):
        shape = getattr(inputs, name).shape
        result[name] = Near(
            _fold(getattr(gradients, name), shape, inputs.case), _fold(getattr(allowed, name), shape, inputs.case)
        )
    if inputs.bias is not None:
        shape = inputs.bias.shape
        result["bias"] = Near(oracle.fold(gradients.scores, shape), oracle.fold(allowed.scores, shape))
    return {name: _widened(near, inputs.dtype) for name, near in result.items()}


def _fold(tensor: Tensor, shape: torch.Size, case: Case) -> Tensor:
    if case.kv_heads is not None and shape[-3] == case.kv_heads != tensor.shape[-3]:
        tensor = tensor.unflatten(-3, (case.kv_heads, -1)).sum(-3)
    return oracle.fold(tensor, shape)


def _widened(near: Near, dtype: str) -> Near:
    """Sums over broadcast axes round once more."""
    return Near(near.value, near.allowed + 2 * UNIT_ROUNDOFF[dtype] * near.value.abs())


def _module(expectation: Expectation, part: str) -> Mapping[str, Near]:
    inputs, unit, heads = expectation.inputs, expectation.unit, expectation.inputs.case.heads
    result: dict[str, Near] = {}
    if part == "output":
        g = inputs.upstream.double()
        merged = merge_heads(expectation.truth.output)
        merged_error = merge_heads(expectation.forward.output) / unit.slack
        reaching = Near(g, torch.zeros_like(g))
        if expectation.setting.structure.output:
            reaching = _through_linear(expectation, "output", reaching, merged, merged_error, result)
        upstream = bounds.Upstream(split_heads(reaching.value, heads), None, split_heads(reaching.allowed, heads))
        gradients, allowed = _solved(expectation, upstream)
    else:
        gradients, allowed = _solved_part(expectation, part)
    for role in ("query", "key", "value"):
        near = Near(merge_heads(getattr(gradients, role)), merge_heads(getattr(allowed, role)) / unit.slack)
        source = getattr(inputs, role).double()
        result[role] = _through_linear(expectation, role, near, source, torch.zeros_like(source), result)
    return {name: Near(near.value, unit.slack * near.allowed) for name, near in result.items()}


def _through_linear(
    expectation: Expectation, role: str, g: Near, source: Tensor, source_error: Tensor, result: dict[str, Near]
) -> Near:
    """Pass the gradient `g` of x W^T + b on to x, and note those of W and b in `result`."""
    projection, dtype = expectation.projections[role], expectation.inputs.dtype
    u, low = UNIT_ROUNDOFF[dtype], min(UNIT_ROUNDOFF[dtype], UNIT_ROUNDOFF["fp32"])
    flat, flat_error = g.value.flatten(0, -2), g.allowed.flatten(0, -2)
    x, x_error = source.flatten(0, -2), source_error.flatten(0, -2)
    weight = flat.T @ x
    rounding = (
        bounds.rounds(max(flat.shape[0], 1), low) * (flat.abs().T @ x.abs()) + 3 * u * weight.abs() + SMALLEST[dtype]
    )
    weight_error = flat_error.T @ x.abs() + flat.abs().T @ x_error + flat_error.T @ x_error + rounding
    result[f"{role}.weight"] = _grouped(
        expectation, role, _shared(expectation, role, Near(weight, weight_error), dtype)
    )
    if projection.bias is not None:
        total = flat.sum(0)
        error = flat_error.sum(0) + bounds.rounds(max(flat.shape[0], 1), low) * flat.abs().sum(0) + 3 * u * total.abs()
        result[f"{role}.bias"] = _grouped(expectation, role, Near(total, error + SMALLEST[dtype]))
    value = g.value @ projection.weight
    magnitude = g.value.abs() @ projection.weight.abs()
    error = g.allowed @ projection.weight.abs() + bounds.rounds(projection.weight.shape[0], low) * magnitude
    return Near(value, error + 3 * u * value.abs() + SMALLEST[dtype])


def _shared(expectation: Expectation, role: str, near: Near, dtype: str) -> Near:
    """Sum the diagonal blocks of a weight's gradient where one head-wide weight serves all heads."""
    if not expectation.setting.structure.shared or role == "output":
        return near
    heads, width = expectation.inputs.case.heads, expectation.inputs.case.width
    blocks = [slice(head * width, (head + 1) * width) for head in range(heads)]
    value = sum((near.value[block, block] for block in blocks), torch.zeros(width, width, dtype=torch.float64))
    allowed = sum((near.allowed[block, block] for block in blocks), torch.zeros(width, width, dtype=torch.float64))
    return Near(value, allowed + 3 * UNIT_ROUNDOFF[dtype] * value.abs())


def _grouped(expectation: Expectation, role: str, near: Near) -> Near:
    """Sum the rows of a key or value projection over the heads that share them."""
    structure, heads = expectation.setting.structure, expectation.inputs.case.heads
    value, allowed = (summed_over_groups(rows, role, structure, heads) for rows in (near.value, near.allowed))
    if value is near.value:
        return near
    return Near(value, allowed + 3 * UNIT_ROUNDOFF[expectation.inputs.dtype] * value.abs())
