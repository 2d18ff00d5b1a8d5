"""Kernels of numpy arrays: a sound one, and faulty ones under the name of their fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Kernel = Callable[..., Any]


def attend(query: Any, key: Any, value: Any, mask: Any = None, *, factor: float = 1.0) -> Any:
    """Attention from its definition; every element of the mask that is not zero attends."""
    scores = query @ np.swapaxes(key, -1, -2) * query.dtype.type(factor / np.sqrt(query.shape[-1]))
    if mask is not None:
        scores = np.where(mask != 0, scores, query.dtype.type(-1e9))
    scores = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    weights = scores / scores.sum(-1, keepdims=True)
    return weights @ value, weights


def scale_is_doubled(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Multiplies by 2/sqrt(D)."""
    return attend(query, key, value, mask, factor=2.0)


def query_is_scaled_in_place(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Scales the caller's query."""
    query *= query.shape[-1] ** -0.5
    return attend(query, key, value, mask, factor=query.shape[-1] ** 0.5)


def output_lies_in_the_value(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """With one key, returns the value instead of a copy."""
    if key.shape[-2] == 1 and query.shape == value.shape:
        return value
    return attend(query, key, value, mask)[0]


def strides_are_forgotten(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Reads the query's memory as if it were contiguous."""
    flat = np.lib.stride_tricks.as_strided(query, (query.size,), (query.itemsize,))
    return attend(flat.reshape(query.shape), key, value, mask)


def output_buffer_is_kept() -> Kernel:
    """Writes every result of one shape into the same array."""
    kept: dict[Any, Any] = {}

    def kernel(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        output = attend(query, key, value, mask)[0]
        buffer = kept.setdefault((output.shape, output.dtype), np.empty_like(output))
        buffer[...] = output
        return buffer

    return kernel


def output_is_widened(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Returns fp64 whatever came in."""
    return attend(query, key, value, mask)[0].astype(np.float64)


def random_state_is_seeded(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Seeds numpy's global generator."""
    np.random.seed(0)  # noqa: NPY002 - the fault
    return attend(query, key, value, mask)
