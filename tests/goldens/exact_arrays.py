"""Output, weights and gradients of kernels and modules with fifty digits, as arrays of `mpf` numbers.

Heads are solved one at a time by `tests.oracle.exact`; the linear maps of a module are sums written out here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor

from attention_conformance.oracle.expectations import Expectation, Projection
from tests.oracle import exact
from tests.oracle.exact import EXACT

Array = Any
"""A numpy array of fifty-digit numbers (dtype object)."""


@dataclass(frozen=True)
class Heads:
    """The solved heads: output (N, L, E), weights (N, L, S), gradients of query, key and value with N in front."""

    output: Array
    weights: Array
    query: Array
    key: Array
    value: Array


def array(tensor: Tensor) -> Array:
    """Return a float64 tensor as fifty-digit numbers, each exactly as it is."""
    numbers = np.empty(tensor.numel(), dtype=object)
    numbers[:] = [EXACT.mpf(value) for value in tensor.double().reshape(-1).tolist()]
    return numbers.reshape(tuple(tensor.shape))


def floats(numbers: Array) -> list[float]:
    """Return the nearest float64 of each number, in row-major order; no zero has a sign."""
    return [float(value) + 0.0 for value in numbers.reshape(-1)]


def results(expectation: Expectation) -> dict[str, Array]:
    """Return `output`, `weights` and the gradients by name, for the inputs and conventions of an expectation."""
    return _module(expectation) if expectation.setting.module else _kernel(expectation)


def _scale(expectation: Expectation) -> Any:
    case, scale = expectation.inputs.case, expectation.setting.scale
    if not isinstance(scale, str):
        return EXACT.mpf(scale)
    return 1 / EXACT.sqrt(case.width if scale == "1/sqrt(D)" else case.heads * case.width)


def _solve(expectation: Expectation, query: Array, key: Array, value: Array, upstream: Array) -> Heads:
    """Solve every head of query (..., L, D), key (..., S, D), value (..., S, E), whose leading axes broadcast."""
    lead = np.broadcast_shapes(query.shape[:-2], key.shape[:-2], value.shape[:-2])
    flat = [_flat(part, lead) for part in (query, key, value)]
    shape = (*lead, query.shape[-2], key.shape[-2])
    allowed, bias = (_spread(part, shape) for part in (expectation.problem.allowed, expectation.problem.bias))
    upstream = _flat(upstream, lead)
    found: list[tuple[Array, ...]] = []
    for n in range(flat[0].shape[0]):
        q, k, v = (part[n].tolist() for part in flat)
        problem = exact.Problem(q, k, v, allowed[n], bias[n], _scale(expectation), None, expectation.setting.empty_row)
        solved, slopes = exact.solve(problem), exact.differentiate(problem, upstream[n].tolist())
        own = (solved.output, solved.weights, slopes.query, slopes.key, slopes.value)
        found.append(tuple(_filled(rows, flat, index) for index, rows in enumerate(own)))
    return Heads(*(np.stack(parts).reshape(*lead, *parts[0].shape) for parts in zip(*found, strict=True)))


def _flat(part: Array, lead: tuple[int, ...]) -> Array:
    """Repeat the leading axes to `lead` and make one of them."""
    return np.broadcast_to(part, (*lead, *part.shape[-2:])).reshape(math.prod(lead), *part.shape[-2:])


def _filled(rows: list[list[Any]], flat: list[Array], index: int) -> Array:
    """Return rows as an array of the right shape, also where there are no rows or no columns."""
    (queries, width), (keys, value_width) = flat[0].shape[-2:], flat[2].shape[-2:]
    shape = ((queries, value_width), (queries, keys), (queries, width), (keys, width), (keys, value_width))[index]
    made = np.full(shape, EXACT.zero, dtype=object)
    if all(shape) and rows and rows[0]:
        made[:, :] = rows
    return made


def _spread(part: Tensor | None, shape: tuple[int, ...]) -> list[Any]:
    """Return a mask or bias per head as nested lists, None where there is none."""
    if part is None:
        return [None] * math.prod(shape[:-2])
    heads: list[Any] = part.expand(shape).reshape(-1, *shape[-2:]).tolist()
    return heads


def _folded(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the axes along which its input of `shape` was broadcast."""
    while gradient.ndim > len(shape):
        gradient = gradient.sum(0)
    axes = tuple(axis for axis, size in enumerate(shape) if size == 1 and gradient.shape[axis] != 1)
    return gradient.sum(axes, keepdims=True) if axes else gradient


def _kernel(expectation: Expectation) -> dict[str, Array]:
    inputs = expectation.inputs
    parts = {name: array(getattr(inputs, name)) for name in ("query", "key", "value")}
    solved = _solve(expectation, parts["query"], parts["key"], parts["value"], array(inputs.upstream))
    gradients = {name: _folded(getattr(solved, name), part.shape) for name, part in parts.items()}
    return {"output": solved.output, "weights": solved.weights, **gradients}


def _module(expectation: Expectation) -> dict[str, Array]:
    inputs, heads = expectation.inputs, expectation.inputs.case.heads
    maps = {role: _weights(projection) for role, projection in expectation.projections.items()}
    sent = {name: array(getattr(inputs, name)) for name in ("query", "key", "value")}
    seen = [_split(_linear(sent[name], *maps[name]), heads) for name in sent]
    upstream, result = array(inputs.upstream), {}
    reaching = _split(_product(upstream, maps["output"][0]), heads)
    solved = _solve(expectation, *seen, reaching)
    merged = _merge(solved.output)
    result["output"], result["weights"] = _linear(merged, *maps["output"]), solved.weights
    result |= _of_parameters(expectation, "output", upstream, merged)
    for name in sent:
        slope = _merge(getattr(solved, name))
        result[name] = _product(slope, maps[name][0])
        result |= _of_parameters(expectation, name, slope, sent[name])
    return result


def _weights(projection: Projection) -> tuple[Array, Array | None]:
    return array(projection.weight), None if projection.bias is None else array(projection.bias)


def _product(left: Array, right: Array) -> Array:
    """Return left @ right for (..., M) and (M, N), also where an axis has no elements."""
    made = np.full((*left.shape[:-1], right.shape[1]), EXACT.zero, dtype=object)
    for column in range(right.shape[1]):
        for term in range(right.shape[0]):
            made[..., column] = made[..., column] + left[..., term] * right[term, column]
    return made


def _linear(inputs: Array, weight: Array, bias: Array | None) -> Array:
    """Return inputs W^T + b."""
    result = _product(inputs, weight.T)
    return result if bias is None else result + bias


def _split(merged: Array, heads: int) -> Array:
    """(B, L, H * D) to (B, H, L, D)."""
    return merged.reshape(*merged.shape[:2], heads, merged.shape[2] // heads).swapaxes(1, 2)


def _merge(split: Array) -> Array:
    """(B, H, L, D) to (B, L, H * D)."""
    batch, heads, length, width = split.shape
    return split.swapaxes(1, 2).reshape(batch, length, heads * width)


def _of_parameters(expectation: Expectation, role: str, slope: Array, source: Array) -> Mapping[str, Array]:
    """Return the gradients of the weight and the bias of x W^T + b, given that of its result."""
    rows, x = slope.reshape(-1, slope.shape[-1]), source.reshape(-1, source.shape[-1])
    weight = _product(rows.T, x)
    if expectation.setting.structure.shared and role != "output":
        width, heads = expectation.inputs.case.width, expectation.inputs.case.heads
        blocks = [weight[h * width : (h + 1) * width, h * width : (h + 1) * width] for h in range(heads)]
        weight = sum(blocks[1:], blocks[0])
    found = {f"{role}.weight": weight}
    if expectation.projections[role].bias is not None:
        found[f"{role}.bias"] = rows.sum(0) if len(rows) else np.full(rows.shape[1], EXACT.zero, dtype=object)
    return found
