"""Gradients of another framework as gradients of torch: a function of tensors whose backward pass is that framework's.

The backward pass is itself such a function, so that it can be differentiated as often as the framework can.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from .bridge import Bridge, Function, distinct, exchanged, mapped

OfArrays = Callable[..., tuple[list[Any], list[Any]]]
"""From arrays to those results that can be differentiated, and the others."""

Pull = Callable[[list[Any]], Sequence[Any]]
"""From the gradients of the results to those of the arguments."""


class DifferentiatingBridge(Bridge):
    """A bridge to a framework that has gradients of its own."""

    @abstractmethod
    def is_real(self, array: Any) -> bool:
        """Say whether an array holds real numbers, which can be differentiated."""

    @abstractmethod
    def pulled(self, function: OfArrays, arrays: Sequence[Any]) -> tuple[list[Any], list[Any], Pull]:
        """Return both lists of `function(*arrays)` and what takes gradients of the first back to the arrays."""

    def invoke(self, function: Function, sent: Any) -> Any:
        """Call as every bridge does; the result is differentiable where a tensor asks for gradients."""
        wanted = [each for each in distinct(sent) if each.requires_grad] if torch.is_grad_enabled() else []
        if not wanted:
            return super().invoke(function, sent)
        with self.settings(distinct(sent)):
            program = _Program(self, function, sent, wanted)
            results = _differentiable(self, program, wanted)
        return mapped(lambda value: results[value] if isinstance(value, _Place) else value, program.form)


class _Place(int):
    """Stands for an array in the form of a result: its position among all arrays."""


class _Program:
    """A call as a function of the arrays that ask for gradients; `form` is what it returned last, without the arrays."""

    def __init__(self, bridge: DifferentiatingBridge, function: Function, sent: Any, wanted: list[Tensor]) -> None:
        self.bridge, self.function, self.sent = bridge, function, sent
        fixed = [each for each in distinct(sent) if not each.requires_grad]
        self.tensors = [*fixed, *wanted]
        self.fixed = [bridge.array(tensor) for tensor in fixed]
        self.form: Any = None

    def __call__(self, *arrays: Any) -> tuple[list[Any], list[Any]]:
        returned = self.function(exchanged(self.sent, self.tensors, [*self.fixed, *arrays]))
        found: list[Any] = []
        mapped(lambda value: found.append(value) if self.bridge.is_array(value) else None, returned)
        real = [each for each in found if self.bridge.is_real(each)]
        others = [each for each in found if not self.bridge.is_real(each)]
        order = iter(_order([self.bridge.is_real(each) for each in found]))
        self.form = mapped(lambda value: _Place(next(order)) if self.bridge.is_array(value) else value, returned)
        return real, others


def _order(first: Sequence[bool]) -> list[int]:
    """Return the position of each element in a list where those marked come before the others."""
    ranked = sorted(range(len(first)), key=lambda place: not first[place])
    return [ranked.index(place) for place in range(len(first))]


class _Differentiable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, bridge: DifferentiatingBridge, function: OfArrays, *tensors: Tensor) -> tuple[Tensor, ...]:
        real, others, ctx.pull = bridge.pulled(function, [bridge.array(tensor) for tensor in tensors])
        ctx.bridge, ctx.function, ctx.results = bridge, function, len(real)
        ctx.save_for_backward(*tensors)
        device = tensors[0].device
        results = [bridge.tensor(array).to(device) for array in (*real, *others)]
        ctx.mark_non_differentiable(*results[len(real) :])
        return tuple(results)

    @staticmethod
    def backward(ctx: Any, *upstream: Tensor) -> tuple[Tensor | None, ...]:
        bridge, tensors, upstream = ctx.bridge, ctx.saved_tensors, upstream[: ctx.results]
        with bridge.settings(tensors):
            if torch.is_grad_enabled():
                backward = _Backward(bridge, ctx.function, len(tensors))
                return (None, None, *_differentiable(bridge, backward, (*tensors, *upstream)))
            found = ctx.pull([bridge.array(gradient) for gradient in upstream])
            return (None, None, *(bridge.tensor(gradient).to(tensors[0].device) for gradient in found))


def _differentiable(bridge: DifferentiatingBridge, function: OfArrays, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    found: tuple[Tensor, ...] = _Differentiable.apply(bridge, function, *tensors)  # type: ignore[no-untyped-call]
    return found


@dataclass(frozen=True)
class _Backward:
    """The backward pass of a function, as a function of its arguments and of the gradients of its results."""

    bridge: DifferentiatingBridge
    function: OfArrays
    arguments: int

    def __call__(self, *arrays: Any) -> tuple[list[Any], list[Any]]:
        _, _, pull = self.bridge.pulled(self.function, arrays[: self.arguments])
        return list(pull(list(arrays[self.arguments :]))), []
