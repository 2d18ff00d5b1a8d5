"""Stacked tensors go in on the axis on which the target takes them apart, and on no other."""

from __future__ import annotations

from typing import Any

import pytest

from attention_conformance import check
from attention_conformance.cases.case import Case
from attention_conformance.cases.inputs import make
from attention_conformance.implementation import describe
from attention_conformance.trials.subject import Subject

from .made import kernel

SIZED: dict[str, Any] = {"mask": (), "leading": "equal"}


def axis_of(target: Any, **declared: Any) -> int | None:
    subject = Subject(describe(target, **SIZED, **declared), "fp32")
    subject.run(make(Case("square", queries=6, keys=6, value_width=8), False, "fp32"))
    return subject.form(target).axis


@pytest.mark.parametrize("axis", range(4))
def test_the_axis_is_found_by_trying(axis: int) -> None:
    target = kernel("qkv", f"*qkv.unbind({axis})")
    assert axis_of(target, layout="BHLD") == axis
    records = list(check(target, layout="BHLD", **SIZED, select=["SHAPE-001", "SHAPE-006", "GRADIENT-001", "fp64"]))
    assert {record.outcome for record in records} == {"passed"}


def test_key_and_value_are_found_as_well() -> None:
    assert axis_of(kernel("query, kv", "query, kv[:, 0], kv[:, 1]"), layout="BHLD") == 1


def test_the_order_inside_a_packed_tensor_is_judged() -> None:
    swapped = kernel("qkv", "*qkv.unbind(0).__getitem__(slice(None, None, -1))")
    records = check(swapped, **SIZED, select=["NUMERIC-002", "fp64"])
    assert {record.outcome for record in records} == {"failed"}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("*qkv.chunk(3, -1)", "no axis gave an output"),
        ("qkv.mean(0), qkv.mean(0), qkv.mean(0)", "holds several tensors, and no axis"),
    ],
)
def test_what_no_axis_fits_is_named(body: str, text: str) -> None:
    (record,) = check(kernel("qkv", body, "{}[0][..., :1]"), **SIZED, select=["SHAPE-001", "fp32"])
    assert record.outcome == "error"
    assert text in record.message
    assert "torch.stack([query, key, value], 2)" in record.message


def test_several_axes_are_not_decided_between() -> None:
    lenient = kernel("qkv", "*[torch.zeros(5, 4, 7, 8)] * 3")
    (record,) = check(lenient, **SIZED, select=["SHAPE-001", "fp32"])
    assert "stacked on axis 0 or 1 or 2 or 3 it works" in record.message
