"""Faults of reading and writing: memory, batch, heads, keys, queries and columns that are lost, doubled or exchanged."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ..stages import Call, Stages, group
from .fault import Fault, Variants, each, of, one, where
from .storage import elements_of, read_as_dense

NAMES = ("query", "key", "value")
BLOCKS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


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


def _prepared(change: Callable[[Call, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]) -> Stages:
    return {"prepare": change}


def _spread(change: Callable[[Call, Tensor], Tensor]) -> Stages:
    return {"spread": change}


def _one_changed(position: int, change: Callable[[Tensor], Tensor]) -> Stages:
    """Query (0), key (1) or value (2) is changed."""

    def stage(call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        return (*tensors[:position], change(tensors[position]), *tensors[position + 1 :])

    return {"prepare": stage}


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
    return _spread(lambda call, output: output.roll(step, axis))


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
        lambda call: (_spread(lambda c, output: _viewed(output)), _spread(lambda c, output: output.reshape(*output.shape[:-3], output.shape[-2], output.shape[-3], output.shape[-1]).transpose(-3, -2))),
        lambda call: not call.module and call.inputs.query.dim() >= 4,
    ),
    Fault(
        "inputs_viewed_not_transposed", "An input of (B, L, H, D) is viewed as (B, H, L, D).", "Transpose it in place of viewing.",
        of(*(_all_changed(chosen, _viewed) for chosen in ((0, 1, 2), (1, 2), (0,), (1,), (2,)))), _has_heads,
    ),
    Fault(
        "axes_of_size_one_squeezed", "Axes of size one are squeezed out of the output.", "Keep every axis.",
        of(_spread(lambda c, output: output.squeeze()), _spread(lambda c, output: output.squeeze(0))), lambda call: not call.module,
    ),
    Fault(
        "head_order_changed", "The heads of the output are in another order.", "Write head h to head h.",
        lambda call: (_spread(lambda c, output: output.flip(-3)), _rolled_heads(1, -3), _rolled_heads(-1, -3)), _has_heads,
    ),
    Fault(
        "heads_meet_other_heads", "The heads of query, key or value do not belong together.", "Let head h meet head h.",
        of(
            *(_one_changed(at, lambda tensor: tensor.flip(-3)) for at in range(3)),
            *(_one_changed(at, lambda tensor: tensor.roll(1, -3)) for at in range(3)),
            *(_one_changed(at, lambda tensor: tensor.roll(-1, -3)) for at in range(3)),
        ), _has_heads,
    ),
    Fault(
        "first_head_for_all", "One head of query, key or value serves all heads.", "Index by head.",
        lambda call: (_one_for_all(role, -3, at) for role in range(3) for at in (0, -1)), _has_heads,
    ),
    Fault(
        "first_sample_for_all", "One batch element serves the whole batch.", "Index by batch element.",
        lambda call: (*(_one_for_all(role, 0, at) for role in range(3) for at in (0, -1)), _spread(lambda c, output: output[:1].expand(output.shape))),
        lambda call: call.case.leading != "",
    ),
    Fault(
        "samples_exchanged", "Batch elements are exchanged.", "Write element b to element b.",
        lambda call: (*(_rolled_heads(step, 0) for step in (1, -1)), _spread(lambda c, output: output.flip(0)), *(_one_changed(at, lambda tensor: tensor.roll(1, 0)) for at in range(3)), *(_one_changed(at, lambda tensor: tensor.roll(-1, 0)) for at in range(3))),
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
        lambda call: (_prepared(lambda c, q, k, v: (q - q.mean(0, keepdim=True), k, v)), _prepared(lambda c, q, k, v: (q, k - k.mean(0, keepdim=True), v))),
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


def _lost(keep: Callable[[Call], Tensor]) -> Stages:
    """Some keys are never attended."""

    def stage(call: Call, scores: Tensor, allowed: Tensor | None) -> Tensor:
        kept = keep(call)
        return scores.masked_fill(~(kept if allowed is None else allowed & kept), -math.inf)

    return {"hide": stage}


def _counted(count: Callable[[Call], Tensor]) -> Stages:
    """Keys count `count` times, fractions included."""
    return {"bias": lambda call, scores: _plain_bias(call, scores) + count(call).double().log()}


def _plain_bias(call: Call, scores: Tensor) -> Tensor:
    added = call("added")
    return scores if added is None else scores + added


def _place(call: Call) -> Tensor:
    return torch.arange(call.keys)


def _without(index: int) -> Stages:
    return _lost(lambda call: _place(call) != index)


def _twice(index: int) -> Stages:
    return _counted(lambda call: 1.0 + (_place(call) == index))


def _mixed(step: int, factor: float) -> Stages:
    return _one_changed(0, lambda query: query + factor * query.roll(step, -2))


def _clipped_value(most: float) -> Stages:
    return _one_changed(2, lambda value: value.clamp(-most, most))


def _clipped_output(most: float) -> Stages:
    return _spread(lambda call, output: output.clamp(-most, most))


def _each_key(call: Call) -> Iterable[Stages]:
    indices = (
        range(call.keys)
        if call.keys <= 48
        else sorted({0, 1, call.keys - 2, call.keys - 1, *BLOCKS, *(b - 1 for b in BLOCKS)})
    )
    return (_without(index) for index in indices if index < call.keys and call.keys > 1)


def _each_key_twice(call: Call) -> Iterable[Stages]:
    indices = range(call.keys) if call.keys <= 48 else (0, call.keys - 1)
    return (_twice(index) for index in indices)


def _sizes(make: Callable[[int], Stages], length: Callable[[Call], int]) -> Variants:
    return lambda call: (make(size) for size in BLOCKS if size < length(call))


def _keys(call: Call) -> int:
    return call.keys


def _queries(call: Call) -> int:
    return call.queries


def _wrapped(size: int, names: tuple[int, ...]) -> Stages:
    def stage(call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(t[..., torch.arange(t.shape[-2]) % size, :] if at in names else t for at, t in enumerate(tensors))

    return {"prepare": stage}


def _shifted_values(start: int) -> Stages:
    def stage(call: Call, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        place = torch.arange(v.shape[-2])
        return q, k, v[..., torch.where(place >= start, place - 1, place).clamp(min=0), :]

    return {"prepare": stage}


def _swapped_values(call: Call, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    order = torch.arange(v.shape[-2])
    order[[0, 1]] = order[[1, 0]]
    return q, k, v[..., order, :]


def _scored_zero(size: int) -> Stages:
    """The last block is padded with scores of 0, whose values are zero."""

    def stage(call: Call, masked: Tensor) -> Tensor:
        missing = -call.keys % size
        padded = torch.nn.functional.pad(masked, (0, missing))
        return torch.softmax(padded, -1)[..., : call.keys]

    return {"normalise": stage}


def _rows(answer: Callable[[Call, Tensor, int], Tensor]) -> Callable[[int], Stages]:
    def make(size: int) -> Stages:
        def stage(call: Call, output: Tensor) -> Tensor:
            late = torch.arange(output.shape[-2])[:, None] >= size
            return torch.where(late, answer(call, output, size), output)

        return {"spread": stage}

    return make


def _tail_rows_zero(size: int) -> Stages:
    return _spread(
        lambda call, output: torch.where(
            torch.arange(output.shape[-2])[:, None] >= output.shape[-2] // size * size, 0.0, output
        )
    )


def _columns(size: int) -> Stages:
    return _spread(lambda call, output: torch.where(torch.arange(output.shape[-1]) >= size, 0.0, output))


KEYS = (
    Fault("last_key_dropped", "The last key is never attended.", "Attend every key.", lambda call: (_lost(lambda c: _place(c) < c.keys - 1),), lambda call: call.keys > 1),
    Fault("first_key_dropped", "The first key is never attended.", "Attend every key.", lambda call: (_lost(lambda c: _place(c) > 0),), lambda call: call.keys > 1),
    Fault("last_key_of_a_block_dropped", "The last key of each block is never attended.", "Attend every key of a block.", _sizes(lambda n: _lost(lambda c: _place(c) % n != n - 1), _keys)),
    Fault("first_key_of_a_block_dropped", "The first key of each later block is never attended.", "Attend every key of a block.", _sizes(lambda n: _lost(lambda c: (_place(c) % n != 0) | (_place(c) == 0)), _keys)),
    Fault("tail_keys_ignored", "The keys after the last whole block are ignored.", "Mask the tail in place of cutting it.", _sizes(lambda n: _lost(lambda c: _place(c) < c.keys // n * n), _keys)),
    Fault("keys_beyond_some_length_ignored", "Keys beyond a fixed length are ignored.", "Loop over every block.", _sizes(lambda n: _lost(lambda c: _place(c) < n), _keys)),
    Fault("only_last_block_attended", "Only the last block of keys is attended.", "Add up over all blocks.", _sizes(lambda n: _lost(lambda c: _place(c) >= (c.keys - 1) // n * n), _keys)),
    Fault("a_key_dropped", "One key is never attended.", "Attend every key.", _each_key),
    Fault("a_key_counted_twice", "One key counts twice.", "Let blocks meet without overlap.", _each_key_twice),
    Fault("last_key_of_a_block_counted_twice", "The last key of each block counts twice.", "Let blocks meet without overlap.", _sizes(lambda n: _counted(lambda c: 1.0 + ((_place(c) % n == n - 1) & (_place(c) < c.keys))), _keys)),
    Fault("tail_block_padding_scored_0", "The padding of the last block scores 0 in place of -inf, and stays in the denominator.", "Hide the padding.", lambda call: (_scored_zero(n) for n in BLOCKS if call.keys % n)),
    Fault("key_index_wraps", "The index of a key (or value) wraps around.", "Use a wider index.", lambda call: (_wrapped(n, names) for names in ((1, 2), (2,), (1,)) for n in (*BLOCKS, *range(3, min(call.keys, 9))) if n < call.keys)),
    Fault("query_index_wraps", "The index of a query wraps around.", "Use a wider index.", lambda call: (_wrapped(n, (0,)) for n in BLOCKS if n < call.queries)),
    Fault("values_shifted", "Values are shifted against their keys.", "Value j belongs to key j.", lambda call: ({"prepare": lambda c, q, k, v: (q, k, v.roll(1, -2))}, {"prepare": lambda c, q, k, v: (q, k, v.roll(-1, -2))}, {"prepare": lambda c, q, k, v: (q, k, v.flip(-2))}, *(_shifted_values(n) for n in BLOCKS if n < call.keys), *(({"prepare": _swapped_values},) if call.keys > 1 else ()))),
    Fault("later_queries_unwritten", "Rows of later queries are left at zero.", "Write every row.", lambda call: (*(_rows(lambda c, o, n: torch.zeros_like(o))(n) for n in BLOCKS if n < call.queries), *(_tail_rows_zero(n) for n in BLOCKS if n < call.queries), *(_rows(lambda c, o, n: torch.zeros_like(o))(n) for n in (call.queries - 1,) if n > 0))),
    Fault("later_queries_repeat_a_row", "Later queries repeat an earlier row.", "Write every row.", lambda call: (_rows(lambda c, o, n: o[..., n - 1 : n, :].expand(o.shape))(n) for n in (*BLOCKS, call.queries - 1) if 0 < n < call.queries)),
    Fault("rows_shifted", "Rows of the output are shifted.", "Row i belongs to query i.", lambda call: (_spread(lambda c, o: o.roll(1, -2)), _spread(lambda c, o: o.roll(-1, -2)), _spread(lambda c, o: o.flip(-2)))),
    Fault("neighbouring_queries_mixed", "A neighbouring query enters the scores.", "Keep rows apart.", of(*(_mixed(step, factor) for step in (1, -1) for factor in (1e-3, 1e-2, 0.1, 1.0)))),
    Fault("later_columns_unwritten", "Columns of the output are left at zero.", "Write all E columns.", lambda call: (_columns(n) for n in {*BLOCKS, call.case.width, call.inputs.value.shape[-1] - 1, call.inputs.value.shape[-1] & ~1} if 0 < n < call.inputs.value.shape[-1]), lambda call: not call.module),
    Fault("output_shaped_like_query", "The output has the query's width in place of the value's.", "Allocate (..., L, E).", lambda call: (_spread(lambda c, o: torch.nn.functional.pad(o, (0, c.case.width - o.shape[-1]))),), lambda call: not call.module),
    Fault("output_transposed", "The output is transposed.", "Return (..., L, E).", lambda call: (_spread(lambda c, o: o.transpose(-2, -1)), _spread(lambda c, o: o.transpose(-3, -2)))),
    Fault("key_viewed_not_transposed", "The key is viewed as (D, S) in place of transposing it.", "Transpose it.", lambda call: ({"product": lambda c, q, k: q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])}, {"product": lambda c, q, k: q @ k})),
    Fault("output_clipped", "Output or value is clipped.", "Return the sum as it is.", of(*map(_clipped_value, (1.0, 5.0, 10.0, 100.0, 1000.0)), _spread(lambda c, o: o.clamp(min=0.0)), *map(_clipped_output, (1.0, 10.0)))),
    Fault("vectors_normalised", "Query or key vectors are normalised or centred.", "Use them as they are.", lambda call: (
        _prepared(lambda c, q, k, v: (q / q.norm(dim=-1, keepdim=True), k, v)), _prepared(lambda c, q, k, v: (q, k / k.norm(dim=-1, keepdim=True), v)),
        _prepared(lambda c, q, k, v: (q / q.norm(dim=-1, keepdim=True), k / k.norm(dim=-1, keepdim=True), v)),
        _prepared(lambda c, q, k, v: (q, k - k.mean(-1, keepdim=True), v)), _prepared(lambda c, q, k, v: (q - q.mean(-1, keepdim=True), k, v)),
    )),
    Fault("first_key_only", "A row attends its best, first or last key alone.", "Weigh all keys.", one(normalise=lambda call, masked: torch.nn.functional.one_hot(masked.argmax(-1), masked.shape[-1]).double())),
)  # fmt: skip

FAULTS: tuple[Fault, ...] = (*MEMORY, *HEADS, *ROLES, *KEYS)
