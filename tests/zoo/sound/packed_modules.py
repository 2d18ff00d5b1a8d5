"""Modules with packed or shared projections, one-tensor modules, and wrappers of torch's own module."""

from __future__ import annotations

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..program import HALVES_TOO, Program
from .parts import Pair, lowest
from .plain import attend_plainly, attending


def _heads(tensor: Tensor, heads: int) -> Tensor:
    """(B, L, H * D) to (B, H, L, D)."""
    return tensor.unflatten(-1, (heads, -1)).transpose(1, 2)


def _merged(tensor: Tensor) -> Tensor:
    """(B, H, L, D) to (B, L, H * D)."""
    return tensor.transpose(1, 2).flatten(2)


class InProjection(nn.Module):
    """in_proj_weight and in_proj_bias in one piece each, cut by chunk."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * d_model, d_model))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * d_model))
        self.out_proj = nn.Linear(d_model, d_model)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        weights, biases = self.in_proj_weight.chunk(3), self.in_proj_bias.chunk(3)
        q, k, v = (
            _heads(F.linear(tensor, weight, bias), self.n_heads)
            for tensor, weight, bias in zip((query, key, value), weights, biases, strict=True)
        )
        found = attend_plainly(q, k, v, attending(mask), empty=None)
        return self.out_proj(_merged(found.output)), found.weights


class QueryAndPackedKeyValue(nn.Module):
    """to_q for the query and to_kv for both others, which read one tensor after the other."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.to_q = nn.Linear(d_model, d_model, bias=False)
        self.to_kv = nn.Linear(d_model, 2 * d_model, bias=False)
        self.to_out = nn.Linear(d_model, d_model)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        q = _heads(self.to_q(query), self.n_heads)
        k = _heads(self.to_kv(key).chunk(2, dim=-1)[0], self.n_heads)
        v = _heads(self.to_kv(value).chunk(2, dim=-1)[1], self.n_heads)
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * q.size(-1) ** -0.5
        if mask is not None:
            scores = scores.masked_fill(mask == 0, lowest(scores))
        weights = scores.softmax(-1)
        return self.to_out(_merged(weights @ v)), weights


class PackedSelf(nn.Module):
    """A packed qkv layer over one tensor, and an output layer called proj."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.num_heads = n_heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        batch, length, d_model = x.shape
        packed = self.qkv(x).reshape(batch, length, 3, self.num_heads, d_model // self.num_heads)
        q, k, v = packed.permute(2, 0, 3, 1, 4).unbind(0)
        scores = (q * q.size(-1) ** -0.5) @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, lowest(scores))
        output: Tensor = self.proj((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(batch, length, d_model))
        return output


class Transposed(nn.Module):
    """A linear map whose weight is stored as (in, out)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(outputs))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        flat = torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight)
        return flat.reshape(*x.shape[:-1], -1)


class TransposedSelf(nn.Module):
    """Packed c_attn and c_proj, stored transposed, over one tensor, with extra arguments."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.num_heads, self.split_size = n_heads, d_model
        self.c_attn = Transposed(d_model, 3 * d_model)
        self.c_proj = Transposed(d_model, d_model)

    def forward(
        self,
        hidden_states: Tensor,
        layer_past: object = None,
        attention_mask: Tensor | None = None,
        use_cache: bool = False,
        output_attentions: bool = False,
    ) -> tuple[Tensor, object, Tensor | None]:
        q, k, v = (_heads(part, self.num_heads) for part in self.c_attn(hidden_states).split(self.split_size, dim=2))
        found = attend_plainly(q, k, v, attending(attention_mask), empty=None)
        output = self.c_proj(_merged(found.output))
        return output, None, found.weights if output_attentions else None


def call_transposed(
    module: TransposedSelf, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Give the one tensor, ask for the weights, and leave the cache out."""
    output, _, weights = module(query, attention_mask=mask, output_attentions=True)
    return output, weights


class LengthFirstSelf(PackedSelf):
    """The packed one-tensor module over (L, B, M)."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(x.transpose(0, 1), mask).transpose(0, 1)


class ReadsOneThrice(InProjection):
    """One tensor for query, key and value."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Pair:  # type: ignore[override]
        return super().forward(x, x, x, mask)


class TorchModule(nn.Module):
    """nn.MultiheadAttention with masks of its polarity and shape; weights per head, NaN for empty rows."""

    average: bool | None = False

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(d_model, n_heads, batch_first=True)

    def forward(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor | None]:
        hidden = None
        if mask is not None:
            shape = (query.size(0), self.attention.num_heads, query.size(1), key.size(1))
            hidden = (mask == 0).expand(shape).flatten(0, 1)
        # Views keep torch off its inference path, which answers empty rows differently.
        result: tuple[Tensor, Tensor | None] = self.attention(
            query,
            key.view_as(key),
            value.view_as(value),
            attn_mask=hidden,
            need_weights=self.average is not None,
            average_attn_weights=bool(self.average),
        )
        return result


class TorchModuleAveraged(TorchModule):
    """The same with averaged weights."""

    average = True


class TorchModuleWithoutWeights(TorchModule):
    """The same without weights, by way of SDPA; empty rows are zeros before the output projection."""

    average = None

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, None]:
        return super().forward(query, key, value, mask)[0], None


def call_torch_module(
    module: nn.MultiheadAttention, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Pass the mask by its name and ask for the weights of every head."""
    result: tuple[Tensor, Tensor | None] = module(query, key, value, attn_mask=mask, average_attn_weights=False)
    return result


torch_module_itself = partial(nn.MultiheadAttention, batch_first=True)


class SharedProjections(nn.Module):
    """The second document's module: head-wide projections that all heads share, by broadcasting."""

    def __init__(self, embed_size: int, heads: int) -> None:
        super().__init__()
        self.embed_size, self.heads = embed_size, heads
        width = embed_size // heads
        self.values = nn.Linear(width, width, bias=False)
        self.keys = nn.Linear(width, width, bias=False)
        self.queries = nn.Linear(width, width, bias=False)
        self.fc_out = nn.Linear(embed_size, embed_size)

    def _project(self, linear: nn.Linear, tensor: Tensor) -> Tensor:
        return torch.matmul(_heads(tensor, self.heads), linear.weight.mT)

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        q = self._project(self.queries, query) / math.sqrt(self.embed_size)
        k, v = self._project(self.keys, keys), self._project(self.values, values)
        scores = q @ k.mT
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        output: Tensor = self.fc_out(_merged(scores.softmax(-1) @ v))
        return output


class KroneckerProjections(SharedProjections):
    """The same with the shared projection written as one block-diagonal matrix."""

    def _project(self, linear: nn.Linear, tensor: Tensor) -> Tensor:
        eye = torch.eye(self.heads, dtype=linear.weight.dtype, device=linear.weight.device)
        return _heads(F.linear(tensor, torch.kron(eye, linear.weight)), self.heads)


_ALL = {"dtypes": HALVES_TOO}
SOUND_PACKED_MODULES = (
    Program("in_projection", InProjection, _ALL, "one tensor holds three projections"),
    Program("query_and_packed_key_value", QueryAndPackedKeyValue, _ALL, "key and value share a packed layer"),
    Program("packed_self", PackedSelf, {**_ALL, "inputs": "self", "second": None}, "one tensor, one qkv layer"),
    Program(
        "transposed_self",
        TransposedSelf,
        {
            **_ALL,
            "inputs": "self",
            "second": "weights",
            "call": call_transposed,
            "parameters": {"qkv": "c_attn.T", "output": "c_proj.T"},
        },
        "packed weights stored as (in, out), extra arguments, a tuple of three",
    ),
    Program(
        "length_first_self",
        LengthFirstSelf,
        {**_ALL, "inputs": "self", "layout": "LBE", "second": None},
        "one tensor with its length first",
    ),
    Program("reads_one_thrice", ReadsOneThrice, {**_ALL, "inputs": "self"}, "one tensor and a packed in_proj"),
    Program("torch_module", TorchModule, {**_ALL, "empty_row": "nan"}, "torch's module with weights per head"),
    Program(
        "torch_module_averaged",
        TorchModuleAveraged,
        {**_ALL, "empty_row": "nan", "second": "averaged weights"},
        "torch's module with averaged weights",
    ),
    Program(
        "torch_module_without_weights",
        TorchModuleWithoutWeights,
        {**_ALL, "empty_row": "zeros", "no_keys": "unspecified", "second": None, "gradient": "once"},
        "torch's module without weights, which cannot be given a mask without keys",
    ),
    Program(
        "torch_module_itself",
        torch_module_itself,
        {
            **_ALL,
            "reference": "MultiHeadAttention",
            "call": call_torch_module,
            "mask": ("bool", "additive"),
            "mask_means": "hide",
            "mask_shapes": ("LS", "(BH)LS"),
            "empty_row": "nan",
        },
        "torch's module built by functools.partial and called with its own names",
    ),
    Program(
        "shared_projections",
        SharedProjections,
        {"reference": "SelfAttention"},
        "the second document's module with the scale on the query",
    ),
    Program(
        "kronecker_projections",
        KroneckerProjections,
        {"reference": "SelfAttention"},
        "shared projections as a block-diagonal matrix",
    ),
)
