"""Golden vectors as tensors: the inputs that are sent and what is compared, and whom a vector applies to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from ..cases.case import Case, Mask
from ..cases.inputs import ROLES, Drawn, Inputs
from ..dtypes import torch_dtype
from ..fitting import Excluded, fit
from ..implementation import Implementation
from ..oracle.expectations import Near, Structure, scale_of
from . import files as goldens
from .files import Array, Golden

MUST = "must agree"

_BECAUSE = {
    "leading": "layout", "width": "widths", "value_width": "value_width", "queries": "inputs", "keys": "inputs",
    "shared": "inputs",
}  # fmt: skip
"""The capability for which a case is changed in each of its fields."""


@dataclass(frozen=True)
class Suited:
    """The vectors that an implementation is held to in one dtype, each as the case that it gets, and how many others
    there are for each capability that rules them out. Those that `may differ` are asked of nobody."""

    vectors: tuple[tuple[Golden, Case], ...]
    reasons: Mapping[str, int]


def counted(judged: int, others: Mapping[str, int]) -> str:
    """Return how many of how many vectors are judged, and for which capabilities the others are not."""
    told = ", ".join(f"{count} for {reason}" for reason, count in others.items())
    left = f"; not applicable: {told}" if told else ""
    return f"{judged} of {judged + sum(others.values())} golden vectors judged{left}"


@lru_cache(maxsize=32)
def suited(implementation: Implementation, dtype: str) -> Suited:
    """Return which vectors of its reference an implementation is held to."""
    chosen: list[tuple[Golden, Case]] = []
    reasons: dict[str, int] = {}
    for vector in goldens.read(implementation.reference.name):
        if vector.agreement != MUST:
            continue
        found = _fitted(vector, implementation, dtype)
        if isinstance(found, Case):
            chosen.append((vector, found))
        else:
            reasons[found] = reasons.get(found, 0) + 1
    return Suited(tuple(chosen), reasons)


def _fitted(vector: Golden, implementation: Implementation, dtype: str) -> Case | str:
    """Return the case of a vector as this implementation gets it, or the capability for which it does not."""
    own = implementation.capabilities
    if dtype not in vector.dtypes:
        return f"dtype={dtype!r}"
    case = case_of(vector)
    if own.inputs == "self" and _is_self(vector):
        case = replace(case, shared="qkv")
    if (own.causal or "").startswith("always"):
        return f"causal={own.causal!r}"
    for name in ("empty_row", "no_keys"):
        if name in vector.conventions and getattr(own, name) != vector.conventions[name]:
            return f"{name}={getattr(own, name)!r}"
    if scale_of(own.scale, case) != scale_of(vector.conventions["scale"], case):
        return f"scale={own.scale!r}"
    if case.mask is not None and case.mask.axes == "S" and own.mask_shapes == "broadcast":
        # Well-known kernels refuse it: MASK-013 asks, in the thorough tier.
        return "a mask of one axis"
    fitted = fit(case, implementation)
    if isinstance(fitted, Excluded):
        return fitted.capability
    for field, capability in _BECAUSE.items():
        if getattr(fitted, field) != getattr(case, field):
            return f"{capability}={getattr(own, capability)!r}"
    return fitted


def _is_self(vector: Golden) -> bool:
    return vector.inputs["query"] == vector.inputs["key"] == vector.inputs["value"]


def is_carried_by(vector: Golden, structure: Structure) -> str | None:
    """Return why a module of this structure cannot carry the parameters of a vector, or None if it can."""
    wanted = {role for role in ROLES if any(_values(vector, f"{role}.bias"))}
    shared = len(vector.parameters["query.weight"].values) != len(vector.parameters["output.weight"].values)
    if vector.heads > 1 and shared != structure.shared:
        return f"projections {'shared by' if structure.shared else 'of each of'} the heads"
    if structure.kv_heads is not None:
        return "key and value projections of fewer heads"
    if not structure.output:
        return "no output projection"
    if wanted - structure.biases:
        return f"no bias of the {sorted(wanted - structure.biases)[0]}"
    return None


def _values(vector: Golden, name: str) -> tuple[float, ...]:
    return vector.parameters[name].values if name in vector.parameters else ()


@lru_cache(maxsize=1024)
def _case(identifier: str) -> Case:
    vector = goldens.get(identifier)
    name, mask, module = f"{identifier}: {vector.title}", _mask(vector), bool(vector.parameters)
    shapes = {role: array.shape for role, array in vector.inputs.items()}
    queries, keys, width, value_width = shapes["query"][-2], shapes["key"][-2], shapes["query"][-1], shapes["value"][-1]
    if module:
        width = width // vector.heads
        return Case(name, shapes["query"][0], vector.heads, queries, keys, width, width, mask=mask)
    whole = max(shape[:-2] for shape in shapes.values())
    leading = ("", "B", "BH", "GBH")[len(whole)]
    batch = whole[leading.index("B")] if leading else 1
    narrow = tuple(role for role, shape in shapes.items() if shape[:-2] != whole)
    return Case(
        name, batch, vector.heads, queries, keys, width, value_width, leading=leading, mask=mask, broadcast=narrow
    )


def case_of(vector: Golden) -> Case:
    """Return sizes and mask of a vector as a case that carries its id."""
    return _case(vector.id)


def vector_of(case: Case) -> Golden | None:
    """Return the vector whose case this is, or None for any other case."""
    identifier = case.name.partition(":")[0]
    known = any(entry["id"] == identifier for entry in goldens.index())
    return goldens.get(identifier) if known and case.name == _case(identifier).name else None


def _mask(vector: Golden) -> Mask | None:
    """Return the mask as a case tells it; whoever draws the case again gets a mask of the same kind."""
    mask = vector.mask
    if mask is None:
        return None
    if mask.form == "lengths":
        return Mask("padding", "B11S", (mask.form, *mask.same_as))
    content = "empty row" if "empty_row" in vector.conventions else "random"
    values = set(mask.array.values)
    kinds = {"odd": {256.0, -1.0}, "fractions": {0.25, -2.0, 1.5}}
    numbers = next((kind for kind, some in kinds.items() if mask.form == "number" and values & some), "int")
    finite = mask.form == "additive" and bool(values - {0.0, float("-inf")})
    return Mask(content, mask.axes or "LS", (mask.form, *mask.same_as), numbers, finite)


def inputs_of(vector: Golden, case: Case, dtype: str) -> Inputs:
    """Return the tensors of a vector; they are shared, and nobody writes to them."""
    return _inputs(vector.id, case, dtype)


@lru_cache(maxsize=1024)
def _inputs(identifier: str, case: Case, dtype: str) -> Inputs:
    vector = goldens.get(identifier)
    made = {name: tensor(array, dtype) for name, array in vector.inputs.items()}
    if case.shared == "qkv":
        made["key"] = made["value"] = made["query"]
    allowed, finite = _allowed(vector, case)
    weights = vector.expected.get("weights")
    blank = torch.zeros(weights.array.shape if weights else (1,), dtype=torch_dtype(dtype))
    parameters = _drawn(vector, dtype) if vector.parameters else None
    return Inputs(
        case, dtype, made["query"], made["key"], made["value"], allowed,
        None if finite is None else finite.to(torch_dtype(dtype)), None, tensor(vector.upstream, dtype), blank, parameters,
    )  # fmt: skip


def tensor(array: Array, dtype: str) -> Tensor:
    """Return the numbers as a tensor; the inputs of a vector are exact in every dtype."""
    return torch.tensor(array.values, dtype=torch.float64).reshape(array.shape).to(torch_dtype(dtype))


def _allowed(vector: Golden, case: Case) -> tuple[Tensor | None, Tensor | None]:
    """Return what may be attended to, (b, h, l, s), and the finite values of an additive mask."""
    mask = vector.mask
    if mask is None or case.mask is None:
        return None, None
    written = torch.tensor(mask.array.values, dtype=torch.float64).reshape(mask.array.shape)
    if mask.form == "lengths":
        return torch.arange(case.keys) < written[:, None, None, None], None
    written = written.reshape(*[1] * (4 - written.dim()), *written.shape)
    if mask.form != "additive":
        return written != 0, None
    allowed = written != float("-inf")
    return allowed, torch.where(allowed, written, 0.0) if case.mask.finite else None


def _drawn(vector: Golden, dtype: str) -> Drawn:
    """Return the parameters by role, zeros for a bias that the reference does not have."""
    weights = {role: tensor(vector.parameters[f"{role}.weight"], dtype) for role in ROLES}
    zero = torch.zeros(weights["output"].shape[0], dtype=torch_dtype(dtype))
    bias = {
        role: tensor(vector.parameters[name], dtype) if (name := f"{role}.bias") in vector.parameters else zero
        for role in ROLES
    }
    return Drawn(weights, weights, bias)


@lru_cache(maxsize=8192)
def near(identifier: str, name: str, dtype: str, precision: str) -> Near:
    """Return an expected result of a vector (`output`, `weights` or `gradient of ...`) with its allowances."""
    vector = goldens.get(identifier)
    found = vector.expected.get(name) or vector.gradients[name.removeprefix("gradient of ")]
    value = tensor(found.array, "fp64")
    allowed = torch.tensor(found.allowed(dtype, precision), dtype=torch.float64)
    return Near(value, allowed.reshape(value.shape))
