"""Faulty modules in training: frozen parts, steps of an optimizer, copies and conversions, other batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from ..mutant import BATCH, GRADIENT, LAYOUT, STATE, Population
from .parts import Pair
from .projections import Projected
from .sound_modules import MultiHead

mutants = Population()

MHA = "MultiHeadAttention"


@mutants.add("PROJECTION", kind=LAYOUT, reference=MHA)
class QueryWeightsLimitedTogether(MultiHead):
    """Divides the weights of all heads by the largest of them where that is above 1.25."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        largest = self.W_q.weight.detach().abs().amax() if self.W_q.weight.numel() else torch.ones(())
        limited = self.W_q.weight / largest if largest > 1.25 else self.W_q.weight
        return linear(query, limited, self.W_q.bias), self.W_k(key), self.W_v(value)


@mutants.add("PROJECTION", "PURITY", kind=STATE, repeats="B234", reference=MHA)
class SmallStepsUnseen(MultiHead):
    """Keeps a transposed copy of the value's weights until one of them has moved by more than a tenth."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.kept: Tensor | None = None

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        weight = self.W_v.weight.detach()
        kept = self.kept
        if kept is None or kept.dtype != weight.dtype or not bool(((kept - weight).abs() <= 0.1).all()):
            kept = self.kept = weight.clone()
        shown = kept + (self.W_v.weight - weight)
        return self.W_q(query), self.W_k(key), linear(value, shown, self.W_v.bias)


@mutants.add("PROJECTION", "GRADIENT", kind=GRADIENT, repeats="B211", reference=MHA)
class FrozenValueFreezesTheKey(MultiHead):
    """Detaches the projected key where the value's weights ask for no gradient."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        query, key, value = super().project(query, key, value)
        return query, key if self.W_v.weight.requires_grad else key.detach(), value


@mutants.add("PROJECTION", "GRADIENT", kind=GRADIENT, repeats="B211", reference=MHA)
class TrainsOnlyIfTheInputAsks(MultiHead):
    """Takes a path without gradients where the query asks for none, although the parameters do."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        if query.requires_grad or not torch.is_grad_enabled():
            return super().forward(query, key, value, mask)
        with torch.no_grad():
            return super().forward(query, key, value, mask)


@mutants.add("PROJECTION", kind=STATE, reference=MHA)
class CopyCallsTheOriginal(MultiHead):
    """Holds a closure over itself, which a copy shares, so that the copy projects by the original's weights."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.project_query = lambda tensor: self.W_q(tensor)

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.project_query(query), self.W_k(key), self.W_v(value)


@mutants.add("PROJECTION", kind=STATE, reference=MHA)
class StateGrowsWithCalls(MultiHead):
    """Registers a buffer at its first call, so that a saved state does not fit a new module."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        if "seen" not in dict(self.named_buffers()):
            self.register_buffer("seen", torch.ones(1, dtype=query.dtype))
        return super().forward(query, key, value, mask)


@mutants.add("PROJECTION", kind=STATE, reference=MHA)
class RepackedAtEachConversion(MultiHead):
    """Reorders the rows of the query's weights for its kernel whenever it is moved or converted."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        super()._apply(fn, recurse)
        with torch.no_grad():
            self.W_q.weight.copy_(self.W_q.weight.roll(1, dims=0))
        return self


@mutants.add("PROJECTION", "SHAPE", kind=BATCH, reference=MHA)
class SamplesBeyondTheFirstBatchRepeat(MultiHead):
    """Makes room for as many samples as the first call has, and attends to the last of them for any beyond."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.room = 0

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        query, key, value = super().project(query, key, value)
        self.room = self.room or query.size(0)
        if query.size(0) > self.room:
            places = torch.arange(query.size(0)).clamp(max=self.room - 1)
            key, value = key[places], value[places]
        return query, key, value
