"""Tensors of a case, in canonical form and in the working dtype."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..dtypes import is_half, torch_dtype
from . import masks, values
from .case import Case

TENSORS = ("query", "key", "value", "allowed", "finite", "bias", "upstream", "upstream_weights")
"""The fields of `Inputs` that are tensors, or None."""

ROLES = ("query", "key", "value", "output")
"""The four projections of a module."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Parameters before they are fitted to a module: per role a full weight (M, M), a head-wide weight (D, D) that
    modules with shared projections use instead, and a bias (M)."""

    full: Mapping[str, Tensor]
    head: Mapping[str, Tensor]
    bias: Mapping[str, Tensor]


@dataclass(frozen=True)
class Inputs:
    """What is sent, in canonical form.

    Kernels: query (..., L, D), key (..., S, D), value (..., S, E). Modules: (B, L, M), (B, S, M), (B, S, M) with
    M = H * D. `allowed` (b, h, l, s) is boolean, True = attend, size 1 where the mask does not vary; `finite` are
    finite additive values of that shape; `bias` broadcasts to (B, H, L, S). `upstream` is the gradient of the output,
    `upstream_weights` (B, H, L, S) that of the weights. `edits` are lines of Python that repeat a rule's changes.
    """

    case: Case
    dtype: str
    query: Tensor
    key: Tensor
    value: Tensor
    allowed: Tensor | None
    finite: Tensor | None
    bias: Tensor | None
    upstream: Tensor
    upstream_weights: Tensor
    parameters: Drawn | None

    def changed(self, **tensors: Any) -> Inputs:
        """Return a copy with other tensors."""
        return replace(self, **tensors)

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of B, H, L and S."""
        case = self.case
        return {"B": case.batch, "H": case.heads, "L": self.query.shape[-2], "S": self.key.shape[-2]}


def digest_of(inputs: Inputs) -> bytes:
    """Return a digest of everything that the tensors of some inputs hold, and of their shapes."""
    drawn = inputs.parameters
    tables = () if drawn is None else (drawn.full, drawn.head, drawn.bias)
    tensors = [getattr(inputs, name) for name in TENSORS] + [table[role] for table in tables for role in ROLES]
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        if tensor is None:
            digest.update(b"none")
            continue
        digest.update(f"{tuple(tensor.shape)} {tensor.dtype}".encode())
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest.digest()


def seed_of(case: Case) -> int:
    """Return the seed of a case: its own, the run's, and a checksum of its name, so that no two share tensors."""
    return (zlib.crc32(case.name.encode()) + 7919 * case.seed + 104_729 * case.draw) % 2**31


def parameter_seed(case: Case) -> int:
    """Return the seed of a module's parameters, the same for every case of these heads in one run."""
    return (case.heads * 1000 + case.width + 104_729 * case.draw) % 2**31


def shapes_of(case: Case, module: bool) -> values.Shapes:
    """Return the canonical shapes of query, key and value."""
    if module:
        model = case.heads * case.width
        return values.Shapes(
            (case.batch, case.queries, model), (case.batch, case.keys, model), (case.batch, case.keys, model)
        )
    sizes = {"G": 3, "B": case.batch, "H": case.heads}
    own = {"query": case.heads, "key": case.kv_heads or case.heads, "value": case.kv_heads or case.heads}
    lead = {
        name: tuple(1 if name in case.broadcast else own[name] if axis == "H" else sizes[axis] for axis in case.leading)
        for name in own
    }
    return values.Shapes(
        (*lead["query"], case.queries, case.width),
        (*lead["key"], case.keys, case.width),
        (*lead["value"], case.keys, case.value_width),
    )


@lru_cache(maxsize=4096)
def make(case: Case, module: bool, dtype: str) -> Inputs:
    """Return the tensors of a case. They are shared between implementations: nobody writes to them."""
    generator = torch.Generator().manual_seed(seed_of(case))
    shapes = shapes_of(case, module)
    drawn = _attention_values(case, shapes, module, dtype, generator)
    query, key, value = (tensor.to(torch_dtype(dtype)) for tensor in drawn)
    if case.shared:
        key, value = (query, query) if case.shared == "qkv" else (key, key)
    allowed, finite, bias = _masks(case, dtype, generator)
    lead = _lead(case, shapes)
    upstream = _normal((*lead, case.queries, shapes.value[-1]), generator)
    weight_lead = (case.batch, case.heads) if module else lead
    upstream_weights = _normal((*weight_lead, case.queries, case.keys), generator)
    identity = case.values in values.AS_THEY_ARE
    parameters = _parameters(case.heads, case.width, parameter_seed(case), identity, dtype) if module else None
    return Inputs(
        case, dtype, query, key, value, allowed, finite, bias,
        _rounded(upstream, dtype), _rounded(upstream_weights, dtype), parameters,
    )  # fmt: skip


def _masks(case: Case, dtype: str, generator: torch.Generator) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the boolean mask, the finite values of an additive one, and the bias."""
    sizes = {"B": case.batch, "H": case.heads, "L": case.queries, "S": case.keys}
    allowed = None if case.mask is None else masks.draw(case.mask, sizes, generator)
    finite = bias = None
    if case.mask is not None and case.mask.finite and allowed is not None:
        finite = _rounded(_normal(tuple(allowed.shape), generator), dtype)
    if case.bias is not None:
        bias = _rounded(_normal(tuple(sizes.get(letter, 1) for letter in case.bias), generator), dtype)
    return allowed, finite, bias


def _lead(case: Case, shapes: values.Shapes) -> tuple[int, ...]:
    if case.kv_heads or not case.broadcast:
        return shapes.query[:-2]
    # torch.broadcast_shapes imports sympy, which takes a quarter of a second.
    return np.broadcast_shapes(shapes.query[:-2], shapes.key[:-2], shapes.value[:-2])


def _attention_values(
    case: Case, shapes: values.Shapes, module: bool, dtype: str, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor]:
    if not module or case.values not in values.AS_THEY_ARE:
        return values.draw(case.values, shapes, generator, is_half(dtype))
    # Built families are made per head and merged; with identity projections the heads see them unchanged.
    heads = (case.batch, case.heads)
    per_head = values.Shapes(
        (*heads, case.queries, case.width), (*heads, case.keys, case.width), (*heads, case.keys, case.width)
    )
    parts = values.draw(case.values, per_head, generator, is_half(dtype))
    query, key, value = (part.transpose(1, 2).flatten(2) for part in parts)
    return query, key, value


def _rounded(tensor: Tensor, dtype: str) -> Tensor:
    return tensor.to(torch_dtype(dtype))


@lru_cache(maxsize=256)
def _parameters(heads: int, width: int, seed: int, identity: bool, dtype: str) -> Drawn:
    """Return the parameters for a module of these heads, the same for every case of theirs."""
    model, generator = heads * width, torch.Generator().manual_seed(seed)
    if identity:
        full = {role: torch.eye(model, dtype=torch.float64) for role in ROLES}
        head = {role: torch.eye(width, dtype=torch.float64) for role in ROLES}
        bias = {role: torch.zeros(model, dtype=torch.float64) for role in ROLES}
        return Drawn(_all(full, dtype), _all(head, dtype), _all(bias, dtype))
    full = {role: _normal((model, model), generator) * model**-0.5 for role in ROLES}
    head = {role: _normal((width, width), generator) * width**-0.5 for role in ROLES}
    bias = {role: 0.5 * _normal((model,), generator) for role in ROLES}
    return Drawn(_all(full, dtype), _all(head, dtype), _all(bias, dtype))


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _all(tensors: Mapping[str, Tensor], dtype: str) -> dict[str, Tensor]:
    return {role: _rounded(tensor, dtype) for role, tensor in tensors.items()}
