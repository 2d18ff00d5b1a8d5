"""`packed` and `stepwise`: what they hand on, what they refuse, and whom the rules then blame."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attention_conformance import Outcome, check, packed, stepwise
from attention_conformance.calling.protocols import UnsuitableInputs
from tests.zoo.sound.plain import attend_plainly
from tests.zoo.sound.protocols import Cache, decoder_step, new_cache, packed_attention

FP32: dict[str, Any] = {"dtypes": ("fp32",)}


def call_packed(
    function: Any, q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, *_: int, **more: Any
) -> Any:
    return function(q, k, v, cu_q, cu_k, **more)


def with_logsumexp(q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor, *_: int) -> tuple[Tensor, Tensor]:
    output = packed_attention(q, k, v, cu_q, cu_k)
    owner = torch.repeat_interleave(torch.arange(len(cu_q) - 1), cu_q.diff())
    keys = torch.repeat_interleave(torch.arange(len(cu_k) - 1), cu_k.diff())
    scores = q.transpose(0, 1) @ k.permute(1, 2, 0) / q.size(-1) ** 0.5
    return output, scores.masked_fill(owner[:, None] != keys, -torch.inf).logsumexp(-1)


def doubled_logsumexp(*arguments: Any) -> tuple[Tensor, Tensor]:
    output, level = with_logsumexp(*arguments)
    return output, 2 * level


def as_long_as_the_queries(q: Tensor, k: Tensor, v: Tensor, cu_q: Tensor, cu_k: Tensor) -> Tensor:
    even = torch.arange(len(cu_k), dtype=torch.int32) * (k.size(0) // max(len(cu_k) - 1, 1))
    even[-1] = k.size(0)
    return packed_attention(q, k, v, cu_q, even)


def append(key: Tensor, value: Tensor, cache: Cache) -> tuple[Tensor, Tensor]:
    cache.key = key if cache.key is None else torch.cat([cache.key, key], dim=2)
    cache.value = value if cache.value is None else torch.cat([cache.value, value], dim=2)
    return cache.key, cache.value


def scaled_step(q: Tensor, k: Tensor, v: Tensor, cache: Cache, scale: float | None = None) -> Tensor:
    return attend_plainly(q, *append(k, v, cache), scale=scale).output


def grouped_step(q: Tensor, k: Tensor, v: Tensor, cache: Cache) -> Tensor:
    repeats = q.size(1) // k.size(1)
    return attend_plainly(q, *(t.repeat_interleave(repeats, dim=1) for t in append(k, v, cache))).output


def functional_step(q: Tensor, k: Tensor, v: Tensor, cache: Any) -> tuple[Tensor, Any]:
    keys, values = (k, v) if cache is None else (torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2))
    return attend_plainly(q, keys, values).output, (keys, values)


def drops_its_first_key(q: Tensor, k: Tensor, v: Tensor, cache: Cache) -> Tensor:
    keys, values = append(k, v, cache)
    return attend_plainly(q, keys[:, :, int(keys.size(2) > 1) :], values[:, :, int(keys.size(2) > 1) :]).output


def one_cache_for_the_batch(q: Tensor, k: Tensor, v: Tensor, cache: Cache) -> Tensor:
    return decoder_step(q, k[:1].expand_as(k), v[:1].expand_as(v), cache)


def keeps_the_query(q: Tensor, k: Tensor, v: Tensor, cache: Cache) -> Tensor:
    output = decoder_step(q, k, v, cache)
    cache.value = None if cache.value is None else cache.value + 0.1 * q.sum()
    return output


def failing(target: Any, **more: Any) -> set[str]:
    return {record.rule for record in check(target, **FP32, **more) if record.bad}


def test_lengths_reach_the_kernel_as_cumulated_lengths() -> None:
    seen: list[Any] = []

    def kernel(q: Tensor, k: Tensor, v: Tensor, *rest: Any) -> Tensor:
        seen.extend([q.shape, k[:, 0, 0].tolist(), v.shape, *rest])
        return q.new_zeros(q.size(0), q.size(1), v.size(2))

    key = torch.arange(8.0).reshape(2, 1, 4, 1)
    output = packed(kernel)(torch.ones(2, 1, 3, 1), key, torch.ones(2, 1, 4, 5), torch.tensor([0, 2]))
    assert output.shape == (2, 1, 3, 5)
    shape_q, keys, shape_v, cu_q, cu_k, longest_q, longest_k = seen
    assert (shape_q, keys, shape_v) == ((6, 1, 1), [4.0, 5.0], (2, 1, 5))
    assert (cu_q.tolist(), cu_k.tolist(), cu_q.dtype, cu_k.dtype) == ([0, 3, 6], [0, 0, 2], torch.int32, torch.int32)
    assert (longest_q, longest_k) == (3, 2)


def test_a_prefilled_step_adds_its_key_and_gives_no_row() -> None:
    steps: list[tuple[float, float]] = []

    def step(q: Tensor, k: Tensor, v: Tensor, cache: None) -> Tensor:
        steps.append((q.item(), k.item()))
        return v

    output = stepwise(step, lambda: None)(
        torch.tensor([7.0, 8.0]).reshape(1, 1, 2, 1), *2 * [torch.arange(4.0).reshape(1, 1, 4, 1)]
    )
    assert output.flatten().tolist() == [2.0, 3.0]
    assert steps == [(7.0, 0.0), (7.0, 1.0), (7.0, 2.0), (8.0, 3.0)]


SOUND: dict[str, tuple[Any, dict[str, Any]]] = {
    "packed, causal": (packed(packed_attention, call=call_packed), {"causal": "bottom-right"}),
    "packed, logsumexp": (packed(with_logsumexp), {"second": "lse"}),
    "step with a scale": (stepwise(scaled_step, new_cache), {"options": ("scale",)}),
    "step with grouped heads": (stepwise(grouped_step, new_cache), {"heads": "grouped"}),
    "step that returns its cache": (stepwise(functional_step, lambda: None), {}),
}
FAULTY: dict[str, tuple[Any, dict[str, Any], str]] = {
    "keys of others": (packed(as_long_as_the_queries, call=call_packed), {}, "MASK-007"),
    "logsumexp in another base": (packed(doubled_logsumexp), {"second": "lse"}, "WEIGHTS-001"),
    "first key dropped": (stepwise(drops_its_first_key, new_cache), {}, "CAUSAL-003"),
    "cache shared by the batch": (stepwise(one_cache_for_the_batch, new_cache), {}, "CAUSAL-003"),
    "query kept": (stepwise(keeps_the_query, new_cache), {}, "CAUSAL-003"),
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_one_passes(name: str) -> None:
    target, declared = SOUND[name]
    assert failing(target, **declared) == set()


@pytest.mark.parametrize("name", FAULTY)
def test_a_faulty_one_fails(name: str) -> None:
    target, declared, rule = FAULTY[name]
    assert rule in failing(target, **declared, select=[rule])


def test_a_cache_that_outlives_the_call_fails() -> None:
    cache = Cache()
    assert "CAUSAL-003" in failing(stepwise(decoder_step, lambda: cache), select=["CAUSAL-003"])


@pytest.mark.parametrize("target", [packed(packed_attention, call=call_packed), stepwise(decoder_step, new_cache)])
def test_an_adapter_hides_no_bad_input(target: Any) -> None:
    records = list(check(target, **FP32, tier="thorough", select=["ERRORS"]))
    assert not [record.message for record in records if record.bad]
    assert [record.rule for record in records if record.outcome is Outcome.PASSED].count("ERRORS-007") == 1


def test_a_result_of_another_protocol_is_named() -> None:
    with pytest.raises(UnsuitableInputs, match=r"\(total_q, H, E\) with total_q = 6, and this is .*\(1, 6, 2\)"):
        packed(lambda q, *_: q.transpose(0, 1))(*3 * [torch.ones(2, 1, 3, 2)])


def test_a_mask_for_a_decoder_is_refused() -> None:
    tensors = 3 * [torch.ones(1, 1, 2, 2)]
    with pytest.raises(UnsuitableInputs, match=r"declare mask=\(\)"):
        stepwise(decoder_step, new_cache)(*tensors, torch.ones(2, 2, dtype=torch.bool))
