"""What a model's own attention function does is read off its code; copies that differ are told apart."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attention_conformance import check
from attention_conformance.adapters.transformers_functions import answers, eager
from attention_conformance.implementation import describe

Pair = tuple[Tensor, Tensor]


def plain(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, scaling: float, **kwargs: Any
) -> Pair:
    """Softmax in the dtype of the inputs."""
    scores = query @ key.mT * scaling
    weights = (scores if attention_mask is None else scores + attention_mask).softmax(-1)
    return (weights @ value).transpose(1, 2), weights


def grouped(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, scaling: float,
    softcap: float | None = None, **kwargs: Any,
) -> Pair:  # fmt: skip
    """Key heads are repeated, scores capped, and the softmax runs in float32."""
    key, value = (tensor.repeat_interleave(module.num_key_value_groups, 1) for tensor in (key, value))
    scores = query @ key.mT * scaling
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    scores = scores if attention_mask is None else scores + attention_mask
    weights = torch.softmax(scores, -1, dtype=torch.float32).to(query.dtype)
    return (weights @ value).transpose(1, 2), weights


def sunk(
    module: Any, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, scaling: float,
    position_bias: Tensor | None = None, **kwargs: Any,
) -> Pair:  # fmt: skip
    """A sink takes part in the softmax, after a bias."""
    scores = query @ key.mT * scaling
    scores = scores if position_bias is None else scores + position_bias
    scores = scores if attention_mask is None else scores + attention_mask
    sink = module.sinks.view(1, -1, 1, 1).expand(*scores.shape[:-1], 1)
    weights = torch.cat([scores, sink], -1).softmax(-1)[..., :-1]
    return (weights @ value).transpose(1, 2), weights


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (plain, {"heads": "equal", "precision": "eager", "empty_row": "nan", "options": ("scale",)}),
        (grouped, {"heads": "grouped", "precision": "softmax32", "empty_row": "nan", "options": ("scale", "softcap")}),
        (sunk, {"heads": "equal", "precision": "eager", "empty_row": "zeros", "options": ("scale", "bias")}),
    ],
)
def test_what_is_read_off_the_code_is_what_the_function_does(function: Any, told: dict[str, Any]) -> None:
    found = answers(function)
    assert {name: found[name] for name in told} == told
    implementation = describe(function, call=eager, **{**found, "dtypes": ("fp64",)})
    bad = [record for record in check(implementation, select=["NUMERIC", "MASK", "OPTIONS", "SHAPE"]) if record.bad]
    assert not bad, bad[0].message


def test_another_answer_would_fail() -> None:
    wrong = {**answers(sunk), "empty_row": "nan", "dtypes": ("fp64",)}
    records = check(describe(sunk, call=eager, **wrong), select=["MASK-002"])
    assert [record.bad for record in records] == [True]
