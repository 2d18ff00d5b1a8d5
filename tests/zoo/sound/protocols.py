"""Sound implementations with other protocols: packed sequences, a cached decoder, a flash kernel."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .parts import round_through
from .plain import attend_plainly, band


def packed_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    *,
    causal: bool = False,
) -> Tensor:
    """Attend within sequences that lie one behind the other.

    query (total_q, H, D), key (total_k, H, D), value (total_k, H, E) to (total_q, H, E). The sequence b is
    rows cu_seqlens[b] to cu_seqlens[b + 1]; causal triangles are aligned to the bottom right of each
    sequence. A sequence without keys gives zeros. Raises ValueError when the cumulated lengths do not fit
    the tensors.
    """
    for name, ends, tensor in (("cu_seqlens_q", cu_seqlens_q, query), ("cu_seqlens_k", cu_seqlens_k, key)):
        if ends[0] != 0 or ends[-1] != tensor.size(0) or bool((ends.diff() < 0).any()):
            raise ValueError(f"{name} must rise from 0 to {tensor.size(0)}, not {ends.tolist()}")
    if cu_seqlens_q.shape != cu_seqlens_k.shape:
        raise ValueError("cu_seqlens_q and cu_seqlens_k must have one entry more than there are sequences")
    outputs = [query.new_empty(0, query.size(1), value.size(2))]
    starts = zip(cu_seqlens_q.tolist(), cu_seqlens_k.tolist(), strict=True)
    ends = zip(cu_seqlens_q[1:].tolist(), cu_seqlens_k[1:].tolist(), strict=True)
    for (first_q, first_k), (last_q, last_k) in zip(starts, ends, strict=False):
        q, k, v = (t.transpose(0, 1) for t in (query[first_q:last_q], key[first_k:last_k], value[first_k:last_k]))
        triangle = band(q.size(1), k.size(1), bottom_right=True, causal=causal, device=q.device)
        outputs.append(attend_plainly(q, k, v, triangle).output.transpose(0, 1))
    return torch.cat(outputs)


@dataclass
class Cache:
    """Keys (B, H, S, D) and values (B, H, S, E) seen so far; None before the first step."""

    key: Tensor | None = None
    value: Tensor | None = None


def new_cache() -> Cache:
    """Return a cache that holds nothing."""
    return Cache()


def decoder_step(query: Tensor, key: Tensor, value: Tensor, cache: Cache) -> Tensor:
    """Append one key and value to the cache and let one query attend to all of it.

    query (B, H, 1, D), key (B, H, 1, D), value (B, H, 1, E) to (B, H, 1, E).
    """
    cache.key = key if cache.key is None else torch.cat([cache.key, key], dim=2)
    cache.value = value if cache.value is None else torch.cat([cache.value, value], dim=2)
    return attend_plainly(query, cache.key, cache.value).output


def flash_kernel(
    query: Tensor, key: Tensor, value: Tensor, *, causal: bool = False, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Take heads third, group them, align causal to the bottom right, return logsumexp, and accept halves
    only.

    query (B, L, H, D), key (B, S, G, D), value (B, S, G, E) with H a multiple of G, to output (B, L, H, E)
    and logsumexp (B, H, L) in fp32. There is no mask. Raises TypeError for other dtypes and ValueError for
    other heads.
    """
    if query.dtype not in (torch.bfloat16, torch.float16):
        raise TypeError(f"only bf16 and fp16 are supported, not {query.dtype}")
    if query.size(2) % key.size(2):
        raise ValueError(f"{query.size(2)} query heads cannot share {key.size(2)} key heads")
    groups = query.size(2) // key.size(2)
    q, k, v = (tensor.transpose(1, 2).float() for tensor in (query, key, value))
    scores = (q @ k.repeat_interleave(groups, dim=1).mT) * (query.size(-1) ** -0.5 if scale is None else scale)
    visible = band(query.size(1), key.size(1), bottom_right=True, causal=causal, device=query.device)
    empty = torch.zeros_like(scores[..., :1], dtype=torch.bool)
    if visible is not None:
        scores = scores.masked_fill(~visible, -float("inf"))
        empty = empty | ~visible.any(-1, keepdim=True)
    level = torch.logsumexp(scores.masked_fill(empty, 0.0), -1, keepdim=True)
    weights = round_through(torch.exp(scores - level), query.dtype)
    output = (weights @ v.repeat_interleave(groups, dim=1)).to(query.dtype)
    return output.transpose(1, 2), level.masked_fill(empty, -float("inf")).squeeze(-1)
