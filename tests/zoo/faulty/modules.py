"""Faulty modules: heads are split, merged, scaled or masked wrongly, or the answer has the wrong form."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ..mutant import AXIS, BROADCAST, EMPTY, FILL, FLAG, LAYOUT, OUTPUT, SCALE, UNRAISED, WEIGHTS, Population
from .parts import Pair, attend, band, both
from .sound_modules import MultiHead, SharedHeads

mutants = Population()

MHA = "MultiHeadAttention"
SHARED = "SelfAttention"


@mutants.add("PROJECTION", "SYMMETRY", kind=LAYOUT, repeats="B135 B136 B137 B139", reference=MHA)
class HeadsMergedByView(MultiHead):
    """Merges heads by reshaping (B, H, L, d_k) without moving the head axis back; one head does not show it."""

    def merge(self, output: Tensor) -> Tensor:
        return output.reshape(output.size(0), output.size(2), self.d_model)


@mutants.add("PROJECTION", "SYMMETRY", kind=LAYOUT, repeats="B133 B134", reference=MHA)
class HeadsSplitByView(MultiHead):
    """Splits heads by reshaping to (B, H, L, d_k) without a transpose; one head does not show it."""

    def split(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(tensor.size(0), self.n_heads, tensor.size(1), self.d_k)


@mutants.add("PROJECTION", "SYMMETRY", kind=LAYOUT, repeats="B143 B147", reference=MHA)
class CrossHeadsSplitByView(MultiHead):
    """Splits key and value heads by reshaping where their length is not the query's."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        length = query.size(1)
        query, key, value = self.project(query, key, value)
        heads = [self.split(t) if t.size(1) == length else self._viewed(t) for t in (key, value)]
        output, weights = self.attend(self.split(query), heads[0], heads[1], mask)
        return self.finish(self.merge(output)), weights

    def _viewed(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(tensor.size(0), self.n_heads, tensor.size(1), self.d_k)


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B133 B145", reference=MHA)
class HeadsInterleaved(MultiHead):
    """Gives head h every H-th component in place of a slice, on the way in and on the way out."""

    def split(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(*tensor.shape[:2], self.d_k, self.n_heads).permute(0, 3, 1, 2)

    def merge(self, output: Tensor) -> Tensor:
        return output.permute(0, 2, 3, 1).flatten(2)


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B145 numerics 3", reference=MHA)
class HeadOrderReversedAtMerge(MultiHead):
    """Merges the heads in reverse order."""

    def merge(self, output: Tensor) -> Tensor:
        return super().merge(output.flip(1))


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B145", reference=MHA)
class QueryHeadsReversed(MultiHead):
    """Lets query head h meet key head H - 1 - h."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return attend(query.flip(1), key, value, mask)


@mutants.add("PROJECTION", "NUMERIC", kind=SCALE, repeats="B112 B113 B115 B116 B117 B119 B120", reference=MHA)
class ScaleByModelDim(MultiHead):
    """Scales by 1/sqrt(d_model)."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return attend(query, key, value, mask, scale=1 / math.sqrt(self.d_model))


@mutants.add("PROJECTION", "NUMERIC", kind=SCALE, repeats="B112", reference=MHA)
class ScaleByHeadCount(MultiHead):
    """Scales by 1/sqrt(H), which is right where H equals d_k."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return attend(query, key, value, mask, scale=1 / math.sqrt(self.n_heads))


@mutants.add("PROJECTION", "NUMERIC", kind=SCALE, reference=MHA)
class ModuleScaleMissing(MultiHead):
    """Does not scale the scores; heads of width one do not show it."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return attend(query, key, value, mask, scale=1.0)


@mutants.add("WEIGHTS", "PROJECTION", kind=AXIS, repeats="B128 B132", reference=MHA)
class ModuleSoftmaxOverHeads(MultiHead):
    """Normalises over the heads."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return attend(query, key, value, mask, normalise=lambda scores: torch.softmax(scores, dim=1))


@mutants.add("PROJECTION", "SYMMETRY", kind=LAYOUT, repeats="B140 B141", reference=MHA)
class AttendsOverTheBatch(MultiHead):
    """Takes (B, L, d_model) for (L, B, d_model) where all lengths are equal and there is no mask."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        if mask is not None or not query.shape == key.shape == value.shape:
            return super().forward(query, key, value, mask)
        swapped = (tensor.transpose(0, 1) for tensor in (query, key, value))
        output, _ = super().forward(*swapped)
        return output.transpose(0, 1), super().forward(query, key, value)[1]


@mutants.add("MASK", kind=BROADCAST, repeats="B058 B059", reference=MHA)
class ModuleMaskTiledOverHeads(MultiHead):
    """Gives head h of sample b the mask (b*H + h) mod B where the mask is (B, 1, L, S)."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        batch, heads = query.shape[:2]
        if mask is not None and mask.dim() == 4 and mask.size(0) == batch and mask.size(1) == 1:
            mask = mask.squeeze(1).repeat(heads, 1, 1).reshape(batch, heads, *mask.shape[-2:])
        return attend(query, key, value, mask)


@mutants.add("MASK", kind=BROADCAST, repeats="B062 B063", reference=MHA)
class MaskOfHeadsReversed(MultiHead):
    """Gives head h the mask of head H - 1 - h."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return attend(query, key, value, mask.flip(1) if mask is not None and mask.dim() == 4 else mask)


@mutants.add("MASK", kind=BROADCAST, repeats="B069", reference=MHA)
class MaskOfThreeAxesPerSample(MultiHead):
    """Reads a mask (H, L, S) as one mask per sample where there are as many heads as samples."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        if mask is not None and mask.dim() == 3 and mask.size(0) == query.size(0):
            mask = mask.unsqueeze(1)
        return attend(query, key, value, mask)


@mutants.add("MASK", kind=FILL, repeats="B056", reference=MHA)
class ModuleIgnoresMask(MultiHead):
    """Ignores the mask."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return attend(query, key, value)


@mutants.add("MASK", kind=EMPTY, repeats="B055 B067", reference=MHA)
class HiddenRowsZeroed(MultiHead):
    """Zeroes the merged heads of a query that attends nothing, so that only the output bias is left."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        output, weights = attend(query, key, value, mask)
        if mask is not None and weights.size(-1):
            output = output.masked_fill((mask == 0).expand(weights.shape).all(dim=-1, keepdim=True), 0.0)
        return output, weights


@mutants.add("CAUSAL", "PROJECTION", kind=FLAG, repeats="B087", reference=MHA)
class SelfAttentionCausalByDefault(MultiHead):
    """Is causal, unasked, without a mask when query and key are the same tensor."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        if key is query and mask is None:
            mask = both(mask, band(query.size(1), key.size(1), causal=True))
        return super().forward(query, key, value, mask)


@mutants.add("WEIGHTS", "SHAPE", kind=WEIGHTS, repeats="B210", reference=MHA)
class ModuleWeightsAveraged(MultiHead):
    """Averages the returned weights over the heads without declaring it."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        output, weights = super().forward(query, key, value, mask)
        return output, weights.mean(dim=1)


@mutants.add("WEIGHTS", kind=WEIGHTS, repeats="numerics 25", reference=MHA)
class ModuleWeightsOfFirstHead(MultiHead):
    """Returns the weights of head 0 for every head."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        output, weights = super().forward(query, key, value, mask)
        return output, weights[:, :1].expand(weights.shape)


@mutants.add("SHAPE", kind=OUTPUT, repeats="B165", reference=MHA)
class ModuleBatchOfOneSqueezed(MultiHead):
    """Returns (L, d_model) for a batch of one."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        output, weights = super().forward(query, key, value, mask)
        return output.squeeze(0), weights


@mutants.add("SHAPE", "NUMERIC", kind="numerics 7", reference=MHA)
class NanForABatchOfOne(MultiHead):
    """Divides and multiplies by B - 1, which is NaN for a batch of one."""

    def finish(self, merged: Tensor) -> Tensor:
        others = merged.new_full((), merged.size(0) - 1)
        return super().finish(merged * (others / others if merged.size(0) else 1.0))


@mutants.add("ERRORS", kind=UNRAISED, repeats="B251", reference=MHA)
class HeadsThatDoNotDivideAccepted(MultiHead):
    """Accepts head counts that do not divide d_model and ignores the rest (call: factory(10, 4))."""

    def split(self, tensor: Tensor) -> Tensor:
        return super().split(tensor[..., : self.n_heads * self.d_k])

    def merge(self, output: Tensor) -> Tensor:
        merged = output.transpose(1, 2).flatten(2)
        return nn.functional.pad(merged, (0, self.d_model - merged.size(-1)))


@mutants.add("ERRORS", kind=UNRAISED, reference=MHA)
class WiderInputsCropped(MultiHead):
    """Crops inputs that are wider than d_model (call: factory(8, 2) with inputs of width 12)."""

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return super().project(*(tensor[..., : self.d_model] for tensor in (query, key, value)))


@mutants.add("PROJECTION", "NUMERIC", kind=SCALE, repeats="B112", reference=SHARED)
class SharedHeadsScaledByHeadDim(SharedHeads):
    """Scales by 1/sqrt(head_dim) where the reference scales by 1/sqrt(embed_size)."""

    def energy(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        return super().energy(queries, keys, mask) * math.sqrt(self.embed_size / self.head_dim)


@mutants.add("PROJECTION", kind=LAYOUT, reference=SHARED)
class SharedHeadsKeysFirst(SharedHeads):
    """Takes keys first and values second where the reference takes values first."""

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        return super().forward(keys, values, query, mask)


@mutants.add("PROJECTION", kind=LAYOUT, repeats="B133", reference=SHARED)
class SharedHeadsSplitByStride(SharedHeads):
    """Gives head h every H-th component of its input in place of a slice."""

    def split(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(*tensor.shape[:2], self.head_dim, self.heads).transpose(2, 3)


@mutants.add("MASK", kind=FILL, repeats="B047", reference=SHARED)
class SharedHeadsFillZero(SharedHeads):
    """Sets hidden scores to 1e-20, a typing error for -1e20."""

    def energy(self, queries: Tensor, keys: Tensor, mask: Tensor | None) -> Tensor:
        energy = super().energy(queries, keys, None)
        return energy if mask is None else energy.masked_fill(mask == 0, 1e-20)
