"""Memory: tensors are read by their strides and offsets, one input at a time and all together."""

from __future__ import annotations

from ..cases.case import Case, vary
from ..rulebook import rule
from ..trials.trial import Trial

_BASE = Case("memory", batch=2, heads=4, queries=5, keys=5, width=8, value_width=8)
_KINDS = ("transposed", "heads swapped", "sliced", "offset", "rows apart")


def _each(how: str) -> tuple[Case, ...]:
    alone = tuple(vary(_BASE, f"{name} {how}", memory=how, strided=(name,)) for name in ("query", "key", "value"))
    return (*alone, vary(_BASE, f"all {how}", memory=how))


@rule(
    "MEMORY-001",
    source="Known kind of fault: strided input; one input at a time, since mixed layouts hide faults (flagos-ai/FlagGems#5896, ROCm/pytorch#3230)",
    cases=tuple(case for how in _KINDS for case in _each(how)),
)
def inputs_are_read_by_their_strides(trial: Trial) -> None:
    """An input that is transposed, sliced, offset or cut from a wider one gives what a contiguous copy gives."""
    trial.agrees(trial.run())


@rule(
    "MEMORY-002",
    source="Known kind of fault: expanded input; stride 0 read as contiguous (pytorch/pytorch#191937)",
    cases=(Case("expanded key and value", batch=3, keys=9), Case("expanded, past a block", batch=2, heads=2, keys=33)),
    needs={"inputs": "cross"},
)
def expanded_inputs_are_read_by_their_strides(trial: Trial) -> None:
    """An input that is expanded over the batch with stride 0 gives what a copy gives."""
    inputs = trial.inputs
    first = {name: getattr(inputs, name)[:1].expand(getattr(inputs, name).shape) for name in ("key", "value")}
    expanded = inputs.changed(
        **first, case=vary(inputs.case, inputs.case.name, memory="expanded", strided=("key", "value"))
    )
    trial.agrees(trial.run(expanded), expanded)


@rule(
    "MEMORY-003",
    source="Gradients of views: a backward pass that assumes the layout of the forward pass",
    cases=(
        vary(_BASE, "gradients, heads swapped", memory="heads swapped"),
        vary(_BASE, "gradients, transposed", memory="transposed"),
        vary(_BASE, "gradients, sliced", memory="sliced"),
    ),
    modes=("train",),
    needs={"gradient": ("once", "twice")},
)
def gradients_of_views_agree(trial: Trial) -> None:
    """The gradients of inputs that are views agree as well."""
    trial.gradients_agree(trial.run())
