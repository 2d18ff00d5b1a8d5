"""Other protocols turned into ordinary kernels, so that the ordinary rules judge them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


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
    (total_q, H, E), alone or first in a tuple. `call(function, ...)` with the same arguments says how to call an odd one.

        flash = register(packed(varlen_attention), dtypes=("fp16", "bf16"), device="cuda", precision="fused")
    """

    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: Any) -> Tensor:
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
        output: Tensor = returned[0] if isinstance(returned, (tuple, list)) else returned
        unpacked: Tensor = output.unflatten(0, (batch, queries)).transpose(1, 2)
        return unpacked

    defaults = {"layout": "BHLD", "leading": "equal", "mask": ("lengths",), "empty_row": "zeros", "second": None}
    return Adapted(attend, defaults, f"packed({getattr(function, '__name__', function)})")


def stepwise(step: Callable[..., Any], new_cache: Callable[[], Any]) -> Adapted:
    """Make an ordinary causal kernel of a decoder that takes one token at a time and keeps a cache.

    `step(query (B, H, 1, D), key (B, H, 1, D), value (B, H, 1, E), cache)` returns (B, H, 1, E), alone or with the cache
    for the next step; `new_cache()` makes an empty one. The last of S keys belongs to the last of L queries, so the
    triangle is aligned bottom-right: S - L earlier tokens fill the cache, and L - S queries before the first key get zeros.

        decoder = register(stepwise(model.step, model.new_cache))
    """

    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        queries, keys = query.shape[2], key.shape[2]
        cache, outputs = new_cache(), []
        for position in range(keys):
            row = position - (keys - queries)
            asked = query[:, :, row : row + 1] if row >= 0 else torch.zeros_like(key[:, :, :1])
            returned = step(asked, key[:, :, position : position + 1], value[:, :, position : position + 1], cache)
            output, cache = returned if isinstance(returned, tuple) else (returned, cache)
            if row >= 0:
                outputs.append(output)
        early = value.new_zeros(*query.shape[:2], max(queries - keys, 0), value.shape[-1])
        return torch.cat([early, *outputs], 2)

    defaults = {
        "layout": "BHLD", "leading": "equal", "mask": (), "causal": "always bottom-right", "empty_row": "zeros", "second": None,
    }  # fmt: skip
    return Adapted(attend, defaults, f"stepwise({getattr(step, '__name__', step)})")
