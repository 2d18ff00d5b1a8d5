"""Kernels of numpy arrays are judged by the same rules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from attention_conformance import Outcome, check, verdict
from attention_conformance.bridges import bridge_for
from attention_conformance.errors import InvalidCapability
from attention_conformance.foreign.edge import WrongResult
from attention_conformance.implementation import describe
from tests.bridges import kernels


def outcomes(target: Any, *select: str, **declared: Any) -> dict[str, Outcome]:
    return {record.rule: record.outcome for record in check(target, framework="numpy", select=select, **declared)}


def test_a_sound_kernel_conforms_without_a_declaration() -> None:
    implementation = describe(kernels.attend, framework="numpy")
    records = list(check(implementation))
    assert implementation.declared == ()
    assert {record.dtype for record in records} == {"fp64", "fp32", None}
    assert verdict(implementation, records) == "conforms", [record.message for record in records if record.bad]


def test_a_wrong_scale_is_named() -> None:
    failed = list(check(kernels.scale_is_doubled, framework="numpy", select=["NUMERIC-001", "fp64"]))
    assert failed[0].outcome is Outcome.FAILED
    assert failed[0].diagnosis


@pytest.mark.parametrize(
    ("kernel", "rule", "dtype"),
    [
        (kernels.query_is_scaled_in_place, "PURITY-001", "fp64"),
        (kernels.output_lies_in_the_value, "PURITY-005", "fp64"),
        (kernels.output_buffer_is_kept(), "PURITY-004", "fp64"),
        (kernels.strides_are_forgotten, "MEMORY-001", "fp64"),
        (kernels.output_is_widened, "SHAPE-001", "fp32"),
        (kernels.random_state_is_seeded, "PURITY-006", "fp64"),
    ],
)
def test_faults_around_memory_and_state_are_seen(kernel: Any, rule: str, dtype: str) -> None:
    found = outcomes(kernel, rule, dtype)
    assert found[rule] is Outcome.FAILED


def test_transforms_of_torch_do_not_apply() -> None:
    implementation = describe(kernels.attend, framework="numpy")
    records = list(check(implementation, tier="thorough", select=["PORTABILITY"]))
    assert {record.message for record in records} == {"framework='numpy'"}
    assert {record.outcome for record in records} == {Outcome.NOT_APPLICABLE}


def test_gradients_cannot_be_declared() -> None:
    with pytest.raises(InvalidCapability, match="leave gradient= out"):
        describe(kernels.attend, framework="numpy", gradient="once")


def test_an_array_lies_in_the_memory_of_its_tensor_with_its_strides() -> None:
    tensor = torch.arange(24.0).reshape(2, 3, 4).transpose(0, 2)
    array = bridge_for("numpy").array(tensor)
    array[0, 0, 0] = 7
    assert tensor[0, 0, 0] == 7
    assert array.strides == tuple(4 * stride for stride in tensor.stride())


def test_a_tensor_of_several_roles_is_one_array() -> None:
    x = torch.ones(2, 3)
    same = bridge_for("numpy").invoke(lambda sent: sent["key"] is sent["query"], {"query": x, "key": x})
    assert same is True


@pytest.mark.parametrize("array", [np.ones((2, 3))[::-1], np.broadcast_to(np.ones(3), (2, 3)), np.ones((2, 3), ">f8")])
def test_arrays_that_torch_does_not_take_as_they_are_come_back(array: Any) -> None:
    tensor = bridge_for("numpy").tensor(array)
    assert tensor.dtype is torch.float64
    assert torch.equal(tensor, torch.ones(2, 3, dtype=torch.float64))


def test_a_dtype_that_torch_lacks_is_named() -> None:
    with pytest.raises(WrongResult, match="dtype <U1"):
        bridge_for("numpy").tensor(np.array(["a"]))


def test_half_of_numpy_goes_both_ways() -> None:
    pytest.importorskip("ml_dtypes")
    bridge = bridge_for("numpy")
    tensor = torch.tensor([1.5, -2.0], dtype=torch.bfloat16)
    array = bridge.array(tensor)
    assert array.dtype.name == "bfloat16"
    assert torch.equal(bridge.tensor(array), tensor)
