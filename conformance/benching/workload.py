"""One implementation with its tensors, ready to be called again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from ..cases import masks
from ..cases.case import Case
from ..cases.inputs import Inputs, make, seed_of, shapes_of
from ..dtypes import torch_dtype
from ..foreign.edge import WrongResult, foreign
from ..implementation import Implementation
from ..trials.subject import Subject
from .groups import Group, case_for


class Workload:
    """A callable that makes one call: forward without gradients, or forward and then the gradients of every input
    and parameter. The device has finished when it returns. `told` says how the implementation learns of the mask."""

    def __init__(self, implementation: Implementation, group: Group) -> None:
        self.group = group
        self.case, self.told = case_for(group, implementation)
        backward = group.direction != "forward"
        self._subject = Subject(implementation, group.dtype, "train" if backward else "eval")
        self._inputs = draw(self.case, implementation.is_module, group.dtype)
        self._module = self._subject.fresh(self._inputs) if implementation.is_module else None
        self._delivered = self._subject.deliver(self._inputs)
        self._leaves = self._wanted() if backward else []
        self._upstream = self._inputs.upstream.to(implementation.device)
        self._synchronise = synchroniser(implementation.device)

    def __call__(self) -> object:
        """Make one call. Raises Raised or WrongResult."""
        output = self._subject.call(self._delivered, self._inputs, self._module).output
        if not self._leaves:
            self._synchronise()
            return output
        if not output.requires_grad:
            raise WrongResult("the output does not require a gradient although its inputs do: declare gradient='none'")
        found = foreign(torch.autograd.grad, output, self._leaves, self._upstream, allow_unused=True)
        self._synchronise()
        return found

    def _wanted(self) -> list[Tensor]:
        sent, unique = self._delivered, {}
        parameters = [] if self._module is None else list(self._module.parameters())
        for tensor in (sent.query, sent.key, sent.value, *parameters):
            unique[id(tensor)] = tensor
        return [tensor for tensor in unique.values() if tensor.requires_grad]


def draw(case: Case, module: bool, dtype: str) -> Inputs:
    """Return the tensors of a case, equal for everybody who asks.

    Unlike `inputs.make` it draws nothing of the size of the scores unless the case has a mask, and keeps nothing.
    """
    generator, kind = torch.Generator().manual_seed(seed_of(case)), torch_dtype(dtype)

    def normal(shape: tuple[int, ...]) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float32).to(kind)

    shapes = shapes_of(case, module)
    query = normal(shapes.query)
    key, value = (query, query) if case.shared else (normal(shapes.key), normal(shapes.value))
    sizes = {"B": case.batch, "H": case.heads, "L": case.queries, "S": case.keys}
    allowed = None if case.mask is None else masks.draw(case.mask, sizes, generator)
    upstream = normal((*shapes.query[:-1], shapes.value[-1]))
    parameters = None
    if module:
        # The parameters of a module depend on heads and width only: those of a tiny case serve.
        tiny = Case("benchmark", batch=1, heads=case.heads, queries=1, keys=1, width=case.width, value_width=case.width)
        parameters = make(tiny, True, dtype).parameters
    return Inputs(case, dtype, query, key, value, allowed, None, None, upstream, torch.empty(0), parameters)


def synchroniser(device: str) -> Callable[[], Any]:
    """Return what waits until the device has finished; nothing to wait for on the CPU."""
    kind = torch.device(device).type
    wait: Callable[[], Any] | None = getattr(getattr(torch, kind, None), "synchronize", None)
    return wait if wait is not None and kind != "cpu" else _nothing


def _nothing() -> None:
    pass
