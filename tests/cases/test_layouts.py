"""Orders of axes: there and back, and as Python to paste."""

from __future__ import annotations

import pytest
import torch

from attention_conformance.cases.layouts import KERNEL_LAYOUTS, from_layout, lines_from, lines_to, to_layout

SHAPES = {
    "...LD": (2, 3, 5, 7), "BHLD": (2, 3, 5, 7), "BLHD": (2, 5, 3, 7), "LBHD": (5, 2, 3, 7), "(BH)LD": (6, 5, 7),
    "BL(HD)": (2, 5, 21), "LB(HD)": (5, 2, 21),
}  # fmt: skip


@pytest.mark.parametrize("layout", KERNEL_LAYOUTS)
def test_there_and_back(layout: str) -> None:
    tensor = torch.arange(210).reshape(2, 3, 5, 7)
    delivered = to_layout(tensor, layout)
    assert tuple(delivered.shape) == SHAPES[layout]
    assert torch.equal(from_layout(delivered, layout, 3), tensor)


@pytest.mark.parametrize("layout", KERNEL_LAYOUTS)
def test_the_lines_do_the_same(layout: str) -> None:
    tensor = torch.arange(210).reshape(2, 3, 5, 7)
    delivered = eval(lines_to(layout, "tensor"), {"tensor": tensor})
    assert torch.equal(delivered, to_layout(tensor, layout))
    assert torch.equal(eval(lines_from(layout, "delivered", 3), {"delivered": delivered}), tensor)


@pytest.mark.parametrize("layout", KERNEL_LAYOUTS)
@pytest.mark.parametrize("empty", [0, 2, 3])
def test_nothing_is_lost_where_there_is_nothing(layout: str, empty: int) -> None:
    shape = [2, 3, 5, 7]
    shape[empty] = 0
    tensor = torch.zeros(shape)
    assert from_layout(to_layout(tensor, layout), layout, 3).shape == tensor.shape


@pytest.mark.parametrize("layout", ["(BH)LD", "BL(HD)"])
def test_a_result_that_does_not_fit_comes_back_as_it_is(layout: str) -> None:
    assert from_layout(torch.zeros(5, 5, 5), layout, 3).shape == (5, 5, 5)
    assert from_layout(torch.zeros(6, 6), layout, 3).shape == (6, 6)
