"""Parameters in training: their gradients, what is left when some are frozen, what a module holds after a step."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from ..cases.inputs import Drawn, Inputs
from ..oracle.comparing import Departure, NotApplicable
from ..oracle.expectations import Near
from ..trials.subject import Result
from ..trials.trial import INPUT_NAMES, Trial


def parameters_agree(
    trial: Trial,
    result: Result,
    module: nn.Module,
    inputs: Inputs,
    when: str = "",
    expected: Mapping[str, Near] | None = None,
) -> None:
    """Compare the gradients of all parameters with the expected ones; `when` is told where one departs."""
    layout = trial.subject.layout(inputs)
    named = {name: tensor for name, tensor in module.named_parameters() if name in layout.names}
    found = trial.backward(result, named, inputs)
    missing = [name for name, gradient in found.items() if gradient is None]
    if missing:
        raise Departure(f"no gradient reaches the parameter {missing[0]}{when}", inputs=inputs)
    gradients = layout.gather({name: gradient for name, gradient in found.items() if gradient is not None})
    expected = trial.expected_gradients(inputs) if expected is None else expected
    for name, gradient in gradients.items():
        near = expected[name]
        trial.near(f"gradient of {name}{when}", gradient.reshape(near.value.shape), near, inputs)


def holding(module: nn.Module, trial: Trial, inputs: Inputs) -> Inputs:
    """Return the inputs with the parameters that the module holds now."""
    layout, drawn = trial.subject.layout(inputs), inputs.parameters
    if drawn is None:
        raise NotApplicable("no parameters are drawn for it")
    held = layout.gather({name: tensor.detach().clone() for name, tensor in module.named_parameters()})
    full, head, bias = dict(drawn.full), dict(drawn.head), dict(drawn.bias)
    for role in layout.weights:
        table = head if layout.structure.shared and role != "output" else full
        table[role] = _over(table[role], held[f"{role}.weight"])
        if f"{role}.bias" in held:
            bias[role] = _over(bias[role], held[f"{role}.bias"])
    return inputs.changed(parameters=Drawn(full, head, bias))


def _over(drawn: Tensor, held: Tensor) -> Tensor:
    """Return what was drawn with the rows that a module holds in place of the first."""
    return torch.cat([held.reshape(-1, *drawn.shape[1:]), drawn[held.numel() // max(drawn[:1].numel(), 1) :]])


def the_rest_agrees(trial: Trial, still: set[str], frozen: set[str], asking: str) -> None:
    """Compare the gradients that are left when some inputs and parameters ask for none."""
    inputs, subject = trial.inputs, trial.subject
    layout, module = subject.layout(inputs), subject.fresh(inputs)
    delivered = subject.deliver(inputs)
    wanted: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        if name in layout.names:
            parameter.requires_grad_(name not in frozen)
            wanted |= {} if name in frozen else {name: parameter}
    for name in INPUT_NAMES:
        getattr(delivered, name).requires_grad_(name not in still)
        wanted |= {} if name in still else {f"input {name}": getattr(delivered, name)}
    found = trial.backward(subject.call(delivered, inputs, module), wanted, inputs)
    lost = [name for name, gradient in found.items() if gradient is None]
    if lost:
        raise Departure(f"no gradient reaches {lost[0]} where {asking} asks for one", inputs=inputs)
    kept = {name: gradient for name, gradient in found.items() if gradient is not None}
    expected = trial.expected_sums()
    for name in INPUT_NAMES:
        if f"input {name}" in kept:
            actual = trial.canonical(kept[f"input {name}"], name)
            trial.near(f"gradient of the {name} where {asking} asks for one", actual, expected[name])
    filled = {name: kept.get(name, torch.zeros_like(tensor)) for name, tensor in module.named_parameters()}
    for name, gradient in layout.gather(filled).items():
        role, kind = name.split(".")
        slots = (layout.weights if kind == "weight" else layout.biases)[role]
        if all(slot.name in kept for slot in slots):
            near = trial.expected_gradients()[name]
            trial.near(f"gradient of {name} where {asking} asks for one", gradient.reshape(near.value.shape), near)
