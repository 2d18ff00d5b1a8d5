"""Where several tensors go in as one: on which axis they are stacked is found out by trying."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from ..cases.layouts import to_layout
from ..errors import UnknownCall
from ..foreign.edge import Raised, foreign
from .form import Form

if TYPE_CHECKING:
    from .delivered import Delivered

_SIZES = (5, 4, 7)
"""B, H and L of the trial: none is the number of tensors that are stacked, so that one axis only can be taken apart."""


def settled(form: Form, target: Any, sent: Delivered) -> Form:
    """Return the form with the axis on which tensors are stacked, found by a call for every axis.

    The axis holds if the call returns a tensor of the query's shape. Raises UnknownCall unless exactly one does.
    """
    trial = _trial(sent, form.own.layout)
    axes = range(trial.query.dim())
    fitting = [axis for axis in axes if _fits(replace(form, axis=axis), target, trial)]
    if len(fitting) != 1:
        seen = f"stacked on axis {' or '.join(map(str, fitting))} it works" if fitting else "no axis gave an output"
        raise UnknownCall(form.told(f"its argument {form.packed!r} holds several tensors, and {seen}"))
    return replace(form, axis=fitting[0])


def _trial(sent: Delivered, layout: str) -> Delivered:
    generator = torch.Generator().manual_seed(0)
    size = (*_SIZES, sent.query.shape[-1])
    tensor = to_layout(torch.randn(size, generator=generator), layout).to(sent.query.device, sent.query.dtype)
    return replace(sent, query=tensor, key=tensor.clone(), value=tensor.clone(), mask=None, options={}, heads=(4, 4))


def _fits(form: Form, target: Any, trial: Delivered) -> bool:
    try:
        with torch.no_grad():
            returned = foreign(form.invoke, target, trial)
    except Raised:
        return False
    first = returned[0] if isinstance(returned, (tuple, list)) and returned else returned
    return isinstance(first, torch.Tensor) and first.shape == trial.query.shape
