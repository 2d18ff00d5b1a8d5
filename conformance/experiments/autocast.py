"""Calls under autocast: inputs and results in fp32, computed as near as bf16."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from ..cases.inputs import Drawn, Inputs
from ..foreign.edge import foreign
from ..oracle.comparing import Departure
from ..oracle.expectations import Near
from ..trials.subject import Result, Subject
from ..trials.trial import INPUT_NAMES, Trial

ROUNDINGS = 4
"""How many times the allowance of eager bf16 a result under autocast may be off: which stages it rounds is up to it."""


def in_fp32(trial: Trial) -> Trial:
    """Return the trial in fp32, which is what autocast is handed."""
    if trial.dtype == "fp32":
        return trial
    other = Trial(Subject(trial.subject.implementation, "fp32", trial.mode), trial.case)
    other.note = trial.note  # type: ignore[method-assign]
    return other


def widened(narrow: Inputs) -> Inputs:
    """Return the inputs in fp32, with the same values."""
    names = (*INPUT_NAMES, "upstream", "upstream_weights")
    tensors = {name: getattr(narrow, name).float() for name in names}
    if narrow.parameters is None:
        return narrow.changed(dtype="fp32", **tensors)
    full, head, bias = (
        {role: tensor.float() for role, tensor in table.items()}
        for table in (narrow.parameters.full, narrow.parameters.head, narrow.parameters.bias)
    )
    return narrow.changed(dtype="fp32", parameters=Drawn(full, head, bias), **tensors)


def several(near: Near) -> Near:
    """Return what is expected with the allowance of a result under autocast."""
    return Near(near.value, ROUNDINGS * near.allowed)


def gradients_under_autocast_agree(trial: Trial, result: Result, inputs: Inputs, expected: Mapping[str, Near]) -> None:
    """Compare the gradients of the inputs, taken after a call under autocast."""
    names = trial.capabilities.distinct
    sent = [getattr(result.delivered, name) for name in names]
    upstream = inputs.upstream.to(result.output.device, result.output.dtype)
    found = foreign(torch.autograd.grad, result.output, sent, upstream, allow_unused=True)
    for name, gradient in zip(names, found, strict=True):
        if gradient is None:
            raise Departure(f"no gradient reaches the {name} under autocast", inputs=inputs)
        near = several(trial.sums(expected, inputs.case.shared)[name])
        trial.near(f"gradient of the {name} under autocast", trial.canonical(gradient, name, inputs), near, inputs)
