"""Functions that are handed their parameters are judged as modules."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attention_conformance import check, projected, verdict
from attention_conformance.errors import InvalidTarget
from attention_conformance.implementation import describe
from tests.bridges import kernels


def layer(query: Any, key: Any, value: Any, mask: Any = None, *, parameters: Any, heads: int) -> Any:
    """Attention of several heads, in numpy or torch."""

    def split(x: Any, role: str) -> Any:
        mapped = x @ parameters[f"{role}.weight"].T + parameters.get(f"{role}.bias", 0)
        return mapped.reshape(*x.shape[:2], heads, x.shape[2] // heads).swapaxes(1, 2)

    q, k, v = split(query, "query"), split(key, "key"), split(value, "value")
    while mask is not None and mask.ndim < 4:
        mask = mask[None]
    output, weights = kernels.attend(q, k, v, mask)
    merged = output.swapaxes(1, 2).reshape(query.shape)
    return merged @ parameters["output.weight"].T + parameters.get("output.bias", 0), weights


def self_layer(x: Any, mask: Any = None, *, parameters: Any, heads: int) -> Any:
    """Attention of one tensor to itself."""
    return layer(x, x, x, mask, parameters=parameters, heads=heads)


def test_a_function_of_parameters_is_a_module() -> None:
    implementation = describe(projected(layer, framework="numpy"))
    records = list(check(implementation))
    assert implementation.reference.name == "MultiHeadAttention"
    assert implementation.framework == "numpy"
    assert verdict(implementation, records) in ("conforms", "conforms-declared"), [
        (record.rule, record.message) for record in records if record.bad
    ]


@pytest.mark.parametrize("biases", [(), ("query", "key", "value")])
def test_projections_may_lack_biases(biases: tuple[str, ...]) -> None:
    module = projected(layer, framework="numpy", biases=biases)(8, 2)
    assert {name for name, _ in module.named_parameters() if name.endswith("bias")} == {f"{r}.bias" for r in biases}
    records = list(check(projected(layer, framework="numpy", biases=biases), select=["SHAPE-001", "NUMERIC-002"]))
    assert all(record.outcome == "passed" for record in records), [record.message for record in records]


def test_one_tensor_suffices() -> None:
    records = list(check(projected(self_layer, framework="numpy"), inputs="self", select=["NUMERIC", "fp64"]))
    assert not any(record.bad for record in records), [record.message for record in records if record.bad]


def test_over_torch_the_parameters_learn() -> None:
    def linear(query: Any, key: Any, value: Any, *, parameters: Any, heads: int) -> Any:
        return query @ parameters["output.weight"].T

    module = projected(linear)(4, 2)
    module(torch.ones(1, 3, 4), torch.ones(1, 3, 4), torch.ones(1, 3, 4)).sum().backward()
    assert torch.equal(module.output.weight.grad, torch.full((4, 4), 3.0))


@pytest.mark.parametrize(
    ("keywords", "told"),
    [({"framework": "jaxx"}, "framework='jaxx' is none of"), ({"biases": ("queries",)}, "biases names 'queries'")],
)
def test_wrong_words_are_named(keywords: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidTarget, match=told):
        projected(layer, **keywords)


def test_a_framework_that_contradicts_is_named() -> None:
    with pytest.raises(InvalidTarget, match="made for 'numpy'"):
        describe(projected(layer, framework="numpy"), framework="jax")
