"""Every habit is called as its author means it, and what its arguments show is taken for declared."""

from __future__ import annotations

import functools

import pytest
from torch import Tensor

from attention_conformance import Record, check
from attention_conformance.implementation import describe

from .made import kernel, module
from .signatures import KERNELS, MODULES, Seen

RULES = ("SHAPE-001", "MASK-001", "MASK-002", "CAUSAL-001", "WEIGHTS-001", "OPTIONS", "GRADIENT-001")


def _bad(records: list[Record]) -> list[str]:
    return [f"{record.key}: {record.message[:700]}" for record in records if record.bad]


@pytest.mark.parametrize("seen", [*KERNELS, *MODULES], ids=lambda seen: seen.name)
def test_it_is_called_as_its_author_means_it(seen: Seen) -> None:
    implementation = describe(seen.target, **seen.declared)
    records = list(check(implementation, select=[*RULES, "fp64"]))
    assert not _bad(records)
    assert implementation.recognised == seen.recognised


def _inputs(target: object, **declared: object) -> tuple[str, tuple[str, ...]]:
    made = describe(target, **declared)  # type: ignore[arg-type]
    return made.capabilities.inputs, made.recognised


def test_a_declaration_goes_before_what_is_recognised() -> None:
    one = module("x, context=None, mask=None", "x, x, x, mask")
    assert _inputs(one) == ("self", ("inputs",))
    assert _inputs(one, inputs="context") == ("context", ())


def test_a_call_leaves_nothing_to_recognise() -> None:
    def call(module: object, query: Tensor, *others: Tensor) -> object:
        return module(query)  # type: ignore[operator]

    assert _inputs(module("x", "x, x, x"), call=call) == ("cross", ())


def test_a_partial_class_shows_what_it_builds() -> None:
    one = functools.partial(
        module("x, mask=None", "x, x, x, mask", init="dim, heads, bias=True", sizes="dim, heads"), bias=False
    )
    assert _inputs(one, reference="MultiHeadAttention") == ("self", ("inputs",))
    assert not _bad(list(check(one, reference="MultiHeadAttention", select=["SHAPE-001", "MASK-001", "fp64"])))


def test_what_is_recognised_counts_as_declared() -> None:
    assert describe(module("x", "x, x, x")).declared == ("inputs", "mask")


def test_a_factory_says_nothing_of_what_it_builds() -> None:
    one = module("x", "x, x, x")

    def build(d_model: int, heads: int) -> object:
        return one(d_model, heads)

    assert _inputs(build, reference="MultiHeadAttention") == ("cross", ())
    (record,) = check(build, reference="MultiHeadAttention", select=["SHAPE-001", "fp64"])
    assert "takes 1 of query, key and value: declare inputs='self'" in record.message


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        ("q, k, v, layer", "nothing says what to pass for layer in (q, k, v, layer)"),
        ("states, k, q", "the names in (states, k, q) do not say what is what"),
        ("q, k, v, indices", "f(query, key, value, indices=...)"),
        ("x, size, mask=None", "f(query, size=..., mask=mask)"),
    ],
)
def test_what_is_not_recognised_names_the_call_to_write(signature: str, text: str) -> None:
    (record,) = check(kernel(signature, "None"), select=["SHAPE-001", "fp64"], mask=())
    assert record.outcome == "error"
    assert text in record.message
    assert "call=lambda f, query, key, value, mask=None: f(" in record.message


def test_inputs_that_the_call_does_not_have_are_named() -> None:
    (record,) = check(
        kernel("q, context", "q, context, context"), inputs="cross", mask=(), select=["SHAPE-001", "fp64"]
    )
    assert "takes 2 of query, key and value: declare inputs='context'" in record.message


@pytest.mark.parametrize(
    ("signature", "capabilities"),
    [
        ("q, k, v", {"mask": ()}),
        ("q, k, v, valid_lens=None", {"mask": ("lengths",)}),
        ("q, k, v, key_padding_mask=None", {"mask_shapes": ("BS",)}),
        ("q, k, v, bias=None", {}),
        ("q, k, v, m=None", {}),
        ("q, k, v, **more", {}),
    ],
)
def test_masks_that_the_arguments_show(signature: str, capabilities: dict[str, object]) -> None:
    described = describe(kernel(signature, "q, k, v"))
    assert {name: getattr(described.capabilities, name) for name in described.recognised} == capabilities


_MASKED = {"mask": ("bool",)}
_WIDE = {"mask_shapes": "broadcast"}


@pytest.mark.parametrize(
    ("signature", "declared", "rule", "text"),
    [
        ("q, k, v", _MASKED, "MASK-001", "it takes no mask: declare mask=()"),
        ("q, k, v, valid_lens=None", _MASKED, "MASK-001", "it takes lengths: declare mask=('lengths',)"),
        ("q, k, v, key_padding_mask=None", _WIDE, "MASK-001", "it takes a mask of keys: declare mask_shapes=('BS',)"),
        ("q, k, v, bias=None", {}, "MASK-001", "declare mask=('additive',)"),
        ("q, k, v", {"mask": (), "causal": "top-left"}, "CAUSAL-001", "it takes no causal: declare causal=None"),
        ("q, k, v", {"mask": (), "options": ("softcap",)}, "OPTIONS-005", "it takes no softcap: leave it out"),
    ],
)
def test_what_has_no_place_is_named(signature: str, declared: dict[str, object], rule: str, text: str) -> None:
    (record,) = check(kernel(signature, "q, k, v"), select=[rule, "fp64"], **declared)
    assert record.outcome in ("failed", "error")
    assert text in record.message


def test_a_mask_without_a_place_is_told_once() -> None:
    records = list(check(kernel("q, k, v", "q, k, v"), select=["MASK", "fp64"], mask=("bool",)))
    told = {record.rule: record.message for record in records if record.outcome in ("failed", "error")}
    assert list(told) == ["MASK-001"]
    assert any("declare mask=()" in record.message for record in records if record.outcome == "not-run")
