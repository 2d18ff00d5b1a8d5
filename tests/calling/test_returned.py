"""The output and the second result are found in whatever came back."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from attention_conformance import check
from attention_conformance.calling.returned import split
from attention_conformance.foreign.edge import WrongResult

from .made import kernel

OUTPUT, WEIGHTS, LSE = torch.zeros(2, 3, 8), torch.ones(2, 3, 3), torch.ones(2, 3)
CALL = "call=lambda f, query, key, value, mask=None: f(query, key, value)"

Pair = namedtuple("Pair", "attention output")
Plain = namedtuple("Plain", "a b")


@dataclass
class Holder:
    hidden_states: Tensor
    attentions: Tensor | None = None
    note: str = ""


@pytest.mark.parametrize(
    ("returned", "second", "pick"),
    [
        (OUTPUT, None, ""),
        ((OUTPUT, WEIGHTS), WEIGHTS, "[0]"),
        ([OUTPUT, WEIGHTS, LSE], WEIGHTS, "[0]"),
        ((OUTPUT,), None, "[0]"),
        ((OUTPUT, None, WEIGHTS), None, "[0]"),
        ((OUTPUT, {"weights": WEIGHTS}), None, "[0]"),
        (Pair(WEIGHTS, OUTPUT), WEIGHTS, ".output"),
        (Plain(OUTPUT, WEIGHTS), WEIGHTS, "[0]"),
        ({"output": OUTPUT, "attn_weights": WEIGHTS}, WEIGHTS, "['output']"),
        (OrderedDict(attentions=WEIGHTS, last_hidden_state=OUTPUT, other=LSE), WEIGHTS, "['last_hidden_state']"),
        ({"anything": OUTPUT, "count": 3}, None, "['anything']"),
        (Holder(OUTPUT, WEIGHTS), WEIGHTS, ".hidden_states"),
        (Holder(OUTPUT), None, ".hidden_states"),
        (SimpleNamespace(context_layer=OUTPUT, probs=WEIGHTS), WEIGHTS, ".context_layer"),
    ],
)
def test_output_and_second_result_are_found(returned: object, second: Tensor | None, pick: str) -> None:
    found = split(returned, "weights", CALL)
    assert found.output is OUTPUT
    assert found.second is second
    assert found.pick == pick
    assert eval(f"returned{pick}", {}, {"returned": returned}) is OUTPUT


def test_the_declared_kind_says_which_second_result_is_meant() -> None:
    both = {"out": OUTPUT, "softmax_lse": LSE, "weights": WEIGHTS}
    assert split(both, "lse", CALL).second is LSE
    assert split(both, "weights", CALL).second is WEIGHTS
    assert split(both, "optional weights", CALL).second is WEIGHTS


@pytest.mark.parametrize(
    ("returned", "texts"),
    [
        (None, ["it returned NoneType, which holds no tensor"]),
        (3.5, ["it returned float"]),
        ((), ["it returned tuple, which holds no tensor"]),
        (("text", OUTPUT), ["[1]  Tensor (2, 3, 8) torch.float32", f"pick it: {CALL}[1]"]),
        ({"first": OUTPUT, "last": WEIGHTS}, ["several tensors", "['first']  Tensor (2, 3, 8)", f"{CALL}['first']"]),
        ({"output": OUTPUT, "hidden_states": LSE}, ["['output']  Tensor", "['hidden_states']  Tensor (2, 3)"]),
        ({"weights": WEIGHTS}, ["['weights']  Tensor (2, 3, 3)"]),
        (SimpleNamespace(states=OUTPUT, rows=LSE, n=1), [".states  Tensor", ".n  int", f"{CALL}.states"]),
        (((OUTPUT, WEIGHTS), 1), ["[0]  tuple", "[1]  int"]),
    ],
)
def test_what_cannot_be_told_is_listed(returned: object, texts: list[str]) -> None:
    with pytest.raises(WrongResult) as raised:
        split(returned, None, CALL)
    for text in texts:
        assert text in str(raised.value)


class Hostile(dict[Any, Any]):
    def __iter__(self) -> Any:
        return iter(["\ud800", *(f"entry {n}" for n in range(50))])

    def __getitem__(self, name: Any) -> Any:
        return OUTPUT


def test_names_are_made_safe_and_few() -> None:
    with pytest.raises(WrongResult) as raised:
        split(Hostile(), None, CALL)
    text = str(raised.value)
    assert text.encode()
    assert text.count("Tensor (2, 3, 8)") == 12


def test_the_record_shows_the_call_to_write() -> None:
    two = kernel("q, k, v, attn_mask=None", "q, k, v, attn_mask", "named('first', 'last')({})")
    (record,) = check(two, select=["SHAPE-001", "fp32"])
    assert record.outcome == "error"
    assert "call=lambda f, query, key, value, mask=None: f(query, key, value, mask)['first']" in record.message
