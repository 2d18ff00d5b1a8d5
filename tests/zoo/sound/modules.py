"""Modules with four separate projections, under the names that are common, each written in its own way."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..program import HALVES_TOO, Program
from .parts import INFINITY, Pair, accumulator, lowest, safe_softmax
from .plain import attend_plainly, attending


class ProjThenView(nn.Module):
    """q_proj, k_proj, v_proj, out_proj with view and transpose, as the document does it."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.heads, self.width = n_heads, d_model // n_heads
        self.q_proj = nn.Linear(d_model, d_model)
        self.k_proj = nn.Linear(d_model, d_model)
        self.v_proj = nn.Linear(d_model, d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def _split(self, tensor: Tensor) -> Tensor:
        return tensor.view(*tensor.shape[:2], self.heads, self.width).transpose(1, 2)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = (
            self._split(self.q_proj(query)),
            self._split(self.k_proj(key)),
            self._split(self.v_proj(value)),
        )
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.width)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = torch.softmax(scores, dim=-1)
        merged = (weights @ v).transpose(1, 2).contiguous().view(*query.shape)
        return self.out_proj(merged), weights


class ToUnflatten(nn.Module):
    """to_q, to_k, to_v, to_out with unflatten and flatten."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.heads = n_heads
        self.to_q, self.to_k, self.to_v = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))
        self.to_out = nn.Sequential(nn.Linear(d_model, d_model), nn.Dropout(0.0))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        pairs = zip((self.to_q, self.to_k, self.to_v), (query, key, value), strict=True)
        q, k, v = (linear(tensor).unflatten(-1, (self.heads, -1)).movedim(-2, 1) for linear, tensor in pairs)
        scores = torch.einsum("bhid,bhjd->bhij", q * q.size(-1) ** -0.5, k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, lowest(scores))
        output: Tensor = self.to_out(torch.einsum("bhij,bhjd->bihd", scores.softmax(-1), v).flatten(2))
        return output


class QueryKeyValueDense(nn.Module):
    """query, key, value, dense, with the softmax of halves in fp32 and a dropout layer that drops nothing."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.num_heads, self.head_size = n_heads, d_model // n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(0.0)
        self.dense = nn.Linear(d_model, d_model)

    def _heads(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(*tensor.shape[:-1], self.num_heads, self.head_size).permute(0, 2, 1, 3)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = self._heads(self.query(query)), self._heads(self.key(key)), self._heads(self.value(value))
        scores = q.matmul(k.mT) * self.head_size**-0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, lowest(scores))
        weights = F.softmax(scores, dim=-1, dtype=accumulator(q.dtype)).to(q.dtype)
        context = self.dropout(weights).matmul(v).permute(0, 2, 1, 3).contiguous()
        return self.dense(context.reshape(*query.shape[:-1], -1)), weights


class WithoutBiases(nn.Module):
    """wq, wk, wv, wo without biases around SDPA."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.wq = nn.Linear(d_model, d_model, bias=False)
        self.wk = nn.Linear(d_model, d_model, bias=False)
        self.wv = nn.Linear(d_model, d_model, bias=False)
        self.wo = nn.Linear(d_model, d_model, bias=False)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q = self.wq(query).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        k = self.wk(key).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        v = self.wv(value).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
        allowed = None if mask is None else (mask != 0).expand(*q.shape[:-1], k.size(2))
        context = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        output: Tensor = self.wo(context.transpose(1, 2).flatten(2))
        return output


class BatchedHeads(nn.Module):
    """linear_q, linear_k, linear_v, linear_out; heads become batch elements by chunk and cat."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.h = n_heads
        self.linear_q, self.linear_k, self.linear_v, self.linear_out = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = (
            torch.cat(linear(tensor).chunk(self.h, dim=-1), dim=0)
            for linear, tensor in ((self.linear_q, query), (self.linear_k, key), (self.linear_v, value))
        )
        scores = torch.bmm(q, k.transpose(1, 2)) / q.size(-1) ** 0.5
        scores = torch.stack(scores.chunk(self.h, dim=0), dim=1)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = scores.softmax(dim=-1)
        context = torch.bmm(torch.cat(weights.unbind(1), dim=0), v)
        return self.linear_out(torch.cat(context.chunk(self.h, dim=0), dim=-1)), weights


class LoopOverHeads(nn.Module):
    """q, k, v, o; each head takes its slice of the projections, and its part of the output is added up."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads, self.width = n_heads, d_model // n_heads
        self.q, self.k, self.v, self.o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = self.q(query), self.k(key), self.v(value)
        shape = (query.size(0), self.n_heads, query.size(1), key.size(1))
        masks = None if mask is None else mask.expand(shape) != 0
        contexts, rows = [], []
        for head in range(self.n_heads):
            part = slice(head * self.width, (head + 1) * self.width)
            allowed = None if masks is None else masks[:, head]
            found = attend_plainly(q[..., part], k[..., part], v[..., part], allowed, empty=None)
            contexts.append(found.output)
            rows.append(found.weights)
        return self.o(torch.cat(contexts, dim=-1)), torch.stack(rows, dim=1)


class HeadLinears(nn.Module):
    """One small linear layer per head and role, in ModuleLists."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        width = d_model // n_heads
        self.queries, self.keys, self.values = (
            nn.ModuleList(nn.Linear(d_model, width) for _ in range(n_heads)) for _ in range(3)
        )
        self.output = nn.Linear(d_model, d_model)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q = torch.stack([head(query) for head in self.queries], dim=1)
        k = torch.stack([head(key) for head in self.keys], dim=1)
        v = torch.stack([head(value) for head in self.values], dim=1)
        found = attend_plainly(q, k, v, attending(mask), empty=None)
        return self.output(torch.cat(found.output.unbind(1), dim=-1)), found.weights


class ThreeAxisKernels(nn.Module):
    """Parameters of shape (d_model, H, D), the output's among them, contracted by einsum."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        shape = (d_model, n_heads, d_model // n_heads)
        self.query_kernel = nn.Parameter(torch.empty(shape))
        self.key_kernel = nn.Parameter(torch.empty(shape))
        self.value_kernel = nn.Parameter(torch.empty(shape))
        self.output_kernel = nn.Parameter(torch.empty(shape))
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q = torch.einsum("blm,mhd->bhld", query, self.query_kernel)
        k = torch.einsum("bsm,mhd->bhsd", key, self.key_kernel)
        v = torch.einsum("bsm,mhd->bhsd", value, self.value_kernel)
        found = attend_plainly(q, k, v, attending(mask), empty=None)
        return torch.einsum("bhld,mhd->blm", found.output, self.output_kernel), found.weights


class LengthFirst(nn.Module):
    """W_q, W_k, W_v, W_o over (L, B, M); heads are merged into the batch axis."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        length, batch, d_model = query.shape
        columns = (batch * self.n_heads, d_model // self.n_heads)
        q = self.W_q(query).reshape(length, *columns).transpose(0, 1)
        k = self.W_k(key).reshape(key.size(0), *columns).transpose(0, 1)
        v = self.W_v(value).reshape(key.size(0), *columns).transpose(0, 1)
        scores = torch.bmm(q, k.transpose(1, 2)).unflatten(0, (batch, self.n_heads)) * q.size(-1) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = scores.softmax(-1)
        context = torch.bmm(weights.flatten(0, 1), v).transpose(0, 1).reshape(length, batch, d_model)
        return self.W_o(context), weights


class AveragedWeights(ProjThenView):
    """Weights are averaged over the heads."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        output, weights = super().forward(query, key, value, mask)
        return output, weights.mean(dim=1)


class HidesWhereTrue(ProjThenView):
    """A mask says what to hide; empty rows are zeros before the output projection."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = (
            self._split(self.q_proj(query)),
            self._split(self.k_proj(key)),
            self._split(self.v_proj(value)),
        )
        scores = q @ k.mT * self.width**-0.5
        allowed = torch.ones_like(scores, dtype=torch.bool) if mask is None else (mask == 0).expand_as(scores)
        weights = safe_softmax(scores, allowed)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


class AddsMasks(ProjThenView):
    """A mask is added to the scores."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = (
            self._split(self.q_proj(query)),
            self._split(self.k_proj(key)),
            self._split(self.v_proj(value)),
        )
        found = attend_plainly(q, k, v, bias=mask)
        return self.out_proj(found.output.transpose(1, 2).flatten(2)), found.weights


class ScaledByModelWidth(ProjThenView):
    """The scale is one over the root of d_model."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = (
            self._split(self.q_proj(query)),
            self._split(self.k_proj(key)),
            self._split(self.v_proj(value)),
        )
        scores = (q @ k.mT) / math.sqrt(query.size(-1))
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        weights = scores.softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


class AlwaysCausal(ProjThenView):
    """A triangle of a fixed largest size lies in a buffer, and a slice of it hides later keys."""

    triangle: Tensor

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.register_buffer("triangle", torch.ones(2048, 2048, dtype=torch.bool).tril(), persistent=False)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q, k, v = (
            self._split(self.q_proj(query)),
            self._split(self.k_proj(key)),
            self._split(self.v_proj(value)),
        )
        scores = (q @ k.mT) * self.width**-0.5
        scores = scores.masked_fill(~self.triangle[: q.size(2), : k.size(2)], -INFINITY)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -INFINITY)
        weights = scores.softmax(-1)
        return self.out_proj((weights @ v).transpose(1, 2).flatten(2)), weights


_ALL = {"dtypes": HALVES_TOO}
SOUND_MODULES = (
    Program("proj_then_view", ProjThenView, {}, "the document's module under other parameter names"),
    Program(
        "to_unflatten",
        ToUnflatten,
        {**_ALL, "second": None},
        "only the output has a bias, inside a Sequential",
    ),
    Program("query_key_value_dense", QueryKeyValueDense, _ALL, "an fp32 softmax for halves and a dropout of zero"),
    Program(
        "without_biases",
        WithoutBiases,
        {**_ALL, "second": None, "empty_row": "zeros", "gradient": "once"},
        "no biases, and SDPA inside",
    ),
    Program("batched_heads", BatchedHeads, {}, "heads become batch elements by chunk and cat"),
    Program("loop_over_heads", LoopOverHeads, _ALL, "a Python loop over heads"),
    Program("head_linears", HeadLinears, _ALL, "one linear layer per head and role"),
    Program(
        "three_axis_kernels",
        ThreeAxisKernels,
        {
            **_ALL,
            "parameters": {
                "query": "query_kernel.T",
                "key": "key_kernel.T",
                "value": "value_kernel.T",
                "output": "output_kernel",
            },
        },
        "parameters with an axis of heads, contracted by einsum",
    ),
    Program("length_first", LengthFirst, {"layout": "LBE"}, "(L, B, M), with heads merged into the batch axis"),
    Program("averaged_weights", AveragedWeights, {"second": "averaged weights"}, "weights are averaged over heads"),
    Program(
        "module_hides_where_true",
        HidesWhereTrue,
        {**_ALL, "mask_means": "hide", "empty_row": "zeros"},
        "a mask says what to hide",
    ),
    Program(
        "module_adds_masks",
        AddsMasks,
        {**_ALL, "mask": ("additive",), "empty_row": "zeros"},
        "masks are added to the scores",
    ),
    Program("scaled_by_model_width", ScaledByModelWidth, {"scale": "1/sqrt(d_model)"}, "the scale uses d_model"),
    Program(
        "module_always_causal",
        AlwaysCausal,
        {"causal": "always top-left", "empty_row": "nan"},
        "a buffer holds the triangle",
    ),
)
