"""A failure of an implementation that an adapter calls can be pasted: its script needs torch and the implementation only."""

from __future__ import annotations

import pytest

from attention_conformance.adapters import ADAPTERS, Adapter
from attention_conformance.cases.case import MASKED, PADDED
from tests.adapters.pasted import largest_differences

TORCH = [adapter for adapter in ADAPTERS if adapter.target.startswith("torch.")]


@pytest.mark.parametrize("adapter", TORCH, ids=lambda adapter: adapter.text)
def test_a_script_runs_where_this_package_is_not_installed(adapter: Adapter) -> None:
    differences = largest_differences(adapter.describe({}), "fp64", MASKED, PADDED)
    assert len(differences) == 4
    assert max(differences) < 1e-12
