"""Faulty projections: the wrong input meets the wrong weight, or a bias is missing or added twice.

A key bias that is left out is no fault: it shifts every score of a row alike.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ..mutant import GRADIENT, LAYOUT, OUTPUT, STATE, Population
from .parts import Pair, attend
from .sound_modules import MultiHead, SharedHeads

mutants = Population()

MHA = "MultiHeadAttention"

Projected = tuple[Tensor, Tensor, Tensor]


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B144", reference=MHA)
class KeyProjectedByQueryWeights(MultiHead):
    """Projects the key by the query's weights."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.W_q(query), self.W_q(key), self.W_v(value)


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B144", reference=MHA)
class ValueProjectedByKeyWeights(MultiHead):
    """Projects the value by the key's weights."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.W_q(query), self.W_k(key), self.W_k(value)


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B145", reference=MHA)
class KeyAndValueWeightsExchanged(MultiHead):
    """Projects the key by the value's weights and the value by the key's."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.W_q(query), self.W_v(key), self.W_k(value)


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B145", reference=MHA)
class QueryAndKeyWeightsExchanged(MultiHead):
    """Projects the query by the key's weights and the key by the query's."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.W_k(query), self.W_q(key), self.W_v(value)


@mutants.add("PROJECTION", kind="numerics 12", reference=MHA)
class ValueProjectedFromKeyInput(MultiHead):
    """Projects the value from the key input, which cross-attention over one memory does not show."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.W_q(query), self.W_k(key), self.W_v(key)


@mutants.add("PROJECTION", kind="numerics 12", reference=MHA)
class ValueProjectedFromQueryInput(MultiHead):
    """Projects the value from the query input where lengths allow it, which self-attention does not show."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.W_q(query), self.W_k(key), self.W_v(query if query.shape == value.shape else value)


@mutants.add("PROJECTION", kind="numerics 12", reference=MHA)
class KeyProjectedFromQueryInput(MultiHead):
    """Projects the key from the query input where lengths allow it, which self-attention does not show."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.W_q(query), self.W_k(query if query.shape == key.shape else key), self.W_v(value)


@mutants.add("PROJECTION", kind="numerics 12", reference=MHA)
class CrossAttentionIgnoresMemory(MultiHead):
    """Attends the query input alone, whatever key and value are, where all three have one shape."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        if query.shape == key.shape == value.shape:
            key = value = query
        return super().project(query, key, value)


@mutants.add("PROJECTION", kind=LAYOUT, reference=MHA)
class QueryBiasMissing(MultiHead):
    """Leaves out the bias of the query."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return linear(query, self.W_q.weight), self.W_k(key), self.W_v(value)


@mutants.add("PROJECTION", kind=LAYOUT, reference=MHA)
class ValueBiasMissing(MultiHead):
    """Leaves out the bias of the value."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.W_q(query), self.W_k(key), linear(value, self.W_v.weight)


@mutants.add("PROJECTION", kind=LAYOUT, reference=MHA)
class OutputBiasMissing(MultiHead):
    """Leaves out the bias of the output."""

    def finish(self, merged: Tensor) -> Tensor:
        return linear(merged, self.W_o.weight)


@mutants.add("PROJECTION", kind=LAYOUT, reference=MHA)
class QueryBiasAddedTwice(MultiHead):
    """Adds the bias of the query twice."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.W_q(query) + self.W_q.bias, self.W_k(key), self.W_v(value)


@mutants.add("PROJECTION", kind=LAYOUT, reference=MHA)
class ValueBiasAddedTwice(MultiHead):
    """Adds the bias of the value twice."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.W_q(query), self.W_k(key), self.W_v(value) + self.W_v.bias


@mutants.add("PROJECTION", kind=LAYOUT, reference=MHA)
class OutputBiasAddedPerHead(MultiHead):
    """Adds the bias of the output once for each head; one head does not show it."""

    def finish(self, merged: Tensor) -> Tensor:
        return super().finish(merged) + (self.n_heads - 1) * self.W_o.bias


@mutants.add("PROJECTION", kind=LAYOUT, reference=MHA)
class QueryBiasNotScaled(MultiHead):
    """Scales the query before its bias is added."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        extra = (self.d_k**0.5 - 1) * self.W_q.bias
        return self.W_q(query) + extra, self.W_k(key), self.W_v(value)


@mutants.add("PROJECTION", kind=LAYOUT, reference=MHA)
class OutputProjectionMissing(MultiHead):
    """Returns the merged heads without the output projection."""

    def finish(self, merged: Tensor) -> Tensor:
        return merged


@mutants.add("PROJECTION", kind=LAYOUT, reference=MHA)
class OutputProjectionMissingForOneHead(MultiHead):
    """Returns the merged heads without the output projection where there is one head."""

    def finish(self, merged: Tensor) -> Tensor:
        return super().finish(merged) if self.n_heads > 1 else merged


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B145", reference=MHA)
class OutputProjectionTransposed(MultiHead):
    """Multiplies by the transpose of the output weights, which a symmetrical matrix does not show."""

    def finish(self, merged: Tensor) -> Tensor:
        return linear(merged, self.W_o.weight.transpose(0, 1), self.W_o.bias)


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B145", reference=MHA)
class QueryProjectionTransposed(MultiHead):
    """Multiplies by the transpose of the query weights, which a symmetrical matrix does not show."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return linear(query, self.W_q.weight.transpose(0, 1), self.W_q.bias), self.W_k(key), self.W_v(value)


@mutants.add("PROJECTION", kind=OUTPUT, reference=MHA)
class ResidualAdded(MultiHead):
    """Adds the query input to the output."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        output, weights = super().forward(query, key, value, mask)
        return output + query, weights


@mutants.add("PROJECTION", kind=OUTPUT, reference=MHA)
class InputNormalised(MultiHead):
    """Normalises each input vector of the query before projecting it."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return super().project(nn.functional.layer_norm(query, query.shape[-1:]), key, value)


@mutants.add("PROJECTION", "MASK", kind=OUTPUT, reference=MHA)
class HiddenInputsZeroedBeforeProjection(MultiHead):
    """Zeroes hidden key and value inputs, which the bias of the projection turns into a vector that is attended."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        if mask is None or mask.dim() < 2 or mask.size(-2) != 1 or mask.size(-1) != key.size(1) or not mask.numel():
            return super().forward(query, key, value, mask)
        hidden = (mask == 0).reshape(-1, key.size(1), 1)
        if hidden.size(0) not in (1, key.size(0)):
            return super().forward(query, key, value, mask)
        return super().forward(query, key.masked_fill(hidden, 0.0), value.masked_fill(hidden, 0.0))


@mutants.add("GRADIENT", "PROJECTION", kind=GRADIENT, repeats="numerics G10", reference=MHA)
class ProjectionsLearnNothingFromWeights(MultiHead):
    """Detaches the scores, so that query and key projections get no gradient."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return attend(query.detach(), key.detach(), value, mask)


@mutants.add("GRADIENT", "PROJECTION", kind=GRADIENT, repeats="numerics G10", reference=MHA)
class OnlyOutputProjectionLearns(MultiHead):
    """Detaches the merged heads."""

    def finish(self, merged: Tensor) -> Tensor:
        return super().finish(merged.detach())


@mutants.add("GRADIENT", "PROJECTION", kind=GRADIENT, reference=MHA)
class ValueBiasLearnsNothing(MultiHead):
    """Detaches the bias of the value."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> Projected:
        return self.W_q(query), self.W_k(key), linear(value, self.W_v.weight, self.W_v.bias.detach())


@mutants.add("PROJECTION", kind=STATE, reference=MHA)
class ValueProjectionNotRegistered(MultiHead):
    """Keeps the value projection outside the module's parameters, so that no optimiser and no checkpoint sees it."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        hidden = self.W_v
        del self.W_v
        object.__setattr__(self, "W_v", hidden)


@mutants.add("PROJECTION", kind=STATE, reference=MHA)
class OutputBiasNotAParameter(MultiHead):
    """Keeps the bias of the output as a buffer, so that it is saved and never learns."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        bias = self.W_o.bias.detach().clone()
        del self.W_o.bias
        self.W_o.register_buffer("bias", bias)


@mutants.add("PROJECTION", kind=STATE, reference=MHA)
class QueryAndKeyShareAParameter(MultiHead):
    """Uses one weight for query and key projections."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.W_k.weight = self.W_q.weight


@mutants.add("PROJECTION", kind=STATE, reference=MHA)
class KeyAndValueShareAProjection(MultiHead):
    """Uses one projection for key and value."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.W_v = self.W_k


@mutants.add("GRADIENT", "PROJECTION", kind=STATE, reference=MHA)
class QueryProjectionFrozen(MultiHead):
    """Builds the query projection without gradients."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.W_q.requires_grad_(False)


class _Packed(nn.Module):
    """A sound one-tensor module with the rows of query, key and value stacked in one projection."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.d_model, self.n_heads = d_model, n_heads
        self.in_proj_weight = nn.Parameter(torch.randn(3 * d_model, d_model) / d_model**0.5)
        self.in_proj_bias = nn.Parameter(torch.randn(3 * d_model) / 10)
        self.out_proj = nn.Linear(d_model, d_model)

    def cut(self, packed: Tensor) -> Projected:
        """(B, L, 3*d_model) to three of (B, H, L, d_k)."""
        query, key, value = packed.split(self.d_model, dim=-1)
        return self._heads(query), self._heads(key), self._heads(value)

    def _heads(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(*tensor.shape[:2], self.n_heads, self.d_model // self.n_heads).transpose(1, 2)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Pair:
        query, key, value = self.cut(linear(x, self.in_proj_weight, self.in_proj_bias))
        output, weights = attend(query, key, value, mask)
        return self.out_proj(output.transpose(1, 2).reshape(x.shape)), weights


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B144 B145", reference=MHA, inputs="self")
class PackedRowsInWrongOrder(_Packed):
    """Cuts the packed projection into query, value and key."""

    def cut(self, packed: Tensor) -> Projected:
        query, key, value = super().cut(packed)
        return query, value, key


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B144 B145", reference=MHA, inputs="self")
class PackedRowsCutPerHead(_Packed):
    """Cuts the packed projection head by head, as a checkpoint of several shards holds it."""

    def cut(self, packed: Tensor) -> Projected:
        width = self.d_model // self.n_heads
        heads = packed.reshape(*packed.shape[:2], self.n_heads, 3 * width).transpose(1, 2)
        query, key, value = heads.split(width, dim=-1)
        return query, key, value


@mutants.add("PROJECTION", kind=LAYOUT, reference="SelfAttention")
class SharedKeysProjectedByQueries(SharedHeads):
    """Projects the keys of the one-head projections by the query's weights."""

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        queries = self.queries(self.split(query))
        weights = torch.softmax(self.energy(queries, self.queries(self.split(keys)), mask), dim=3)
        output = torch.einsum("nhql,nlhd->nqhd", weights, self.values(self.split(values)))
        result: Tensor = self.fc_out(output.reshape(query.shape))
        return result


@mutants.add("PROJECTION", kind=LAYOUT, reference="SelfAttention")
class SharedOutputBiasMissing(SharedHeads):
    """Leaves out the bias of the output of the one-head projections."""

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        return super().forward(values, keys, query, mask) - self.fc_out.bias
