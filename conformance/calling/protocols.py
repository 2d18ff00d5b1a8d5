"""Other protocols turned into ordinary kernels, so that the ordinary rules judge them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..errors import ConformanceError


class UnsuitableInputs(ConformanceError, ValueError):
    """Tensors that the protocol behind an adapter has no words for, or a result that is none of the protocol's."""


@dataclass(frozen=True)
class Adapted:
    """A kernel made of another protocol. `register` takes `capabilities` as defaults, under what it is given itself."""

    function: Callable[..., Any]
    capabilities: Mapping[str, Any]
    name: str

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any) -> Any:
        """Attend: query (B, H, L, D), key (B, H, S, D), value (B, H, S, E) to (B, H, L, E)."""
        return self.function(query, key, value, mask, **options)


def packed(function: Callable[..., Any], *, call: Callable[..., Any] | None = None) -> Adapted:
    """Make an ordinary kernel with `lengths` masks of one that takes sequences packed behind each other.

    `function(query, key, value, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, **options)` gets query
    (total_q, H, D), key (total_k, H, D), value (total_k, H, E) and int32 cumulated lengths (B + 1), and returns
    (total_q, H, E), alone or before a logsumexp (H, total_q). `call(function, ...)` with the same arguments says how to call an odd one.

        flash = register(packed(varlen_attention), dtypes=("fp16", "bf16"), device="cuda", precision="fused")

    A triangle aligned bottom-right ends at the last key of each sequence, not at S, so that causal together with lengths
    means something else than elsewhere and is not judged unless `causal_with_mask` is declared.
    """

    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any) -> Any:
        _require_a_value_per_key(key, value)
        batch, queries, keys = query.shape[0], query.shape[2], key.shape[2]
        lengths = torch.full((batch,), keys) if mask is None else mask.to("cpu")
        kept = (torch.arange(keys) < lengths[:, None]).to(key.device)
        starts_q = torch.arange(batch + 1, dtype=torch.int32) * queries
        starts_k = torch.nn.functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
        longest = int(lengths.max()) if batch else 0
        arguments = (
            query.transpose(1, 2).flatten(0, 1), key.transpose(1, 2)[kept], value.transpose(1, 2)[kept],
            starts_q.to(query.device), starts_k.to(query.device), queries, longest,
        )  # fmt: skip
        returned = function(*arguments, **options) if call is None else call(function, *arguments, **options)
        output, *others = returned if isinstance(returned, (tuple, list)) else (returned,)
        unpacked = _rows("output", output, 0, 3, (batch, queries)).transpose(1, 2)
        if not others or not isinstance(others[0], Tensor):
            return unpacked
        return unpacked, _rows("second result", others[0], 1, 2, (batch, queries)).transpose(0, 1)

    defaults = {
        "layout": "BHLD", "leading": "equal", "mask": ("lengths",), "empty_row": "zeros", "second": None,
        "causal_with_mask": "unspecified",
    }  # fmt: skip
    return Adapted(attend, defaults, f"packed({getattr(function, '__name__', function)})")


def stepwise(step: Callable[..., Any], new_cache: Callable[[], Any]) -> Adapted:
    """Make an ordinary causal kernel of a decoder that takes one token at a time and keeps a cache.

    `step(query (B, H, 1, D), key (B, H, 1, D), value (B, H, 1, E), cache, **options)` returns (B, H, 1, E), alone or with the cache
    for the next step; `new_cache()` makes an empty one. The last of S keys belongs to the last of L queries, so the
    triangle is aligned bottom-right: S - L earlier tokens fill the cache. Every step brings a key, so L is at most S.

        decoder = register(stepwise(model.step, model.new_cache))
    """

    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
        _require_a_value_per_key(key, value)
        if mask is not None:
            raise UnsuitableInputs("stepwise() has no way to hand a mask to a step; declare mask=()")
        queries, keys = query.shape[2], key.shape[2]
        if queries > keys:
            raise UnsuitableInputs(f"{queries} queries with {keys} keys; every step of a decoder brings a key")
        cache, outputs = new_cache(), []
        for position in range(keys if queries else 0):
            row, at = position - (keys - queries), slice(position, position + 1)
            # An earlier token has no query here. The first one stands in, not zeros: no trace of it may stay in the cache.
            asked = query[:, :, max(row, 0) : max(row, 0) + 1]
            returned = step(asked, key[:, :, at], value[:, :, at], cache, **options)
            output, cache = returned if isinstance(returned, tuple) else (returned, cache)
            if row >= 0:
                outputs.append(output)
        return torch.cat(outputs, 2) if outputs else value.new_zeros(*query.shape[:3], value.shape[-1])

    defaults = {
        "layout": "BHLD", "leading": "equal", "lengths": "at most", "mask": (), "causal": "always bottom-right",
        "second": None,
    }  # fmt: skip
    return Adapted(attend, defaults, f"stepwise({getattr(step, '__name__', step)})")


def _require_a_value_per_key(key: Tensor, value: Tensor) -> None:
    """Raise UnsuitableInputs where the adapter itself would cut the longer of the two."""
    if key.shape[2] != value.shape[2]:
        raise UnsuitableInputs(f"{key.shape[2]} keys with {value.shape[2]} values; pass one value per key")


def _rows(what: str, result: object, axis: int, axes: int, sizes: tuple[int, int]) -> Tensor:
    """Cut the axis of total_q rows into (B, L). Raises UnsuitableInputs where there is no such axis."""
    if not isinstance(result, Tensor) or result.dim() != axes or result.shape[axis] != sizes[0] * sizes[1]:
        told = f"a tensor of shape {tuple(result.shape)}" if isinstance(result, Tensor) else type(result).__name__
        wanted = "(total_q, H, E)" if axis == 0 else "(H, total_q)"
        raise UnsuitableInputs(
            f"the {what} of a packed kernel is {wanted} with total_q = {sizes[0] * sizes[1]}, and this is {told}; "
            "pick or turn it with packed(f, call=...)"
        )
    return result.reshape(*result.shape[:axis], *sizes, *result.shape[axis + 1 :])
