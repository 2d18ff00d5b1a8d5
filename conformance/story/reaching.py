"""Which keys reach which queries: read out of an implementation, beside what its mask asks for.

One key after the other gets another value, with every query at zero so that all scores are alike, and each row of the
output is watched. Nothing is assumed but that attention returns a mean of values; a row without any key may well
show all of them, as its convention says.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases.inputs import Inputs
from ..foreign.edge import FOREIGN
from ..oracle.pictures import cut
from ..records import Picture
from ..trials.trial import Trial

MOST_KEYS = 24
"""Longer cases are not read out: each key costs a call."""

LEAST_SHARE = 0.01
"""What changes an output by less than this share of the largest change is rounding."""


def of_masks(trial: Trial, inputs: Inputs) -> tuple[Picture, ...]:
    """Return the keys that were asked for and those that reached a query, in the first matrix where both differ.

    Nothing is returned for a call that hides no key, or that raises.
    """
    asked = trial.expectation(inputs).problem.allowed
    if asked is None or inputs.key.shape[-2] > MOST_KEYS or not inputs.query.numel():
        return ()
    try:
        reached = _reached(trial, inputs)
    except FOREIGN:
        return ()
    # A module's output has no heads: a key reaches a query through any of them.
    wanted = (asked.any(-3) if trial.is_module else asked).expand(reached.shape)
    differs = (reached != wanted) & ~reached.isnan()
    place = tuple(int(i) for i in differs.nonzero()[0][:-2]) if bool(differs.any()) else (0,) * (reached.dim() - 2)
    axes, what = ("L", "S"), "keys that each query sees"
    return (
        cut("asked", what, wanted[place].double(), place, axes, None),
        cut("reached", what, reached[place], place, axes, None),
    )


def _reached(trial: Trial, inputs: Inputs) -> Tensor:
    """Return (..., L, S), 1 where a changed key changed the output, nan where a token is query and key at once."""
    quiet = inputs.changed(query=torch.zeros_like(inputs.query))
    generator = torch.Generator().manual_seed(0)
    probe = torch.randn(inputs.value.shape, generator=generator, dtype=torch.float64).to(inputs.value.dtype)
    still = torch.zeros_like(probe)
    before = _output(trial, _with_value(quiet, still))
    columns = []
    for key in range(inputs.key.shape[-2]):
        value = still.clone()
        value[..., key, :] = probe[..., key, :]
        columns.append((_output(trial, _with_value(quiet, value)) - before).abs().amax(-1))
    change = torch.stack(columns, -1)
    reached = (change > LEAST_SHARE * change.amax()).double()
    if inputs.case.shared == "qkv":
        reached[..., torch.eye(*reached.shape[-2:], dtype=torch.bool)] = torch.nan
    return reached


def _with_value(inputs: Inputs, value: Tensor) -> Inputs:
    """Return inputs with this value, which also stands for the arguments that are no tensors of their own."""
    shared = {"qkv": ("query", "key"), "kv": ("key",)}.get(inputs.case.shared, ())
    return inputs.changed(value=value, **dict.fromkeys(shared, value))


def _output(trial: Trial, inputs: Inputs) -> Tensor:
    with torch.no_grad():
        return trial.run(inputs).output.detach().to("cpu", torch.float64).nan_to_num()
