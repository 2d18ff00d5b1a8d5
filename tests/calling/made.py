"""Implementations that differ in how they are called only: made of a signature and of what its arguments hold."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn


def attend(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False,
    scale: float | None = None, bias: Tensor | None = None, window: int | None = None, softcap: float | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Attend over (..., L, D); return output, weights and logsumexp. Masks say what to attend to."""
    scores = query @ key.mT * (query.size(-1) ** -0.5 if scale is None else scale)
    scores = softcap * torch.tanh(scores / softcap) if softcap else scores
    scores = scores if bias is None else scores + bias
    distance = torch.arange(scores.size(-2))[:, None] - torch.arange(scores.size(-1))
    if causal:
        scores = scores.masked_fill(distance < 0, -1e9)
    if window is not None:
        scores = scores.masked_fill(distance.abs() >= window, -1e9)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = torch.nn.functional.dropout(scores.softmax(-1), dropout)
    return weights @ value, weights, scores.logsumexp(-1)


def by_lengths(lengths: Tensor | None, keys: int) -> Tensor | None:
    """Return the mask (B, 1, 1, S) of a number of keys per batch element."""
    return None if lengths is None else (torch.arange(keys) < lengths[:, None])[:, None, None]


def of_keys(mask: Tensor | None) -> Tensor | None:
    """Return (B, S) as (B, 1, 1, S)."""
    return None if mask is None else mask[:, None, None]


class MultiHead(nn.Module):
    """Four projections around `attend`."""

    def __init__(self, d_model: int, heads: int, biased: bool = True) -> None:
        super().__init__()
        self.h = heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d_model, d_model, biased) for _ in range(4))

    def project(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **more: Any) -> Any:
        """(B, L, M), (B, S, M), (B, S, M) to (B, L, M) and the weights."""
        pairs = ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        q, k, v = (linear(tensor).unflatten(-1, (self.h, -1)).transpose(1, 2) for linear, tensor in pairs)
        output, weights, _ = attend(q, k, v, mask, **more)
        return self.out_proj(output.transpose(1, 2).flatten(2)), weights


_SCOPE: Mapping[str, Any] = {
    "torch": torch, "nn": nn, "MultiHead": MultiHead, "attend": attend, "by_lengths": by_lengths, "of_keys": of_keys,
    "named": lambda *names: lambda results: dict(zip(names, results, strict=False)), "Namespace": SimpleNamespace,
}  # fmt: skip
_counter = itertools.count()


def _defined(code: str, name: str) -> Any:
    scope = {**_SCOPE, "__name__": __name__}
    exec(compile(code, f"<made {next(_counter)}>", "exec"), scope)
    return scope[name]


def kernel(signature: str, body: str, result: str = "{}[0]") -> Any:
    """Return the function of a signature that returns `attend(body)` in the place of `{}` in `result`."""
    return _defined(f"def kernel({signature}):\n    return {result.format(f'attend({body})')}\n", "kernel")


def module(
    signature: str, body: str, result: str = "{}[0]", init: str = "d_model, heads", sizes: str = "d_model, heads"
) -> Any:
    """Return the class of a constructor and a forward that returns `self.project(body)` in the place of `{}`."""
    return _defined(
        f"class Module(MultiHead):\n    def __init__(self, {init}):\n        super().__init__({sizes})\n"
        f"    def forward(self, {signature}):\n        return {result.format(f'self.project({body})')}\n",
        "Module",
    )
