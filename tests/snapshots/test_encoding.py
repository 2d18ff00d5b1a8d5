"""What a pin file holds, and what counts as a difference."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
import torch

from attention_conformance.snapshot.encoding import (
    FORMAT,
    TOLERANCES,
    UnsupportedPin,
    document,
    from_text,
    to_text,
    versions,
)
from attention_conformance.snapshot.extension import PinExtension, explanation


def text(value: Any) -> str:
    return to_text(document(value, TOLERANCES))


def told(value: Any, pinned: Any) -> list[str]:
    return explanation(text(value), text(pinned))


def array(*values: float, dtype: Any = np.float32) -> Any:
    return np.array(values, dtype=dtype)


def test_a_file_can_be_read_by_people() -> None:
    value = {"output": torch.tensor([[0.1, float("nan")], [-1e-8, 3.0]]), "answer": "zeros", "lengths": [1, 2]}
    assert text(value) == (
        "{\n"
        f'  "format": "{FORMAT}",\n'
        '  "pinned_with": {\n'
        + ",\n".join(f'    "{name}": "{version}"' for name, version in versions().items())
        + "\n  },\n"
        '  "tolerance": {\n    "fp32": {"rtol": 1e-05, "atol": 1e-06}\n  },\n'
        '  "value": {\n'
        '    "output": {\n'
        '      "$tensor": "fp32",\n'
        '      "shape": [2, 2],\n'
        '      "values": [\n        [0.1, "nan"],\n        [-1e-08, 3.0]\n      ]\n'
        "    },\n"
        '    "answer": "zeros",\n'
        '    "lengths": [1, 2]\n'
        "  }\n"
        "}\n"
    )


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_decimals_give_back_the_very_bits(dtype: str) -> None:
    kind = getattr(torch, dtype)
    values = torch.randn(500, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(kind)
    values = torch.cat([values, torch.tensor([0.0, torch.finfo(kind).max, torch.finfo(kind).tiny], dtype=kind)])
    encoded = json.loads(text(values))["value"]
    assert torch.equal(torch.tensor(encoded["values"], dtype=torch.float64).to(kind), values)


@pytest.mark.parametrize(
    "value",
    [
        None, True, 3, -0.5, "text", "$tensor", [1, [2.5, None]], {"$tensor": "mine", "$float": 1}, {}, [],
        float("nan"), -math.inf, np.float32(0.1), np.array(True), np.zeros((2, 0, 3)), np.array([2**63], np.uint64),
        torch.tensor(1.5), torch.arange(6).reshape(2, 3), torch.tensor([True]), OrderedDict(a=(1, 2)),
        torch.ones(2, requires_grad=True), torch.ones(2, 3).T, torch.eye(2).to_sparse(),
    ],
    ids=lambda value: repr(value).splitlines()[0],
)  # fmt: skip
def test_a_value_is_as_pinned_by_itself(value: Any) -> None:
    assert told(value, value) == []


def test_torch_and_numpy_are_pinned_alike() -> None:
    assert told(torch.tensor([0.1, 0.2]), array(0.1, 0.2)) == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"a": {1: 2}}, "a has the key 1"),
        ({"a": [object()]}, "a.0 is a object"),
        (torch.ones(2, dtype=torch.complex64), "the value has dtype complex64"),
        (np.array(["text"]), "the value has dtype str"),
        (b"bytes", "the value is a bytes"),
    ],
)
def test_what_a_pin_cannot_hold_is_refused(value: Any, reason: str) -> None:
    with pytest.raises(UnsupportedPin, match=reason):
        text(value)


@pytest.mark.parametrize(
    ("value", "pinned", "line"),
    [
        (
            {"output": array(0.25, -0.25, 4.0)},
            {"output": array(0.25, 0.125, 4.5)},
            (
                "output: 2 of 3 elements are beyond the tolerance, the worst at (1,): -0.25, pinned 0.125, "
                "error 0.375, allowed 2.25e-06 (fp32: atol 1e-06 + rtol 1e-05 * |pinned|)"
            ),
        ),
        (array(1.0, dtype=np.float16), array(1.0), "the value: dtype fp16, pinned fp32"),
        (torch.ones(1, dtype=torch.bfloat16), array(1.0), "the value: dtype bf16, pinned fp32"),
        (np.zeros((2, 3)), np.zeros((3, 2)), "the value: shape (2, 3), pinned (3, 2)"),
        (
            array(math.nan, 1.0, 2.0),
            array(1.0, math.nan, 2.0),
            "the value: NaN at 1 of 3 elements, pinned at 1; the first difference is at (0,): nan, pinned 1",
        ),
        (
            array(math.inf),
            array(3e38),
            (
                "the value: 1 of 1 elements are beyond the tolerance, the worst at (0,): inf, pinned 3e+38, "
                "error inf, allowed 3e+33 (fp32: atol 1e-06 + rtol 1e-05 * |pinned|)"
            ),
        ),
        (
            array(-math.inf),
            array(math.inf),
            (
                "the value: 1 of 1 elements are beyond the tolerance, the worst at (0,): -inf, pinned inf, error inf, "
                "allowed 1e-06 (fp32: atol 1e-06 + rtol 1e-05 * |pinned|)"
            ),
        ),
        (
            np.array([[1, 2], [3, 5]]),
            np.array([[1, 2], [4, 4]]),
            "the value: 2 of 4 elements differ, the first at (1, 0): 3, pinned 4",
        ),
        ({"empty_row": "zeros"}, {"empty_row": "uniform"}, "empty_row: 'zeros', pinned 'uniform'"),
        ({"second": None}, {"second": array(1.0)}, "second: None, pinned fp32 of shape (1,)"),
        ({"a": {"b": 1}}, {"a": {}}, "a.b: 1, nothing is pinned under this name"),
        ({}, {"a": [1, 2]}, "a: missing, pinned a list of 2"),
        ([1, 2], [1, 2, 3], "the value: a list of 2, pinned a list of 3"),
        ([0.5, 0.25], [0.5, 0.5], "1: 0.25, pinned 0.5, error 0.25, allowed 5.01e-10"),
        (math.nan, 0.5, "the value: nan, pinned 0.5, error inf, allowed 5.01e-10"),
        (True, 1, "the value: True, pinned 1"),
        (1, 1.0, "the value: 1, pinned 1.0"),
        ({"$a": 1}, {"$a": 2}, "$a: 1, pinned 2"),
    ],
)
def test_a_difference_is_told_in_numbers(value: Any, pinned: Any, line: str) -> None:
    assert told(value, pinned) == [line]


@pytest.mark.parametrize(("factor", "differs"), [(0.9, 0), (1.1, 1)])
@pytest.mark.parametrize("dtype", ["fp64", "fp32", "bf16", "fp16"])
def test_numbers_may_be_as_far_away_as_the_file_states(dtype: str, factor: float, differs: int) -> None:
    pinned = json.loads(text(np.array([0.5])))
    pinned["value"]["$tensor"] = dtype
    pinned["tolerance"] = {dtype: {"rtol": 0.125, "atol": 0.0625}}
    found = json.loads(json.dumps(pinned))
    found["tolerance"] = {dtype: {"rtol": 0.0, "atol": 0.0}}
    found["value"]["values"] = [0.5 + factor * (0.0625 + 0.125 * 0.5)]
    assert len(explanation(json.dumps(found), json.dumps(pinned))) == differs


def test_a_tolerance_of_nothing_allows_nothing_but_the_same() -> None:
    pinned = json.loads(text(array(0.5, 0.0)))
    pinned["tolerance"] = {"fp32": {"rtol": 0, "atol": 0}}
    assert explanation(text(array(0.5, -0.0)), json.dumps(pinned)) == []
    assert len(explanation(text(array(0.5, 1e-30)), json.dumps(pinned))) == 1


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        ({"format": "attention-conformance pin 9"}, "its format is 'attention-conformance pin 9'"),
        ({"tolerance": {}}, "it states no tolerance for fp32"),
        ({"tolerance": {"fp32": {"rtol": -1, "atol": 0}}}, "no pair of finite numbers"),
        ({"tolerance": {"fp32": {"rtol": 1e999, "atol": 0}}}, "no pair of finite numbers"),
        ({"value": {"$tensor": "fp32", "shape": [3], "values": [1.0, 2.0]}}, "do not fill the shape"),
        ({"value": {"$tensor": "fp32", "shape": [2], "values": [1.0, None]}}, "do not fill the shape"),
        ({"value": {"$tensor": "fp32", "shape": [2], "values": [1.0, "much"]}}, "could not convert"),
        ({"value": {"$tensor": "fp32", "shape": [2]}}, "do not fill the shape"),
        ({"value": {"$tensor": ["fp32"]}}, "another form"),
        ({"value": {"$tensor": "fp32", "values": [1.0, 2.0]}}, "another form"),
    ],
)
def test_a_damaged_file_says_what_is_wrong_with_it(damage: dict[str, Any], reason: str) -> None:
    sound = text(array(1.0, 2.0, 3.0) if damage.get("value", {}).get("shape") == [3] else array(1.0, 2.0))
    damaged = json.dumps({**json.loads(sound), **damage})
    with pytest.raises(ValueError, match=reason):
        explanation(sound, damaged)
    assert not PinExtension().matches(serialized_data=sound, snapshot_data=damaged)


@pytest.mark.parametrize("torn", ["", "{", "[]", "null", "3"])
def test_text_that_is_no_pin_is_refused(torn: str) -> None:
    with pytest.raises(ValueError, match=r"its format is|Expecting"):
        from_text(torn)
