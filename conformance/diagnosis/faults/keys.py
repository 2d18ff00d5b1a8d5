"""Faults that lose, double or exchange keys, queries and columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ..stages import Call, Stages
from .changes import BLOCKS, one_changed, prepared, spread
from .fault import Fault, Variants, of, one


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
    return one_changed(0, lambda query: query + factor * query.roll(step, -2))


def _clipped_value(most: float) -> Stages:
    return one_changed(2, lambda value: value.clamp(-most, most))


def _clipped_output(most: float) -> Stages:
    return spread(lambda call, output: output.clamp(-most, most))


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
    return spread(
        lambda call, output: torch.where(
            torch.arange(output.shape[-2])[:, None] >= output.shape[-2] // size * size, 0.0, output
        )
    )


def _columns(size: int) -> Stages:
    return spread(lambda call, output: torch.where(torch.arange(output.shape[-1]) >= size, 0.0, output))


FAULTS = (
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
    Fault("rows_shifted", "Rows of the output are shifted.", "Row i belongs to query i.", lambda call: (spread(lambda c, o: o.roll(1, -2)), spread(lambda c, o: o.roll(-1, -2)), spread(lambda c, o: o.flip(-2)))),
    Fault("neighbouring_queries_mixed", "A neighbouring query enters the scores.", "Keep rows apart.", of(*(_mixed(step, factor) for step in (1, -1) for factor in (1e-3, 1e-2, 0.1, 1.0)))),
    Fault("later_columns_unwritten", "Columns of the output are left at zero.", "Write all E columns.", lambda call: (_columns(n) for n in {*BLOCKS, call.case.width, call.inputs.value.shape[-1] - 1, call.inputs.value.shape[-1] & ~1} if 0 < n < call.inputs.value.shape[-1]), lambda call: not call.module),
    Fault("output_shaped_like_query", "The output has the query's width in place of the value's.", "Allocate (..., L, E).", lambda call: (spread(lambda c, o: torch.nn.functional.pad(o, (0, c.case.width - o.shape[-1]))),), lambda call: not call.module),
    Fault("output_transposed", "The output is transposed.", "Return (..., L, E).", lambda call: (spread(lambda c, o: o.transpose(-2, -1)), spread(lambda c, o: o.transpose(-3, -2)))),
    Fault("key_viewed_not_transposed", "The key is viewed as (D, S) in place of transposing it.", "Transpose it.", lambda call: ({"product": lambda c, q, k: q @ k.reshape(*k.shape[:-2], k.shape[-1], k.shape[-2])}, {"product": lambda c, q, k: q @ k})),
    Fault("output_clipped", "Output or value is clipped.", "Return the sum as it is.", of(*map(_clipped_value, (1.0, 5.0, 10.0, 100.0, 1000.0)), spread(lambda c, o: o.clamp(min=0.0)), *map(_clipped_output, (1.0, 10.0)))),
    Fault("vectors_normalised", "Query or key vectors are normalised or centred.", "Use them as they are.", lambda call: (
        prepared(lambda c, q, k, v: (q / q.norm(dim=-1, keepdim=True), k, v)), prepared(lambda c, q, k, v: (q, k / k.norm(dim=-1, keepdim=True), v)),
        prepared(lambda c, q, k, v: (q / q.norm(dim=-1, keepdim=True), k / k.norm(dim=-1, keepdim=True), v)),
        prepared(lambda c, q, k, v: (q, k - k.mean(-1, keepdim=True), v)), prepared(lambda c, q, k, v: (q - q.mean(-1, keepdim=True), k, v)),
    )),
    Fault("first_key_only", "A row attends its best, first or last key alone.", "Weigh all keys.", one(normalise=lambda call, masked: torch.nn.functional.one_hot(masked.argmax(-1), masked.shape[-1]).double())),
)  # fmt: skip
