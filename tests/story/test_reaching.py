"""What a mask really hides is read out of an implementation, and pictures show the part that matters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor

from attention_conformance import check
from attention_conformance.oracle.pictures import WINDOW, of_errors
from attention_conformance.records import Picture, Record
from attention_conformance.reference import MultiHeadAttention
from attention_conformance.reference.attention import attention


def late(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Multiply the weights by the mask after the softmax."""
    weights = (query @ key.mT / query.shape[-1] ** 0.5).softmax(-1)
    return (weights if mask is None else weights * (mask != 0)) @ value


def shifted(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Mask one key too late."""
    return attention(query, key, value, None if mask is None else mask.roll(1, -1))[0]


def blind(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Ignore the mask."""
    return attention(query, key, value)[0]


def failing(target: Callable[..., Any], rule: str, **declared: Any) -> Record:
    (record,) = (r for r in check(target, select=(rule, "fp32"), **declared) if r.rule == rule)
    assert record.outcome == "failed", record.message
    return record


def pictures(record: Record) -> Mapping[str, Picture]:
    return {picture.kind: picture for picture in record.pictures}


def test_a_mask_that_is_applied_late_hides_what_it_is_asked_to() -> None:
    found = pictures(failing(late, "MASK-003", second=None))
    assert found["reached"].numbers == found["asked"].numbers
    assert {number for row in found["asked"].numbers for number in row} == {0.0, 1.0}


def test_a_shifted_mask_is_seen_to_be_shifted() -> None:
    found = pictures(failing(shifted, "MASK-003", second=None))
    asked, reached = (torch.tensor(found[kind].numbers) for kind in ("asked", "reached"))
    some = asked.any(-1)
    assert torch.equal(reached[some], asked.roll(1, -1)[some])


def test_an_ignored_mask_shows_every_key() -> None:
    reached = torch.tensor(pictures(failing(blind, "MASK-003", second=None))["reached"].numbers)
    assert bool(reached.all())


class Deaf(MultiHeadAttention):
    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        return super().forward(query, key, value, None)


class DeafToItself(MultiHeadAttention):
    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        return super().forward(x, x, x, None)


def test_modules_are_read_out_over_all_heads() -> None:
    found = pictures(failing(Deaf, "MASK-003"))
    assert bool(torch.tensor(found["reached"].numbers).all())
    assert not bool(torch.tensor(found["asked"].numbers).all())


def test_where_a_token_is_query_and_key_at_once_its_own_place_is_left_open() -> None:
    reached = torch.tensor(pictures(failing(DeafToItself, "MASK-003", inputs="self"))["reached"].numbers)
    assert bool(reached.diagonal().isnan().all())
    assert bool((reached.fill_diagonal_(1.0) == 1.0).all())


def test_the_error_is_shown_around_its_worst_element() -> None:
    ratio = torch.zeros(2, 3, 40, 20)
    ratio[1, 2, 30, 3] = 7.5
    (picture,) = of_errors("gradient of the key", ratio)
    assert (picture.place, picture.axes, picture.size, picture.worst) == ((1, 2), ("S", "D"), (40, 20), (30, 3))
    row, column = 30 - picture.first[0], 3 - picture.first[1]
    assert picture.numbers[row][column] == 7.5
    assert len(picture.rows) == len(picture.numbers[0]) == WINDOW


@pytest.mark.parametrize(
    ("what", "axes"),
    [
        ("output", ("L", "E")),
        ("output after hidden keys were changed", ("L", "E")),
        ("second result (weights)", ("L", "S")),
        ("gradient of the value through the weights", ("S", "E")),
        ("bias gradient of hidden keys", ("L", "S")),
        ("something else", ("row", "column")),
    ],
)
def test_axes_are_named_after_the_tensor(what: str, axes: tuple[str, str]) -> None:
    assert of_errors(what, torch.ones(2, 2))[0].axes == axes


def test_nothing_is_shown_of_a_number_or_of_nothing() -> None:
    assert of_errors("output", torch.tensor(2.0)) == of_errors("output", torch.zeros(0, 3)) == ()


def test_a_vector_is_one_row() -> None:
    assert of_errors("lse", torch.tensor([1.0, 3.0]))[0].worst == (0, 1)
