"""Transforms of torch are judged by what comes back; what they cannot do with an implementation is not asked."""

from __future__ import annotations

import logging
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attention_conformance import Outcome, check
from attention_conformance.reference.attention import attention
from attention_conformance.rulebook import catalogue
from tests.zoo.faulty import paths
from tests.zoo.mutant import Mutant

RULES = tuple(rule for rule in catalogue() if rule.startswith("PORTABILITY"))
CAUGHT_BY = {
    "compiled_path_ignores_the_mask": "PORTABILITY-001",
    "compiled_path_scales_differently": "PORTABILITY-001",
    "exported_program_hides_keys_past_the_traced_length": "PORTABILITY-003",
    "mapped_calls_share_the_first_mask": "PORTABILITY-004",
    "inference_mode_drops_the_last_key": "PORTABILITY-005",
    "denominator_summed_in_bf16_under_autocast": "PORTABILITY-006",
    "fp16_returned_under_autocast": "PORTABILITY-006",
    "forward_mode_forgets_the_key": "PORTABILITY-007",
    "own_parameters_in_functional_calls": "PORTABILITY-009",
}


def _outcomes(target: Any, *rules: str, **capabilities: Any) -> dict[str, Outcome]:
    records = check(target, tier="thorough", select=rules, **capabilities)
    return {record.rule: record.outcome for record in records if record.rule in rules}


@pytest.mark.parametrize("mutant", tuple(paths.mutants), ids=lambda mutant: mutant.name)
def test_a_fault_of_one_path_is_caught_there(mutant: Mutant) -> None:
    rule = CAUGHT_BY[mutant.name]
    assert _outcomes(mutant.target, rule, **mutant.capabilities) == {rule: Outcome.FAILED}


def test_the_reference_passes_and_torch_is_left_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    compiled = torch.compile(lambda tensor: tensor + 1, backend="eager")
    before = logging.root.manager.disable
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        outcomes = _outcomes(attention, *RULES[:8])
    assert set(outcomes.values()) == {Outcome.PASSED}
    assert (seen, capfd.readouterr()) == ([], ("", ""))
    assert logging.root.manager.disable == before
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))


def test_what_a_transform_cannot_do_is_not_asked() -> None:
    def through_numpy(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = (tensor.detach().numpy() for tensor in (query, key, value))
        scores = q @ np.swapaxes(k, -1, -2) * q.shape[-1] ** -0.5
        if mask is not None:
            scores = np.where(mask.numpy() == 0, -1e9, scores)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        return torch.from_numpy(weights / weights.sum(-1, keepdims=True) @ v).to(query.dtype)

    asked = ("PORTABILITY-002", "PORTABILITY-003", "PORTABILITY-004", "PORTABILITY-007", "PORTABILITY-008")
    outcomes = _outcomes(through_numpy, *asked, gradient="none", dtypes=("fp64",), second=None)
    assert set(outcomes.values()) == {Outcome.NOT_APPLICABLE}


def test_nothing_is_written_where_it_runs(tmp_path: Path) -> None:
    program = (
        "from attention_conformance import check\n"
        "from attention_conformance.reference.attention import attention\n"
        "names = ('PORTABILITY-001', 'PORTABILITY-002')\n"
        "assert all(not record.bad for record in check(attention, tier='thorough', select=names))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
