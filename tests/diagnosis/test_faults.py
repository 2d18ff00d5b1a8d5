"""Each known fault is an entry that can be found: what it computes differs from the definition and bears its name."""

from __future__ import annotations

import re

import pytest

from attention_conformance.cases.case import Case
from attention_conformance.conventions.table import second_near
from attention_conformance.diagnosis.faults import BACKWARD, FAULTS, FORWARD, HINTS, RAISED, SECOND, TOLD, Fault, Told
from attention_conformance.diagnosis.matching import Observed, Predict, gradients, match, outputs, second_results
from attention_conformance.diagnosis.stages import Stages
from attention_conformance.oracle.expectations import Near, Setting, expect
from attention_conformance.oracle.gradients import expected_gradients
from attention_conformance.rulebook import catalogue

from .calls import KERNELS, MODULES, call_of

_KINDS = ("weights", "averaged weights", "lse")
_GRADIENTS = ("query", "key", "value")


def _observed(case: Case, setting: Setting, fault: Fault, stages: Stages, kind: str) -> Observed:
    """Return what an implementation with the fault gives back, as if it had been seen."""
    expectation = expect(case, setting, "fp64")
    predict: Predict
    expected: dict[str, Near]
    if fault in SECOND:
        predict, expected = second_results, {"second": second_near(kind, expectation)}
    elif fault in BACKWARD:
        names = (*_GRADIENTS, "bias") if case.bias is not None else _GRADIENTS
        through = "weights" if fault.name == "weights_gradient_ignored" else "output"
        known = expected_gradients(expect(case, setting, "fp64"), through)
        predict, expected = gradients(names, through), {name: known[name] for name in names}
    else:
        predict, expected = outputs, {"output": expectation.output}
    actual = {name: t.detach() for name, t in predict(call_of(case, setting, stages, kind)).items() if name in expected}
    return Observed("fp64", actual, expected, lambda other: call_of(case, setting, other, kind), predict)


def _shows(case: Case, setting: Setting, fault: Fault, kind: str) -> bool:
    blank = call_of(case, setting, {}, kind)
    if not fault.when(blank):
        return False
    for stages in fault.variants(blank):
        try:
            observed = _observed(case, setting, fault, stages, kind)
        except (RuntimeError, IndexError, ValueError):
            continue
        if observed.any_departs and match(observed, stages) == 1.0:
            return True
    return False


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_departs_from_the_definition_and_explains_itself(fault: Fault) -> None:
    kinds = _KINDS if fault in SECOND else ("weights",)
    assert any(_shows(case, setting, fault, kind) for case, setting in (*KERNELS, *MODULES) for kind in kinds)


def test_names_are_unique_within_a_table_and_read_as_names() -> None:
    for table in (FORWARD, BACKWARD, SECOND):
        names = [fault.name for fault in table]
        assert len(names) == len(set(names))
        assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_says_what_is_done_and_what_to_do(fault: Fault) -> None:
    assert fault.sentence.endswith(".")
    assert fault.repair.endswith(".")
    assert not re.search(r"\b(should|must)\b", fault.text)


@pytest.mark.parametrize("entry", [*TOLD, *HINTS, *RAISED], ids=lambda entry: entry.name)
def test_what_a_rule_shows_belongs_to_a_rule(entry: Told) -> None:
    assert any(re.fullmatch(entry.rule, rule) for rule in catalogue())
    assert entry.sentence.endswith(".")
    assert entry.repair.endswith(".")
