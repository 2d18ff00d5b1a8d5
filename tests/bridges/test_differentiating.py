"""The machinery of gradients, over a small framework of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from attention_conformance.bridges.differentiating import DifferentiatingBridge, OfArrays, Pull


class Grid:
    """An array of the framework: it can be multiplied, cubed and asked for its sign."""

    def __init__(self, held: Tensor) -> None:
        self.held = held

    def __mul__(self, other: Grid) -> Grid:
        return Grid(self.held * other.held)

    def cube(self) -> Grid:
        return Grid(self.held**3)

    def positive(self) -> Grid:
        return Grid(self.held > 0)


class GridBridge(DifferentiatingBridge):
    """Between torch and the small framework, whose gradients are those of torch.func."""

    framework: ClassVar[str] = "grid"
    defaults: ClassVar[Mapping[str, Any]] = {}

    def array(self, tensor: Tensor) -> Grid:
        return Grid(tensor.detach().clone())

    def tensor(self, array: Grid) -> Tensor:
        return array.held.detach().clone()

    def is_array(self, value: object) -> bool:
        return isinstance(value, Grid)

    def is_real(self, array: Grid) -> bool:
        return array.held.dtype.is_floating_point

    def pulled(self, function: OfArrays, arrays: Sequence[Grid]) -> tuple[list[Grid], list[Grid], Pull]:
        def plain(*tensors: Tensor) -> tuple[list[Tensor], list[Tensor]]:
            real, others = function(*map(Grid, tensors))
            return [each.held for each in real], [each.held for each in others]

        real, pull, others = torch.func.vjp(plain, *(array.held for array in arrays), has_aux=True)
        return (
            list(map(Grid, real)),
            list(map(Grid, others)),
            lambda found: list(map(Grid, pull([each.held for each in found]))),
        )


@pytest.fixture
def leaf() -> Tensor:
    return torch.tensor([2.0, -3.0], dtype=torch.float64, requires_grad=True)


def test_gradients_come_from_the_framework_as_often_as_it_differentiates(leaf: Tensor) -> None:
    output = GridBridge().invoke(lambda sent: sent["x"].cube(), {"x": leaf})
    (first,) = torch.autograd.grad(output.sum(), leaf, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), leaf, create_graph=True)
    (third,) = torch.autograd.grad(second.sum(), leaf)
    assert torch.equal(first, 3 * leaf**2)
    assert torch.equal(second, 6 * leaf)
    assert torch.equal(third, torch.full_like(leaf, 6))


def test_a_backward_pass_can_be_repeated_and_accumulates(leaf: Tensor) -> None:
    output = GridBridge().invoke(lambda sent: sent[0].cube(), (leaf,))
    output.sum().backward(retain_graph=True)
    output.sum().backward()
    assert torch.equal(leaf.grad, 6 * leaf**2)


def test_results_keep_their_places_and_only_real_ones_have_gradients(leaf: Tensor) -> None:
    returned = GridBridge().invoke(
        lambda sent: {"sign": sent[0].positive(), "output": (sent[0].cube(), "text"), "nothing": None}, (leaf,)
    )
    assert returned["sign"].dtype is torch.bool
    assert not returned["sign"].requires_grad
    assert torch.equal(returned["output"][0], leaf**3)
    assert returned["output"][0].requires_grad
    assert returned["output"][1:] == ("text",)
    assert returned["nothing"] is None


def test_integers_and_tensors_that_ask_for_nothing_go_along(leaf: Tensor) -> None:
    other = torch.tensor([5.0, 7.0], dtype=torch.float64)
    mask = torch.tensor([True, False])

    def attend(sent: Mapping[str, Any]) -> Grid:
        assert sent["mask"].held.dtype is torch.bool
        assert sent["heads"] == 2
        return sent["x"] * sent["other"]

    output = GridBridge().invoke(attend, {"x": leaf, "other": other, "mask": mask, "heads": 2})
    assert torch.equal(torch.autograd.grad(output.sum(), leaf)[0], other)


def test_a_tensor_in_two_places_gets_the_sum(leaf: Tensor) -> None:
    output = GridBridge().invoke(lambda sent: sent["query"] * sent["key"], {"query": leaf, "key": leaf})
    assert torch.equal(torch.autograd.grad(output.sum(), leaf)[0], 2 * leaf)


def test_without_gradients_the_framework_is_only_called(leaf: Tensor) -> None:
    with torch.no_grad():
        output = GridBridge().invoke(lambda sent: sent[0].cube(), (leaf,))
    assert not output.requires_grad


def test_an_input_that_is_not_used_gets_zeros(leaf: Tensor) -> None:
    unused = torch.ones(3, requires_grad=True)
    output = GridBridge().invoke(lambda sent: sent[0].cube(), (leaf, unused))
    assert torch.equal(torch.autograd.grad(output.sum(), unused)[0], torch.zeros(3))
