"""Snapshots: the documents' behaviour as it was frozen in golden vectors, by which no oracle of today is asked."""

from __future__ import annotations

from collections.abc import Callable

from ..cases.case import Case
from ..cases.inputs import Inputs
from ..experiments.training import parameters_agree
from ..goldens.files import Golden
from ..goldens.inputs import counted, inputs_of, is_carried_by, near, suited
from ..oracle.comparing import Departure, NotApplicable
from ..oracle.expectations import Near
from ..rulebook import rule
from ..trials.trial import INPUT_NAMES, Trial, summed

FROZEN = Case("golden vectors")
"""Stands for all of them; a departure names its own."""

_SOURCE = "Documents 1 and 2, proven with fifty digits and frozen: attention_conformance/snapshots"
_DIFFERENTIABLE = {"gradient": ("once", "twice")}

_TOUCHED = ("layout", "scale", "causal", "mask_means", "empty_row", "no_keys")
"""The conventions that some vector depends on."""

Judge = Callable[[Trial, Golden, Inputs], None]


def _each(trial: Trial, judge: Judge) -> None:
    """Judge every vector that suits the implementation. A departure leaves its case in `trial.case`.

    Another case than the standing one is a simpler version of a vector that failed: the definition judges it.
    """
    if trial.case.name != FROZEN.name:
        _by_definition(trial)
        return
    chosen = suited(trial.subject.implementation, trial.dtype)
    judged, others = 0, dict(chosen.reasons)
    for vector, case in chosen.vectors:
        inputs = inputs_of(vector, case, trial.dtype)
        reason = is_carried_by(vector, trial.subject.layout(inputs).structure) if trial.is_module else None
        if reason is not None:
            others[reason] = others.get(reason, 0) + 1
            continue
        _one(trial, judge, vector, case, inputs)
        judged += 1
    trial.remark = counted(judged, others)
    if not judged:
        raise NotApplicable(trial.remark)


def _one(trial: Trial, judge: Judge, vector: Golden, case: Case, inputs: Inputs) -> None:
    standing, trial.case = trial.case, case
    try:
        judge(trial, vector, inputs)
    except Departure as departure:
        departure.text = f"vector {vector.id} (snapshots/{vector.file}): {departure.text}"
        departure.inputs = departure.inputs or inputs
        raise
    trial.case = standing


def _by_definition(trial: Trial) -> None:
    result = trial.run()
    trial.agrees(result)
    if trial.mode == "train" and trial.capabilities.gradient != "none":
        trial.gradients_agree(result)


@rule("SNAPSHOT-001", source=_SOURCE, cases=(FROZEN,), modes=("eval",), depends=_TOUCHED)
def golden_outputs_are_reproduced(trial: Trial) -> None:
    """The output of every golden vector is reproduced within the allowance that stands beside it."""
    _each(trial, _output)


def _output(trial: Trial, vector: Golden, inputs: Inputs) -> None:
    trial.near("output", trial.run(inputs).output, _near(trial, vector, "output"), inputs)


def _near(trial: Trial, vector: Golden, name: str) -> Near:
    return near(vector.id, name, trial.dtype, trial.capabilities.precision)


@rule(
    "SNAPSHOT-002",
    source=_SOURCE,
    cases=(FROZEN,),
    modes=("eval",),
    needs={"second": ("optional weights", "weights")},
    depends=(*_TOUCHED, "second"),
)
def golden_weights_are_reproduced(trial: Trial) -> None:
    """The weights of every golden vector that has any are reproduced within the allowance beside them."""
    _each(trial, _weights)


def _weights(trial: Trial, vector: Golden, inputs: Inputs) -> None:
    if "weights" not in vector.expected:
        raise NotApplicable(f"reference={vector.reference!r}: no vector has weights")
    found = trial.run(inputs).second
    if found is None and trial.capabilities.second == "optional weights":
        raise NotApplicable("second: no weights are returned")
    if found is None:
        raise Departure("no second result was returned", inputs=inputs, declare="second=None")
    trial.near("second result (weights)", found, _near(trial, vector, "weights"), inputs)


@rule("SNAPSHOT-003", source=_SOURCE, cases=(FROZEN,), modes=("train",), needs=_DIFFERENTIABLE, depends=_TOUCHED)
def golden_gradients_are_reproduced(trial: Trial) -> None:
    """The gradients of query, key and value of every golden vector are reproduced within the allowance beside them."""
    _each(trial, _gradients)


def _gradients(trial: Trial, vector: Golden, inputs: Inputs) -> None:
    result = trial.run(inputs)
    if inputs.case.keys == 0 and not result.output.requires_grad:
        # What depends on nothing needs no gradient.
        return
    expected = {name: _near(trial, vector, f"gradient of {name}") for name in INPUT_NAMES}
    if inputs.case.shared:
        expected = summed(expected, inputs.case.shared)
    for name, gradient in trial.input_gradients(result, inputs).items():
        if name == "value" or not _has_uniform_rows(trial, vector):
            trial.near(f"gradient of the {name}", gradient, expected[name], inputs)


def _has_uniform_rows(trial: Trial, vector: Golden) -> bool:
    """Say whether a row is the mean of all values: where the fill is added, query and key still get a gradient there."""
    return "empty_row" in vector.conventions and trial.capabilities.empty_row == "uniform"


@rule(
    "SNAPSHOT-004",
    source=_SOURCE,
    cases=(FROZEN,),
    modes=("train",),
    needs=_DIFFERENTIABLE,
    kinds=("module",),
    depends=_TOUCHED,
)
def golden_gradients_of_parameters_are_reproduced(trial: Trial) -> None:
    """The gradients of a module's weights and biases are, for every golden vector, within the allowance beside them."""
    _each(trial, _of_parameters)


def _of_parameters(trial: Trial, vector: Golden, inputs: Inputs) -> None:
    if _has_uniform_rows(trial, vector):
        return
    result, module = trial.run(inputs), trial.subject.module(inputs)
    expected = {name: _near(trial, vector, f"gradient of {name}") for name in vector.gradients if "." in name}
    parameters_agree(trial, result, module, inputs, expected=expected)
