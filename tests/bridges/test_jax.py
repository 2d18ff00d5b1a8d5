"""Kernels of JAX, where it is installed."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attention_conformance import Outcome, check
from attention_conformance.bridges import bridge_for
from attention_conformance.implementation import describe

jax = pytest.importorskip("jax")


@jax.jit
def attend(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """Attention from its definition."""
    scores = query @ key.swapaxes(-1, -2) / query.shape[-1] ** 0.5
    if mask is not None:
        scores = jax.numpy.where(mask != 0, scores, -1e9)
    weights = jax.nn.softmax(scores, -1)
    return weights @ value, weights


def weights_stand_still(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
    """No gradient flows through the weights."""
    weights = attend(query, key, value, mask)[1]
    return jax.lax.stop_gradient(weights) @ value, weights


_SELECTED = ("SHAPE-001", "MASK-001", "GRADIENT-001", "GRADIENT-002", "GRADIENT-005", "GRADIENT-009", "GRADIENT-011",
             "GRADIENT-012", "GRADIENT-016", "PURITY-001", "PURITY-006", "WEIGHTS-001")  # fmt: skip


def test_a_sound_kernel_passes() -> None:
    implementation = describe(attend, framework="jax")
    assert implementation.capabilities.dtypes == ("fp64", "fp32", "bf16")
    records = list(check(implementation, select=[*_SELECTED, "fp64"]))
    assert not any(record.bad for record in records), [record.message for record in records if record.bad]


def test_half_passes() -> None:
    records = list(check(attend, framework="jax", select=["SHAPE-001", "GRADIENT-012", "bf16"]))
    assert all(record.outcome is Outcome.PASSED for record in records), [record.message for record in records]


def test_a_missing_gradient_is_seen() -> None:
    records = list(check(weights_stand_still, framework="jax", select=["GRADIENT-012", "fp64"]))
    assert records[0].outcome is Outcome.FAILED


def test_64_bits_end_with_the_call() -> None:
    before = jax.config.jax_enable_x64
    output = bridge_for("jax").invoke(lambda sent: sent[0] * 2, (torch.ones(2, dtype=torch.float64),))
    assert output.dtype is torch.float64
    assert jax.config.jax_enable_x64 is before


def test_a_donated_input_is_seen_as_gone() -> None:
    spent = jax.jit(lambda x: x + 1, donate_argnums=0)
    tensor = torch.ones(3)
    bridge_for("jax").invoke(lambda sent: spent(sent[0]), (tensor,))
    assert tensor.isnan().all()
