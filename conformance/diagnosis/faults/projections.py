"""Faults of what a module adds to a kernel: projections, and the split and merge of heads."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...oracle.expectations import merge_heads, split_heads
from ..stages import Call, Stages, project, split
from .fault import Fault, Variants, of, one, where

THREE = ("query", "key", "value")
_BIASED = ("query", "value")
"""The bias of the key adds the same to every score of a row, which the softmax does not see."""


def _by(weights: Callable[[str], str], biases: Callable[[str], str] | None = None) -> Stages:
    """Each role is projected by the weights (and biases) of another."""

    def stage(call: Call, role: str, tensor: Tensor) -> Tensor:
        bias = call.leaves.get(f"{(biases or weights)(role)}.bias")
        result = tensor @ call.leaves[f"{weights(role)}.weight"].T
        return result if bias is None else result + bias

    return {"project": stage}


def _exchanged(first: str, second: str) -> Stages:
    return _by(lambda role: second if role == first else first if role == second else role)


def _by_another(role: str, other: str) -> tuple[Stages, ...]:
    """Weights and bias, the weights, or the bias of a role are those of another."""

    def turned(name: str) -> str:
        return other if name == role else name

    def own(name: str) -> str:
        return name

    return _by(turned), _by(turned, own), _by(own, turned)


def _from(role: str, source: str) -> Stages:
    """A role is projected from the input of another."""
    return {"read": lambda call, name: call.leaves[source if name == role else name]}


def _bias(role: str, times: float) -> Stages:
    def stage(call: Call, name: str, tensor: Tensor) -> Tensor:
        result = project(call, name, tensor)
        own = call.leaves.get(f"{name}.bias")
        return result if name != role or own is None else result + (times - 1) * own

    return {"project": stage}


def _output_bias(times: Callable[[Call], float]) -> Stages:
    def stage(call: Call, merged: Tensor) -> Tensor:
        own = call.leaves.get("output.bias")
        result = project(call, "output", merged)
        return result if own is None else result + (times(call) - 1) * own

    return {"finish": stage}


def _turned(role: str) -> Stages:
    if role == "output":
        return {"finish": lambda call, merged: _turned_linear(call, "output", merged)}
    return {
        "project": lambda call, name, tensor: (
            _turned_linear(call, name, tensor) if name == role else project(call, name, tensor)
        )
    }


def _turned_linear(call: Call, role: str, tensor: Tensor) -> Tensor:
    result = tensor @ call.leaves[f"{role}.weight"]
    bias = call.leaves.get(f"{role}.bias")
    return result if bias is None else result + bias


def _skipped(role: str) -> Stages:
    if role == "output":
        return {"finish": lambda call, merged: merged}
    return {"project": lambda call, name, tensor: tensor if name == role else project(call, name, tensor)}


def _viewed(tensor: Tensor, heads: int) -> Tensor:
    """(B, L, M) reshaped to (B, H, L, D) without a transpose."""
    return tensor.reshape(tensor.shape[0], heads, tensor.shape[1], -1)


def _strided(tensor: Tensor, heads: int) -> Tensor:
    """Head h gets every H-th component."""
    width = tensor.shape[-1] // heads
    split_: Tensor = tensor.unflatten(-1, (width, heads))
    return split_.permute(0, 3, 1, 2)


def _splitting(how: Callable[[Tensor, int], Tensor], roles: tuple[str, ...]) -> Stages:
    return {
        "split": lambda call, role, tensor: how(tensor, call.case.heads) if role in roles else split(call, role, tensor)
    }


def _merged_by_view(call: Call, output: Tensor) -> Tensor:
    return output.reshape(output.shape[0], output.shape[2], -1)


def _interleaved(output: Tensor) -> Tensor:
    return output.permute(0, 2, 3, 1).flatten(2)


def _splits(how: Callable[[Tensor, int], Tensor]) -> Variants:
    return lambda call: (
        _splitting(how, roles) for roles in (THREE, ("key", "value"), ("query",), ("key",), ("value",))
    )


def _activated(function: Callable[[Tensor], Tensor]) -> Stages:
    return {"project": lambda call, role, tensor: function(project(call, role, tensor))}


def _unscaled_bias(call: Call, query: Tensor, key: Tensor) -> Tensor:
    """The bias of the query is added after the query was scaled."""
    own = call.leaves.get("query.bias")
    if own is None:
        return query @ key.transpose(-2, -1)
    bias = split_heads(own.expand(1, 1, -1), call.case.heads)
    more = float(1 / call("scale") - 1)
    return (query + bias * more) @ key.transpose(-2, -1)


def _groups_tiled(call: Call, role: str, tensor: Tensor) -> Tensor:
    """The key and value heads of a module with fewer of them, repeated as a whole."""
    heads, kv_heads = split(call, role, tensor), call.setting.structure.kv_heads
    if role == "query" or kv_heads is None:
        return heads
    repeats = call.case.heads // kv_heads
    return heads[:, ::repeats].repeat(1, repeats, 1, 1)


def _packed(cut: Callable[[Tensor, int], Tensor]) -> Stages:
    """Rows of query, key and value (3, H, D, ...) are packed into one parameter and cut out of it otherwise."""

    def stage(call: Call, role: str, tensor: Tensor) -> Tensor:
        named = {kind: [f"{name}.{kind}" for name in THREE] for kind in ("weight", "bias")}
        found = {
            kind: _cut_out(cut, torch.stack([call.leaves[name] for name in names]), call.case.heads, role)
            for kind, names in named.items()
            if all(name in call.leaves for name in names)
        }
        result = tensor @ found["weight"].T
        return result + found["bias"] if "bias" in found else result

    return {"project": stage}


def _cut_out(cut: Callable[[Tensor, int], Tensor], rows: Tensor, heads: int, role: str) -> Tensor:
    split_: Tensor = rows.unflatten(1, (heads, -1))
    return cut(split_, THREE.index(role)).flatten(0, 1)


def _by_head(rows: Tensor, place: int) -> Tensor:
    """Cut blocks as if they were packed head by head."""
    cut: Tensor = rows.flatten(0, 2).unflatten(0, (rows.shape[1], 3, -1))
    return cut[:, place]


def _by_block(rows: Tensor, place: int) -> Tensor:
    """Cut rows that are packed head by head as if they were blocks."""
    cut: Tensor = rows.transpose(0, 1).flatten(0, 2).unflatten(0, (3, rows.shape[1], -1))
    return cut[place]


FAULTS = where(
    lambda call: call.module,
    Fault("heads_merged_by_view", "Heads are merged by a view: (B, H, L, D) is reshaped without moving the head axis back.", "Transpose to (B, L, H, D) before the reshape.", one(merge=_merged_by_view)),
    Fault("heads_split_by_view", "Heads are split by a view: (B, L, M) is reshaped to (B, H, L, D) without a transpose.", "Reshape to (B, L, H, D), then transpose.", _splits(_viewed)),
    Fault("heads_interleaved", "Heads are strided features in place of consecutive ones, on the way in, out, or both.", "Head h is features h D to (h + 1) D.", lambda call: (
        {**_splitting(_strided, THREE), "merge": lambda c, o: _interleaved(o)}, {"merge": lambda c, o: _interleaved(o)}, *_splits(_strided)(call),
    )),
    Fault("head_order_reversed_at_merge", "Heads are merged in another order.", "Merge them in the order of the split.", lambda call: ({"merge": lambda c, o: merge_heads(o.flip(1))}, {"merge": lambda c, o: merge_heads(o.roll(1, 1))})),
    Fault("query_and_key_weights_exchanged", "The weights of query and key projection are exchanged.", "Project each by its own weights.", lambda call: (_exchanged("query", "key"),)),
    Fault("key_and_value_weights_exchanged", "The weights of key and value projection are exchanged.", "Project each by its own weights.", lambda call: (_exchanged("key", "value"),)),
    Fault("query_and_value_weights_exchanged", "The weights of query and value projection are exchanged.", "Project each by its own weights.", lambda call: (_exchanged("query", "value"),)),
    Fault("packed_rows_in_wrong_order", "The packed projection is cut in another order.", "Cut it into query, key and value.", lambda call: (_by(lambda r: {"query": "key", "key": "value", "value": "query"}.get(r, r)), _by(lambda r: {"query": "value", "key": "query", "value": "key"}.get(r, r)))),
    Fault("packed_rows_cut_per_head", "The packed projection is cut head by head where its rows are blocks, or the other way round.", "Cut it as it is stored, or declare how that is, as parameters={'qkv': '... by head'}.", lambda call: (_packed(_by_head), _packed(_by_block)), lambda call: call.case.heads > 1 and call.setting.structure.kv_heads is None),
    Fault("projected_groups_tiled", "Key and value heads are repeated 0, 1, 0, 1.", "Share consecutively, 0, 0, 1, 1: use repeat_interleave.", one(split=_groups_tiled), lambda call: call.setting.structure.kv_heads not in (None, 1)),
    *(Fault(f"{role}_projected_by_{other}_weights", f"The {role} is projected by the weights of the {other}.", "Project each by its own weights.", of(*_by_another(role, other))) for role in THREE for other in THREE if role != other),
    *(Fault(f"{role}_projected_from_{other}_input", f"The {role} is projected from the input of the {other}.", "Project each from its own input.", of(_from(role, other))) for role in THREE for other in THREE if role != other),
    Fault("cross_attention_ignores_memory", "Key and value are projected from the query input.", "Project them from their own inputs.", lambda call: ({"read": lambda c, name: c.leaves["query"]},)),
    *(Fault(f"{role}_bias_missing", f"The bias of the {role} projection is left out.", "Add it.", of(_bias(role, 0.0))) for role in _BIASED),
    Fault("output_bias_missing", "The bias of the output projection is left out.", "Add it.", lambda call: (_output_bias(lambda c: 0.0),)),
    Fault("all_biases_missing", "No projection adds its bias.", "Add the biases.", lambda call: ({**_by(lambda r: r, lambda r: "none"), "finish": lambda c, m: m @ c.leaves["output.weight"].T}, _by(lambda r: r, lambda r: "none"))),
    *(Fault(f"{role}_bias_added_twice", f"The bias of the {role} projection is added twice.", "Add it once.", of(_bias(role, 2.0))) for role in _BIASED),
    Fault("output_bias_added_per_head", "The bias of the output is added more than once (once for each head).", "Add it once, after the heads are summed.", lambda call: (_output_bias(lambda c: c.case.heads), _output_bias(lambda c: 2.0))),
    Fault("query_bias_not_scaled", "The query is scaled before its bias is added.", "Scale after the bias.", one(product=_unscaled_bias)),
    *(Fault(f"{role}_projection_transposed", f"The {role} is multiplied by the transpose of its weights.", "Compute x W^T + b.", of(_turned(role))) for role in (*THREE, "output")),
    Fault("all_projections_transposed", "Inputs are multiplied by the transposes of the weights.", "Compute x W^T + b.", lambda call: ({"project": _turned_linear, "finish": lambda c, m: _turned_linear(c, "output", m)}, {"project": _turned_linear})),
    *(Fault(f"{role}_projection_missing", f"The {role} projection is left out.", "Project it.", of(_skipped(role))) for role in (*THREE, "output")),
    Fault("residual_added", "An input is added to the output.", "Return the attention alone.", lambda call: ({"finish": lambda c, m: project(c, "output", m) + c.leaves["query"]}, {"merge": lambda c, o: merge_heads(o) + c.leaves["query"]})),
    Fault("projection_activated", "A nonlinear function follows a projection.", "Keep the projections linear.", lambda call: (_activated(torch.relu), _activated(torch.tanh), _activated(torch.nn.functional.gelu), {"finish": lambda c, m: torch.relu(project(c, "output", m))})),
    Fault("inputs_normalised", "Inputs are normalised before they are projected.", "Project them as they are.", lambda call: (
        {"read": lambda c, n: torch.nn.functional.layer_norm(c.leaves[n], c.leaves[n].shape[-1:]) if n == "query" else c.leaves[n]},
        {"read": lambda c, n: torch.nn.functional.layer_norm(c.leaves[n], c.leaves[n].shape[-1:])},
        {"read": lambda c, n: torch.nn.functional.normalize(c.leaves[n], dim=-1) if n == "query" else c.leaves[n]},
        {"read": lambda c, n: torch.nn.functional.normalize(c.leaves[n], dim=-1)},
    )),
)  # fmt: skip
