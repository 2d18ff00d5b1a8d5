"""Arguments are read with what they hold, from whatever can be called."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attention_conformance.calling.names import BUILT, CALLED, built_role, called_role, may_be_mask, plain
from attention_conformance.calling.signature import call_signature

from .made import module


def _roles(target: Any) -> dict[str, str | None]:
    found = call_signature(target)
    assert found is not None
    return {each.name: each.role for each in found.parameters}


@pytest.mark.parametrize("table", [CALLED, BUILT], ids=["calls", "constructors"])
def test_no_name_stands_for_two_roles(table: dict[str, str]) -> None:
    words = [(plain(word), role) for role, spellings in table.items() for word in spellings.split()]
    assert len({word for word, _ in words}) == len(set(words))


@pytest.mark.parametrize(
    ("name", "role"), [("attnMask", "mask"), ("Q", "query"), ("is_causal", "causal"), ("nhead", "heads")]
)
def test_spelling_does_not_matter(name: str, role: str) -> None:
    found = called_role(name)
    assert found is not None
    assert found[0] == role


@pytest.mark.parametrize(
    ("name", "role"), [("resid_pdrop", "dropout"), ("Dropout", "dropout"), ("qkv_bias", None), ("cfg", "config")]
)
def test_constructors_have_names_of_their_own(name: str, role: str | None) -> None:
    assert built_role(name) == role


@pytest.mark.parametrize(
    ("name", "free"), [("m", True), ("keep", True), ("past_key_values", False), ("freqs_cis", False)]
)
def test_a_cache_is_no_mask(name: str, free: bool) -> None:
    assert may_be_mask(name) is free


class Attends(nn.Module):
    def forward(self, value: Tensor, key: Tensor, query: Tensor) -> Tensor:
        return query


class Called:
    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, scaling: float) -> Tensor:
        return q


WANTED = {"value": "value", "key": "key", "query": "query"}


@pytest.mark.parametrize("target", [Attends, Attends(), torch.compile(Attends(), backend="eager"), Attends().forward])
def test_a_module_is_read_by_its_forward(target: Any) -> None:
    assert _roles(target) == WANTED


def test_objects_partials_and_wrappers_are_read() -> None:
    @functools.wraps(Called.__call__)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return args

    assert _roles(Called()) == {"q": "query", "k": "key", "v": "value", "scaling": "scale"}
    assert list(_roles(wrapper))[1:] == ["q", "k", "v", "scaling"]
    bound = call_signature(functools.partial(Called(), scaling=0.5))
    assert bound is not None
    scale = bound.of("scale")
    assert scale is not None
    assert not scale.required


@pytest.mark.parametrize("target", [torch.nn.functional.scaled_dot_product_attention, object])
def test_what_has_no_signature_is_none(target: Any) -> None:
    assert call_signature(target) is None


class Strange:
    __signature__ = "none"

    def __call__(self, *args: Any) -> Any:
        return args


def test_a_signature_that_raises_is_none() -> None:
    assert call_signature(Strange()) is None


def test_of_two_names_for_one_role_the_needed_then_the_clearest_is_taken() -> None:
    assert _roles(module("x, mask=None, attn_mask=None", "x, x, x")) == {"x": "x", "mask": None, "attn_mask": "mask"}
    assert _roles(module("hidden, x=None", "hidden, x, x")) == {"hidden": "x", "x": None}


def test_a_signature_is_written_as_python() -> None:
    def attend(q: Tensor, k: Tensor, scale: float = 0.5, mask: Any = object(), *rest: Any, **more: Any) -> Any:  # noqa: B008
        return q

    assert str(call_signature(attend)) == "(q, k, scale=0.5, mask=..., *args, **kwargs)"
