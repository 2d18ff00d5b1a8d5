"""Faults of reading and writing: memory, batch, heads, keys, queries and columns that are lost, doubled or exchanged."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import torch
from torch import Tensor

from ..stages import Call, Stages, group
from .changes import one_changed, prepared, spread
from .fault import Fault, Variants, each, of, where
from .storage import elements_of, read_as_dense

NAMES = ("query", "key", "value")


# Memory


def _strided(call: Call) -> bool:
    return call.case.memory != "contiguous"


def _misread(names: tuple[str, ...], how: Callable[[Tensor], Tensor]) -> Stages:
    def stage(call: Call, role: str) -> Tensor:
        if role not in names:
            return call.leaves[role]
        sent: Tensor = getattr(call.delivered, role)
        return how(sent.detach()).double() + call.leaves[role] * 0

    return {"read": stage}


def _dense_if_expanded(tensor: Tensor) -> Tensor:
    """Read where the storage ends before the tensor does: what lies beyond is the storage again, one element on."""
    flat = elements_of(tensor)
    place = torch.arange(tensor.numel()) + tensor.storage_offset()
    return flat[(place + place // flat.numel()) % flat.numel()].reshape(tensor.shape)


def _without_offset(tensor: Tensor) -> Tensor:
    flat = elements_of(tensor)
    return flat.as_strided(tensor.shape, tensor.stride(), 0)


def _last_axis_dense(tensor: Tensor) -> Tensor:
    flat = elements_of(tensor)
    strides = (*tensor.stride()[:-1], 1)
    return flat.as_strided(tensor.shape, strides, tensor.storage_offset())


def _first_stride_only(tensor: Tensor) -> Tensor:
    flat = elements_of(tensor)
    dense = torch.empty(tensor.shape[1:]).stride()
    return flat.as_strided(tensor.shape, (tensor.stride(0), *dense), tensor.storage_offset())


_SUBSETS = [names for count in (3, 1, 2) for names in itertools.combinations(NAMES, count)]


def _misreads(how: Callable[[Tensor], Tensor]) -> Variants:
    return lambda call: (_misread(names, how) for names in _SUBSETS)


MEMORY = where(
    _strided,
    Fault(
        "reads_storage_as_contiguous", "The strides of an input are ignored: it is read as if it were contiguous.",
        "Use its strides, or call contiguous().", lambda call: (*_misreads(read_as_dense)(call), *_misreads(_dense_if_expanded)(call)),
    ),
    Fault(
        "ignores_storage_offset", "An input is read from the start of its storage.", "Add its storage offset.",
        lambda call: (*_misreads(_without_offset)(call), *_misreads(lambda t: read_as_dense(t, offset=False))(call)),
    ),
    Fault(
        "assumes_dense_last_axis", "The stride of the last axis is taken for one.", "Use every stride.", _misreads(_last_axis_dense),
    ),
    Fault(
        "uses_first_stride_only", "Only the first stride is used.", "Use every stride.", _misreads(_first_stride_only),
    ),
)  # fmt: skip


# Heads, batch and axes


def _all_changed(positions: tuple[int, ...], change: Callable[[Tensor], Tensor]) -> Stages:
    def stage(call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(change(tensor) if at in positions else tensor for at, tensor in enumerate(tensors))

    return {"prepare": stage}


def _viewed(tensor: Tensor) -> Tensor:
    """(B, H, L, E) laid out as (B, L, H, E) and viewed as (B, H, L, E)."""
    return tensor.transpose(-3, -2).reshape(tensor.shape)


def _turned(axes: tuple[int, int]) -> Stages:
    """Attention over another axis: it is exchanged with the length on the way in and on the way out."""

    def before(call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.transpose(*axes) for tensor in tensors)

    return {"prepare": before, "spread": lambda call, output: output.transpose(*axes)}


def _rolled_heads(step: int, axis: int) -> Stages:
    return spread(lambda call, output: output.roll(step, axis))


def _tiled(call: Call, role: str, tensor: Tensor) -> Tensor:
    kv = call.case.kv_heads
    if kv is None:
        return tensor
    repeats = [1] * tensor.dim()
    repeats[-3] = call.case.heads // kv
    return tensor.repeat(repeats)


def _tiled_role(chosen: str) -> Stages:
    return {
        "group": lambda call, role, tensor: _tiled(call, role, tensor) if role == chosen else group(call, role, tensor)
    }


def _picked(pick: Callable[[int, int, int], int]) -> Stages:
    """Query head h uses the key head that `pick` names."""

    def stage(call: Call, role: str, tensor: Tensor) -> Tensor:
        kv, heads = call.case.kv_heads, call.case.heads
        if kv is None:
            return tensor
        return tensor[..., [min(pick(head, heads, kv), kv - 1) for head in range(heads)], :, :]

    return {"group": stage}


def _has_heads(call: Call) -> bool:
    return call.module or call.inputs.query.dim() >= 4


HEADS = (
    *where(
        lambda call: call.case.kv_heads is not None,
        Fault("gqa_tiled", "Key and value heads are repeated 0, 1, 0, 1.", "Share consecutively, 0, 0, 1, 1: use repeat_interleave.", lambda call: ({"group": _tiled}, _tiled_role("key"), _tiled_role("value"))),
        Fault("gqa_one_head_for_all", "Every query head uses the same key and value head.", "Query head h uses key head h // (H / Hk).", each(_picked, lambda h, n, k: 0, lambda h, n, k: k - 1)),
        Fault("gqa_group_size_fixed", "The size of a group is fixed, or taken from the wrong count.", "Query head h uses key head h // (H / Hk).", each(_picked, lambda h, n, k: h // 2, lambda h, n, k: h // k, lambda h, n, k: h, lambda h, n, k: k - 1 - h * k // n)),
    ),
    Fault(
        "attends_over_heads", "Attention runs over the heads: (B, L, H, D) is taken for (B, H, L, D).",
        "Transpose before the kernel (or declare the layout).", each(_turned, (-3, -2)), _has_heads,
    ),
    Fault(
        "attends_over_the_batch", "Attention runs over the batch: batch and length are exchanged.", "Declare the layout, or transpose.",
        each(_turned, (0, -2)),
    ),
    Fault(
        "output_heads_viewed_not_transposed", "Output of (B, L, H, E) is viewed as (B, H, L, E).", "Transpose it in place of viewing.",
        lambda call: (spread(lambda c, output: _viewed(output)), spread(lambda c, output: output.reshape(*output.shape[:-3], output.shape[-2], output.shape[-3], output.shape[-1]).transpose(-3, -2))),
        lambda call: not call.module and call.inputs.query.dim() >= 4,
    ),
    Fault(
        "inputs_viewed_not_transposed", "An input of (B, L, H, D) is viewed as (B, H, L, D).", "Transpose it in place of viewing.",
        of(*(_all_changed(chosen, _viewed) for chosen in ((0, 1, 2), (1, 2), (0,), (1,), (2,)))), _has_heads,
    ),
    Fault(
        "axes_of_size_one_squeezed", "Axes of size one are squeezed out of the output.", "Keep every axis.",
        of(spread(lambda c, output: output.squeeze()), spread(lambda c, output: output.squeeze(0))), lambda call: not call.module,
    ),
    Fault(
        "head_order_changed", "The heads of the output are in another order.", "Write head h to head h.",
        lambda call: (spread(lambda c, output: output.flip(-3)), _rolled_heads(1, -3), _rolled_heads(-1, -3)), _has_heads,
    ),
    Fault(
        "heads_meet_other_heads", "The heads of query, key or value do not belong together.", "Let head h meet head h.",
        of(
            *(one_changed(at, lambda tensor: tensor.flip(-3)) for at in range(3)),
            *(one_changed(at, lambda tensor: tensor.roll(1, -3)) for at in range(3)),
            *(one_changed(at, lambda tensor: tensor.roll(-1, -3)) for at in range(3)),
        ), _has_heads,
    ),
    Fault(
        "first_head_for_all", "One head of query, key or value serves all heads.", "Index by head.",
        lambda call: (_one_for_all(role, -3, at) for role in range(3) for at in (0, -1)), _has_heads,
    ),
    Fault(
        "first_sample_for_all", "One batch element serves the whole batch.", "Index by batch element.",
        lambda call: (*(_one_for_all(role, 0, at) for role in range(3) for at in (0, -1)), spread(lambda c, output: output[:1].expand(output.shape))),
        lambda call: call.case.leading != "",
    ),
    Fault(
        "samples_exchanged", "Batch elements are exchanged.", "Write element b to element b.",
        lambda call: (*(_rolled_heads(step, 0) for step in (1, -1)), spread(lambda c, output: output.flip(0)), *(one_changed(at, lambda tensor: tensor.roll(1, 0)) for at in range(3)), *(one_changed(at, lambda tensor: tensor.roll(-1, 0)) for at in range(3))),
        lambda call: call.case.leading != "",
    ),
    Fault(
        "later_samples_unwritten", "Later batch elements are left at zero.", "Write every element.",
        lambda call: (_zeroed(0, size) for size in range(1, 5)), lambda call: call.case.leading != "",
    ),
    Fault(
        "later_heads_unwritten", "Later heads are left at zero.", "Write every head.",
        lambda call: (_zeroed(-3, size) for size in range(1, call.case.heads)), _has_heads,
    ),
    Fault(
        "batch_statistics_mixed_in", "The mean over the batch enters the result.", "Keep batch elements apart.",
        lambda call: (prepared(lambda c, q, k, v: (q - q.mean(0, keepdim=True), k, v)), prepared(lambda c, q, k, v: (q, k - k.mean(0, keepdim=True), v))),
        lambda call: call.case.leading != "" and call.case.batch > 1,
    ),
)  # fmt: skip


def _one_for_all(position: int, axis: int, at: int) -> Stages:
    def stage(call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        chosen = tensors[position]
        fixed = chosen.select(axis, at).unsqueeze(axis).expand(chosen.shape)
        return (*tensors[:position], fixed, *tensors[position + 1 :])

    return {"prepare": stage}


def _zeroed(axis: int, kept: int) -> Stages:
    def stage(call: Call, output: Tensor) -> Tensor:
        place = torch.arange(output.shape[axis])
        shape = [1] * output.dim()
        shape[axis] = -1
        return torch.where(place.reshape(shape) < kept, output, 0.0)

    return {"spread": stage}


# Query, key and value exchanged


def _roles(order: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]) -> Stages:
    return {"prepare": lambda call, query, key, value: order(query, key, value)}


def _rounded(position: int | None, kind: torch.dtype) -> Stages:
    """One input (or each) passes through a narrower dtype."""

    def stage(call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(t.to(kind).double() if position in (None, at) else t for at, t in enumerate(tensors))

    return {"prepare": stage}


_NARROW = (torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)

ROLES = (
    Fault(
        "input_rounded_to_a_narrower_dtype", "Query, key or value passes through a narrower dtype, where it loses digits or overflows.",
        "Keep the working dtype.", of(*(_rounded(position, kind) for position in (2, 0, 1, None) for kind in _NARROW)),
    ),
    Fault(
        "key_and_value_exchanged", "Key and value are exchanged.", "Scores are of query and key, sums of value.",
        lambda call: (_roles(lambda q, k, v: (q, v, k)),),
    ),
    Fault("value_is_the_key", "The key is summed in place of the value.", "Sum the value.", lambda call: (_roles(lambda q, k, v: (q, k, k)),)),
    Fault("key_is_the_value", "The value is compared with the query in place of the key.", "Compare the key.", lambda call: (_roles(lambda q, k, v: (q, v, v)),)),
    Fault("value_is_the_query", "The query is summed in place of the value.", "Sum the value.", lambda call: (_roles(lambda q, k, v: (q, k, q)),)),
    Fault("key_is_the_query", "The query is compared with itself.", "Compare query and key.", lambda call: (_roles(lambda q, k, v: (q, q, v)),)),
    Fault("query_is_the_key", "The key is compared with itself.", "Compare query and key.", lambda call: (_roles(lambda q, k, v: (k, k, v)),)),
    Fault("query_and_key_exchanged", "Query and key are exchanged.", "Rows belong to queries.", lambda call: (_roles(lambda q, k, v: (k, q, v)),)),
    Fault("self_attention_only", "Key and value are ignored: the query attends to itself.", "Use the key and value that were passed.", lambda call: (_roles(lambda q, k, v: (q, q, q)),)),
)  # fmt: skip


# Keys, queries, columns


FAULTS: tuple[Fault, ...] = (*MEMORY, *HEADS, *ROLES)
