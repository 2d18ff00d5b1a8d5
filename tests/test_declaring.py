"""What can be declared, and what a typo says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attention_conformance import Deviation, Outcome, check
from attention_conformance.capabilities import FIELDS, VOCABULARY
from attention_conformance.errors import (
    InvalidCapability,
    InvalidDeviation,
    InvalidTarget,
    UnknownCapability,
    UnknownReference,
    UnknownRule,
)
from attention_conformance.implementation import describe, registered
from attention_conformance.keywords import Declared
from attention_conformance.verdicts import stale
from tests.kernels import attend, zeros


@pytest.mark.parametrize(
    ("declared", "error", "text"),
    [
        ({"empty_rows": "zeros"}, UnknownCapability, "did you mean 'empty_row'"),
        ({"empty_row": "zero"}, InvalidCapability, "did you mean 'zeros'"),
        ({"mask": "bool"}, InvalidCapability, r"write mask=\('bool',\)"),
        ({"mask": ("boolean",)}, InvalidCapability, "did you mean 'bool'"),
        ({"dtypes": ()}, InvalidCapability, "leaves nothing to judge"),
        ({"dtypes": ("float32",)}, InvalidCapability, "fp64"),
        ({"widths": 8}, InvalidCapability, "tuple of positive numbers"),
        ({"scale": "1/sqrt(E)"}, InvalidCapability, "did you mean"),
        ({"scale": float("nan")}, InvalidCapability, "neither a number"),
        ({"mask_shapes": ("B1LL",)}, InvalidCapability, "B1LS"),
        ({"causal": True}, InvalidCapability, "top-left"),
        ({"reference": "MultiheadAttention"}, UnknownReference, "did you mean 'MultiHeadAttention'"),
        ({"framework": "jaxx"}, InvalidTarget, "not known"),
        ({"call": 3}, InvalidTarget, "not callable"),
        ({"deviations": ["MASK-001"]}, InvalidDeviation, r"write Deviation\("),
    ],
)
def test_a_mistake_is_named_with_the_nearest_right_word(
    declared: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        describe(attend, **declared)


def test_every_word_of_every_vocabulary_is_accepted() -> None:
    for name, words in VOCABULARY.items():
        assert name in FIELDS
        for word in words:
            assert getattr(describe(attend, **{name: word}).capabilities, name) == word


def test_what_is_neither_called_nor_built_is_refused() -> None:
    with pytest.raises(InvalidTarget, match="can be neither called nor built"):
        describe(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidTarget, match="registered already"):
        describe(describe(attend))  # type: ignore[arg-type]


def test_the_reference_follows_from_the_target() -> None:
    assert describe(attend).reference.name == "attention"
    assert describe(torch.nn.MultiheadAttention).reference.name == "MultiHeadAttention"


def test_registered_ones_keep_their_order_and_their_first_name() -> None:
    namespace: dict[str, Any] = {"__name__": "theirs"}
    exec(
        "from attention_conformance import register\n"
        "def f(q, k, v, mask=None): ...\n"
        "b = register(f)\na = register(f, name='given')\nalias = b\nfor _ in range(1): register(f)\n",
        namespace,
    )
    assert [name for name, _ in registered(namespace)] == ["b", "given", "implementation3"]


@pytest.mark.parametrize("rule", ["*", "MASK", "MASK-*", "mask-001", ""])
def test_a_deviation_covers_one_rule(rule: str) -> None:
    with pytest.raises(InvalidDeviation, match="does not name one rule"):
        Deviation(rule, reason="because")


def test_a_deviation_needs_a_reason_and_a_readable_condition() -> None:
    with pytest.raises(InvalidDeviation, match="needs a reason"):
        Deviation("MASK-001", reason=" ")
    with pytest.raises(InvalidDeviation, match="cannot be read at 'dtype < fp16'"):
        Deviation("MASK-001", reason="because", when="dtype < fp16")


@pytest.mark.parametrize(
    ("when", "applies"),
    [
        (None, True), ("dtype == fp16", True), ("dtype != fp16", False), ("device == cuda", False),
        ("torch < 2.5", True), ("torch >= 2.5", False), ("torch == 2.4", True), ("dtype == fp16 and torch < 2.4", False),
    ],
)  # fmt: skip
def test_when_is_read_over_dtype_device_and_torch(when: str | None, applies: bool) -> None:
    assert Deviation("MASK-001", reason="because", when=when).applies("fp16", "cpu", "2.4.1+cpu") is applies


def test_a_deviation_that_nothing_departs_from_is_stale() -> None:
    entries = [Deviation("SHAPE-001", reason="once"), Deviation("SHAPE-999", reason="never was")]
    records = list(check(attend, select=["SHAPE-001"], dtypes=("fp32",)))
    told = stale("it", "cpu", entries, records)
    assert ["remove" in sentence for sentence in told] == [True, True]


def test_an_unknown_selection_is_named() -> None:
    with pytest.raises(UnknownRule, match="did you mean"):
        list(check(attend, select=["MASK-0003"]))


def hiding(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    return attend(query, key, value, None if mask is None else mask == 0)[0]


def model_scale(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    heads = query.size(-3) if query.dim() > 3 else 4
    return attend(query * heads**-0.5, key, value, mask)[0]


def other_axes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    return attend(*(tensor.transpose(-3, -2) for tensor in (query, key, value)), mask)[0].transpose(-3, -2)


def always_causal(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    triangle = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool).tril()
    return attend(query, key, value, triangle if mask is None else triangle & (mask != 0))[0]


@pytest.mark.parametrize(
    ("target", "rule", "declaration"),
    [
        (zeros, "MASK-002", {"empty_row": "zeros"}),
        (hiding, "MASK-001", {"mask_means": "hide"}),
        (other_axes, "SHAPE-001", {"layout": "BLHD"}),
        (always_causal, "CAUSAL-001", {"causal": "always top-left"}),
    ],
)
def test_an_undeclared_convention_costs_one_failure(target: Any, rule: str, declaration: dict[str, str]) -> None:
    failed = [r for r in check(target, dtypes=("fp32",)) if r.failing]
    assert [record.rule for record in failed] == [rule]
    ((name, answer),) = declaration.items()
    assert failed[0].diagnosis[0] == f"declare {name}={answer!r}"
    leading = {"leading": "equal"} if target is other_axes else {}
    assert not [str(r.key) for r in check(target, dtypes=("fp32",), **declaration, **leading) if r.bad]


def test_a_measured_scale_is_told() -> None:
    failed = [r for r in check(model_scale, dtypes=("fp32",)) if r.outcome is Outcome.FAILED]
    assert failed[0].rule == "NUMERIC-001"
    assert "1/sqrt(d_model)" in failed[0].message


def test_editors_know_every_capability() -> None:
    assert tuple(Declared.__annotations__) == FIELDS
