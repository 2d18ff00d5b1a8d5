"""The stages without any fault give what the oracle gives: output, second result and gradients."""

from __future__ import annotations

import pytest
import torch

from attention_conformance.cases.case import Case
from attention_conformance.conventions.table import second_near
from attention_conformance.diagnosis.faults.backward import Derived
from attention_conformance.diagnosis.matching import gradients
from attention_conformance.diagnosis.stages import run
from attention_conformance.oracle.expectations import Setting, expect
from attention_conformance.oracle.gradients import expected_gradients

from .calls import KERNELS, MODULES, call_of

ALL = pytest.mark.parametrize(("case", "setting"), [*KERNELS, *MODULES], ids=lambda value: getattr(value, "name", ""))
_CLOSE = {"rtol": 1e-9, "atol": 1e-9, "equal_nan": True}


@ALL
def test_output_is_that_of_the_oracle(case: Case, setting: Setting) -> None:
    output, weights = run(call_of(case, setting, {}))
    torch.testing.assert_close(output.detach(), expect(case, setting, "fp64").output.value, **_CLOSE)
    torch.testing.assert_close(weights.detach(), expect(case, setting, "fp64").truth.weights, **_CLOSE)


@ALL
@pytest.mark.parametrize("kind", ["weights", "averaged weights", "lse", "lse2"])
def test_second_result_is_that_of_the_oracle(case: Case, setting: Setting, kind: str) -> None:
    call = call_of(case, setting, {}, kind)
    run(call)
    expected = second_near(kind, expect(case, setting, "fp64")).value
    torch.testing.assert_close(call("second").detach(), expected, **_CLOSE)


@ALL
@pytest.mark.parametrize("stages", [{}, {"backward": Derived()}], ids=["autograd", "written out"])
def test_gradients_are_those_of_the_oracle(case: Case, setting: Setting, stages: dict[str, object]) -> None:
    if stages and (case.bias is not None or case.softcap is not None):
        pytest.skip("written out for plain scores")
    expected = expected_gradients(expect(case, setting, "fp64"))
    names = tuple(expected)
    found = gradients(names, "output")(call_of(case, setting, stages))  # type: ignore[arg-type]
    for name in names:
        scale = float(expected[name].value.abs().max()) + 1
        torch.testing.assert_close(found[name] / scale, expected[name].value / scale, **_CLOSE)
