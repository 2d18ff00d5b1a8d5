"""The ten kinds of call that one `register` line (`describe` here, which the plugin does not collect) has to be able to say, each with a broken twin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_conformance import Deviation, Implementation, Outcome, Record, check, packed, stepwise
from attention_conformance.implementation import describe
from attention_conformance.reference.self_attention import SelfAttention
from tests.zoo.sound.protocols import Cache, decoder_step, flash_kernel, new_cache, packed_attention


def bare(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = query @ key.mT / query.size(-1) ** 0.5
    return (scores if mask is None else scores.masked_fill(mask == 0, -1e9)).softmax(-1) @ value


def over_queries(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    return (query @ key.mT / query.size(-1) ** 0.5).softmax(-2) @ value


def sdpa(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Any:
    return function(query, key, value, mask, is_causal=causal)


def sdpa_without_mask(
    function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False
) -> Any:
    return function(query, key, value, is_causal=causal)


def call_packed(function: Any, q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, *_: int) -> Any:
    return function(q, k, v, cu_q, cu_k)


def ignores_the_lengths(q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor) -> Tensor:
    return packed_attention(q, k, v, torch.tensor([0, q.size(0)]), torch.tensor([0, k.size(0)]))


def drops_the_first_key(query: Tensor, key: Tensor, value: Tensor, cache: Cache) -> Tensor:
    output = decoder_step(query, key, value, cache)
    if cache.key is not None and cache.value is not None and cache.key.size(2) > 4:
        cache.key, cache.value = cache.key[:, :, 1:], cache.value[:, :, 1:]
    return output


def mha(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    output: Tensor = module(query, key, value, attn_mask=mask, need_weights=False)[0]
    return output


def batch_first(d_model: int, heads: int) -> nn.Module:
    return nn.MultiheadAttention(d_model, heads, batch_first=True)


class TransposedBlock(nn.Module):
    """One tensor, packed projections stored (in, out), and an argument more than the contract has."""

    def __init__(self, d_model: int, heads: int, scale: float = 1.0) -> None:
        super().__init__()
        self.heads, self.scale = heads, scale
        self.mix = nn.Parameter(torch.randn(d_model, 3 * d_model))
        self.mix_bias = nn.Parameter(torch.zeros(3 * d_model))
        self.back = nn.Parameter(torch.randn(d_model, d_model))

    def forward(self, x: Tensor, layer: int, mask: Tensor | None = None) -> tuple[int, Tensor]:
        parts = (x @ self.mix + self.mix_bias).chunk(3, -1)
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        return layer, bare(q * self.scale, k, v, mask).transpose(1, 2).flatten(2) @ self.back


def twice_as_sharp(d_model: int, heads: int) -> nn.Module:
    return TransposedBlock(d_model, heads, scale=2.0)


def call_block(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    output: Tensor = module(query, 3, mask)[1]
    return output


def in_numpy(query: Any, key: Any, value: Any, allowed: Any) -> Any:
    scores = query @ np.swapaxes(key, -1, -2) / np.sqrt(query.shape[-1])
    scores = np.where(allowed, scores, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-1e30))
    return (
        weights / weights.sum(-1, keepdims=True) @ value
        if scores.shape[-1]
        else np.zeros((*scores.shape[:-1], value.shape[-1]))
    )


def unscaled_in_numpy(query: Any, key: Any, value: Any, allowed: Any) -> Any:
    return in_numpy(query * np.sqrt(query.shape[-1]), key, value, allowed)


def call_numpy(function: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    allowed = np.array(True) if mask is None else mask.numpy() != 0
    return torch.from_numpy(np.ascontiguousarray(function(query.numpy(), key.numpy(), value.numpy(), allowed))).to(
        query.dtype
    )


class OtherScale(SelfAttention):
    """Document 2's class with sharper scores."""

    def forward(self, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None) -> Tensor:
        output: Tensor = super().forward(values, keys, query * 2, mask)
        return output


TORCH: dict[str, Any] = {
    "mask": ("bool", "additive"),
    "empty_row": "zeros",
    "leading": "equal",
    "gradient": "once",
    "second": None,
}
FLASH: dict[str, Any] = {
    "layout": "BLHD", "mask": (), "causal": "bottom-right", "heads": "grouped", "second": "lse", "empty_row": "zeros",
    "dtypes": ("bf16", "fp16"), "precision": "fused",
}  # fmt: skip
MHA: dict[str, Any] = {
    "reference": "MultiHeadAttention", "call": mha, "mask": ("bool", "additive"), "mask_means": "hide", "mask_shapes": ("LS", "(BH)LS"),
    "empty_row": "zeros", "gradient": "once", "second": None,
}  # fmt: skip
BLOCK: dict[str, Any] = {
    "inputs": "self", "call": call_block, "second": None, "reference": "MultiHeadAttention",
    "parameters": {"qkv": "mix.T mix_bias", "output": "back.T"},
}  # fmt: skip
FORWARD: dict[str, Any] = {"gradient": "none", "dtypes": ("fp64", "fp32"), "second": None}
KNOWN: dict[str, Any] = {
    "deviations": [Deviation("NUMERIC-001", reason="it is not scaled, and the caller knows")],
    "scale": "1/sqrt(D)",
}


def rejects(records: Iterable[Record]) -> set[str]:
    return {record.rule for record in records if record.failing}


SOUND = {
    "bare kernel": describe(bare),
    "torch's own": describe(
        F.scaled_dot_product_attention, call=sdpa, causal="top-left", causal_with_mask="unspecified", **TORCH
    ),
    "flash kernel": describe(flash_kernel, **FLASH),
    "packed kernel": describe(packed(packed_attention, call=call_packed)),
    "cached decoder": describe(stepwise(decoder_step, new_cache)),
    "torch's module": describe(batch_first, **MHA),
    "one-tensor module": describe(TransposedBlock, **BLOCK),
    "bridged function": describe(in_numpy, call=call_numpy, **FORWARD),
    "document 2": describe(SelfAttention),
}

FAULTY = {
    "bare kernel": (describe(over_queries), "NUMERIC-001"),
    "torch's own": (
        describe(
            F.scaled_dot_product_attention,
            call=sdpa_without_mask,
            causal="top-left",
            causal_with_mask="unspecified",
            **TORCH,
        ),
        "MASK-001",
    ),
    "flash kernel": (describe(flash_kernel, **{**FLASH, "causal": "top-left"}), "CAUSAL-001"),
    "packed kernel": (describe(packed(ignores_the_lengths, call=call_packed)), "SYMMETRY-001"),
    "cached decoder": (describe(stepwise(drops_the_first_key, new_cache)), "CAUSAL-003"),
    "torch's module": (describe(batch_first, **{**MHA, "mask_means": "attend"}), "MASK-001"),
    "one-tensor module": (describe(twice_as_sharp, **BLOCK), "NUMERIC-001"),
    "bridged function": (describe(unscaled_in_numpy, call=call_numpy, **FORWARD), "NUMERIC-001"),
    "document 2": (describe(OtherScale, reference="SelfAttention"), "NUMERIC-001"),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_one_passes(name: str) -> None:
    records = list(check(SOUND[name]))
    assert not [(str(r.key), r.message) for r in records if r.bad]
    assert sum(record.outcome is Outcome.PASSED for record in records) > 50


@pytest.mark.parametrize("name", FAULTY)
def test_its_broken_twin_is_rejected(name: str) -> None:
    implementation, rule = FAULTY[name]
    assert rule in rejects(check(implementation, select=[rule]))


def test_a_known_deviation_stays_visible() -> None:
    def unscaled(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return bare(query * query.size(-1) ** 0.5, key, value, mask)

    known: Implementation = describe(unscaled, **KNOWN)
    assert {record.outcome for record in check(known, select=["NUMERIC-001"])} == {Outcome.DEVIATION}
