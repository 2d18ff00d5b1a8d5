"""Where a module keeps its four projections: recognised by name and shape, or given as `parameters=`.

parameters={"query": "W_q", "key": "W_k", "value": "W_v", "output": "W_o"}      names of submodules
parameters={"qkv": "attn.in_proj_weight attn.in_proj_bias", "output": "out"}    tensors by name, packed
parameters={"qkv": "c_attn.T", "output": "c_proj.T"}                            stored transposed, (in, out)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from .errors import UnknownParameters
from .expectations import Structure
from .inputs import ROLES, Drawn

_PACKED = {"qkv": ("query", "key", "value"), "kv": ("key", "value")}

_NAMES: Mapping[str, frozenset[str]] = {
    role: frozenset(words.split())
    for role, words in {
        "query": "q wq w_q q_w qs w_qs q_proj proj_q q_linear linear_q q_lin query queries to_q fc_q query_proj proj_query "
        "query_layer query_projection q_projection query_linear linear_query w_query query_dense toqueries q_net",
        "key": "k wk w_k k_w ks w_ks k_proj proj_k k_linear linear_k k_lin key keys to_k fc_k key_proj proj_key "
        "key_layer key_projection k_projection key_linear linear_key w_key key_dense tokeys k_net",
        "value": "v wv w_v v_w vs w_vs v_proj proj_v v_linear linear_v v_lin value values to_v fc_v value_proj proj_value "
        "value_layer value_projection v_projection value_linear linear_value w_value value_dense tovalues v_net",
        "output": "o wo w_o o_w o_proj proj_o out_proj proj_out out output to_out fc_out fc_o dense proj projection c_proj "
        "linear_out out_lin out_linear o_linear linear_o output_proj output_projection out_projection output_linear "
        "final_linear fc w_out unifyheads output_layer",
        "qkv": "qkv in_proj to_qkv c_attn wqkv w_qkv qkv_proj proj_qkv qkv_linear query_key_value in_projection attn_qkv",
        "kv": "kv to_kv kv_proj wkv w_kv kv_linear c_kv key_value",
    }.items()
}


@dataclass(frozen=True)
class Slot:
    """One matrix or vector inside a parameter: rows `part` of `parts` along the output axis, stored (out, in) or
    `transposed`; `head` counts heads where each has a parameter of its own."""

    name: str
    part: int = 0
    parts: int = 1
    transposed: bool = False

    def of(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the view as (out, in) or (out,)."""
        tensor = tensors[self.name]
        if tensor.dim() > 2:
            tensor = tensor.flatten(1)
        if self.transposed and tensor.dim() == 2:
            tensor = tensor.T
        return tensor.chunk(self.parts)[self.part] if self.parts > 1 else tensor


@dataclass(frozen=True)
class Layout:
    """The slots of each role, one per head where heads are separate; a role without bias has no entry in `biases`."""

    weights: Mapping[str, tuple[Slot, ...]]
    biases: Mapping[str, tuple[Slot, ...]]
    structure: Structure

    def write(self, module: nn.Module, drawn: Drawn) -> None:
        """Put the drawn parameters into the module."""
        tensors: dict[str, Tensor] = {**dict(module.named_buffers()), **dict(module.named_parameters())}
        with torch.no_grad():
            for role in ROLES:
                source = drawn.head if self.structure.shared and role != "output" else drawn.full
                by_column = role == "output" and len(self.weights[role]) > 1
                _copy(source[role], self.weights[role], tensors, by_column)
                if role in self.biases:
                    _copy(drawn.bias[role], self.biases[role], tensors, by_column=False)

    def gather(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return `query.weight`, `query.bias` ... of a mapping from parameter names to tensors (gradients, say)."""
        result = {}
        for kind, table in (("weight", self.weights), ("bias", self.biases)):
            for role, slots in table.items():
                result[f"{role}.{kind}"] = torch.cat([slot.of(tensors) for slot in slots])
        return result

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters that hold the projections."""
        slots = [slot for table in (self.weights, self.biases) for group in table.values() for slot in group]
        return tuple(dict.fromkeys(slot.name for slot in slots))


def _copy(source: Tensor, slots: tuple[Slot, ...], tensors: Mapping[str, Tensor], by_column: bool) -> None:
    for slot, piece in zip(slots, source.chunk(len(slots), 1 if by_column else 0), strict=True):
        target = slot.of(tensors)
        target.copy_(piece.reshape(target.shape))


def recognise(module: nn.Module, d_model: int, heads: int, given: Mapping[str, str] | None = None) -> Layout:
    """Return where the projections of `module` are.

    Raises UnknownParameters, with the names and shapes found and the line to write, when a role is missing, occurs
    twice, or has a shape that fits neither d_model nor the width of a head.
    """
    tensors: dict[str, Tensor] = {**dict(module.named_parameters())} or {**dict(module.named_buffers())}
    found = _given(tensors, given) if given is not None else _by_name(tensors)
    try:
        return _layout(found, tensors, d_model, heads)
    except _Unfit as problem:
        raise UnknownParameters(_explain(str(problem), tensors)) from None


class _Unfit(Exception):
    pass


def _explain(problem: str, tensors: Mapping[str, Tensor]) -> str:
    names = "\n".join(f"    {name} {tuple(tensor.shape)}" for name, tensor in tensors.items()) or "    (none)"
    return (
        f"the projections of the module were not recognised: {problem}.\nIts parameters are:\n{names}\n"
        'Say where they are, for example parameters={"query": "W_q", "key": "W_k", "value": "W_v", "output": "W_o"}, '
        'with "qkv" for a packed one and ".T" after a name that is stored as (in, out).'
    )


def _given(tensors: Mapping[str, Tensor], given: Mapping[str, str]) -> dict[str, list[tuple[str, bool]]]:
    found: dict[str, list[tuple[str, bool]]] = {}
    for role, text in given.items():
        if role not in (*ROLES, *_PACKED):
            raise UnknownParameters(
                f"parameters= knows no role {role!r}; the roles are {', '.join((*ROLES, *_PACKED))}"
            )
        for name in text.split():
            stored = name.removesuffix(".T")
            hits = [
                full
                for full in tensors
                if full == stored or re.fullmatch(re.escape(stored) + r"\.(weight|bias|\d+\.(weight|bias))", full)
            ]
            if not hits:
                raise UnknownParameters(
                    _explain(f"parameters= names {stored!r} for the {role}, which is not there", tensors)
                )
            found.setdefault(role, []).extend((hit, name.endswith(".T")) for hit in hits)
    return found


def _by_name(tensors: Mapping[str, Tensor]) -> dict[str, list[tuple[str, bool]]]:
    found: dict[str, list[tuple[str, bool]]] = {}
    for name in tensors:
        role = _role(name)
        if role is not None:
            found.setdefault(role, []).append((name, False))
    if "output" in found and len({_stem(name) for name, _ in found["output"]}) > 1:
        found["output"] = _innermost(found["output"])
    return found


def _role(name: str) -> str | None:
    """Return the role whose word comes last among the parts of a parameter's name."""
    for part in reversed(_stem(name).split(".")):
        word = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", part).lower().strip("_")
        for role, words in _NAMES.items():
            if word in words or word.replace("_", "") in words:
                return role
    return None


def _stem(name: str) -> str:
    return re.sub(r"[._](weight|bias|kernel)$", "", name)


def _innermost(names: list[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Prefer an explicit word such as `out_proj` over a general one such as `fc` or `proj`."""
    general = ("fc", "proj", "projection", "dense", "o", "out", "output")
    specific = [entry for entry in names if _stem(entry[0]).split(".")[-1].lower() not in general]
    return specific or names


def _is_bias(name: str, tensor: Tensor) -> bool:
    return tensor.dim() == 1 or name.endswith("bias")


def _layout(
    found: Mapping[str, list[tuple[str, bool]]], tensors: Mapping[str, Tensor], d_model: int, heads: int
) -> Layout:
    weights: dict[str, tuple[Slot, ...]] = {}
    biases: dict[str, tuple[Slot, ...]] = {}
    for role, entries in found.items():
        covered = _PACKED.get(role, (role,))
        for position, single in enumerate(covered):
            slots = [(name, turned) for name, turned in entries if not _is_bias(name, tensors[name])]
            if slots:
                weights[single] = _weight_slots(slots, tensors, position, len(covered), d_model, heads)
            vectors = [name for name, _ in entries if _is_bias(name, tensors[name])]
            if vectors:
                biases[single] = tuple(Slot(name, position, len(covered)) for name in vectors)
    missing = [role for role in ROLES if role not in weights]
    if missing:
        raise _Unfit(f"nothing was found for {', '.join(missing)}")
    return Layout(weights, biases, Structure(_is_shared(weights, tensors, d_model, heads), frozenset(biases)))


def _weight_slots(
    entries: list[tuple[str, bool]], tensors: Mapping[str, Tensor], position: int, parts: int, d_model: int, heads: int
) -> tuple[Slot, ...]:
    slots = []
    for name, turned in entries:
        shape = tuple(tensors[name].flatten(1).shape)
        transposed = turned or (parts > 1 and shape == (d_model, parts * d_model))
        slots.append(Slot(name, position, parts, transposed))
        rows = Slot(name, position, parts, transposed).of(tensors).shape[0] * len(entries)
        if rows not in (d_model, d_model // heads):
            raise _Unfit(f"{name} has shape {shape}, which fits neither d_model {d_model} nor {heads} heads of it")
    if len(slots) not in (1, heads):
        raise _Unfit(f"{len(slots)} parameters look alike ({', '.join(slot.name for slot in slots)})")
    return tuple(slots)


def _is_shared(
    weights: Mapping[str, tuple[Slot, ...]], tensors: Mapping[str, Tensor], d_model: int, heads: int
) -> bool:
    width = d_model // heads
    shapes = {
        tuple(slots[0].of(tensors).shape) for role, slots in weights.items() if role != "output" and len(slots) == 1
    }
    return shapes == {(width, width)} and heads > 1
