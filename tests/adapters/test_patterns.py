"""Entries for families: which objects a pattern recognises, and what is done with them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attention_conformance import adapters, check
from attention_conformance.adapters import ADAPTERS, Adapter, Built, find
from attention_conformance.environment import described
from attention_conformance.errors import TargetNotLoaded
from attention_conformance.loading import load
from attention_conformance.records import Outcome

PACKAGE = "a_package.models"


class Attention(nn.Module):
    """Attention with one tensor, made from a configuration; `scale` is not the usual one in a careless model."""

    factor = 1.0

    def __init__(self, config: Mapping[str, int]) -> None:
        super().__init__()
        self.heads, width = config["heads"], config["width"]
        self.query, self.key, self.value, self.output = (nn.Linear(width, width) for _ in range(4))

    def forward(self, hidden_states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Attend; hidden states (B, L, width)."""
        q, k, v = (
            linear(hidden_states).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        scores = self.factor * q @ k.mT * q.shape[-1] ** -0.5
        scores = scores if attention_mask is None else scores.masked_fill(~attention_mask, float("-inf"))
        return self.output((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


def build(target: Any, d_model: int, heads: int) -> Any:
    """Build it from a configuration."""
    return target({"heads": heads, "width": d_model})


def call(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Call it with one tensor."""
    return module(query, attention_mask=mask)


CAPABILITIES = {
    "inputs": "self", "mask": ("bool",), "empty_row": "nan", "second": None, "mask_shapes": ("B1LS",), "dtypes": ("fp32",),
}  # fmt: skip
FAMILY = Adapter(
    f"{PACKAGE}.*:*Attention", "as it is", call, CAPABILITIES, build=build, reference="MultiHeadAttention",
    parameters={"query": "query", "key": "key", "value": "value", "output": "output"},
)  # fmt: skip


@pytest.fixture
def models() -> Iterator[dict[str, type[Attention]]]:
    """A package of two models, each with a class of its own in a module of its own."""
    made = {}
    for name, factor in (("sound", 1.0), ("careless", 2.0)):
        module, title = ModuleType(f"{PACKAGE}.{name}.modeling"), f"{name.title()}Attention"
        made[name] = type(title, (Attention,), {"__module__": module.__name__, "factor": factor})
        setattr(module, title, made[name])
        sys.modules[module.__name__] = module
    yield made
    for each in made.values():
        del sys.modules[each.__module__]


def test_a_pattern_is_held_to_where_an_object_was_defined(models: dict[str, type[Attention]]) -> None:
    assert FAMILY.recognises(models["sound"])
    assert FAMILY.recognises(models["careless"])
    elsewhere = type("SoundAttention", (Attention,), {"__module__": "another_package.models.sound.modeling"})
    for other in (elsewhere, Attention, nn.Linear, print, partial(print), "text", None, 3):
        assert not FAMILY.recognises(other)


def test_an_entry_that_names_the_target_goes_before_a_pattern(models: dict[str, type[Attention]]) -> None:
    named = Adapter(f"{PACKAGE}.sound.modeling:SoundAttention", "by name", call, {})
    assert find(models["sound"], (FAMILY, named)) == {None: named}
    assert find(models["careless"], (FAMILY, named)) == {None: FAMILY}


def test_an_earlier_pattern_goes_before_a_later_one_with_all_its_variants(models: dict[str, type[Attention]]) -> None:
    narrow = f"{PACKAGE}.sound.*:*Attention"
    first, second = Adapter(narrow, "first", call, {}), Adapter(narrow, "second", call, {}, variant="second")
    other = Adapter(FAMILY.target, "other", call, {}, variant="other")
    table = (first, FAMILY, other, second)
    assert find(models["sound"], table) == {None: first, "second": second}
    assert find(models["careless"], table) == {None: FAMILY, "other": other}


def test_capabilities_may_depend_on_the_target(models: dict[str, type[Attention]]) -> None:
    asking = Adapter(FAMILY.target, "asked", call, lambda target: {**CAPABILITIES, "scale": target.factor}, build=build)
    described = asking.describe({}, models["careless"])
    assert described.capabilities.scale == 2.0
    assert described.name == f"{PACKAGE}.careless.modeling:CarelessAttention"


@pytest.fixture
def known(models: dict[str, type[Attention]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A table in which the family is known in two ways."""
    twice = Adapter(FAMILY.target, "another way", call, CAPABILITIES, variant="other", build=build)
    monkeypatch.setattr(adapters, "find", partial(find, table=(FAMILY, twice)))


@pytest.mark.usefixtures("known")
def test_a_class_of_a_family_is_built_called_and_judged() -> None:
    rules = ["SHAPE-001", "NUMERIC-001", "MASK-003", "PROJECTION-001"]
    outcomes = {}
    for name in ("sound", "careless"):
        (loaded,) = load(f"{PACKAGE}.{name}.modeling:{name.title()}Attention")
        assert loaded.implementation.target == Built(
            getattr(sys.modules[f"{PACKAGE}.{name}.modeling"], f"{name.title()}Attention"), build
        )
        outcomes[name] = {record.rule: record.outcome for record in check(loaded.implementation, select=rules)}
    assert set(outcomes["sound"].values()) == {Outcome.PASSED}
    assert outcomes["careless"]["NUMERIC-001"] is Outcome.FAILED


@pytest.mark.usefixtures("known")
def test_variants_of_a_family_are_named_after_the_class() -> None:
    target = f"{PACKAGE}.sound.modeling:SoundAttention"
    (loaded,) = load(f"{target}[other]")
    assert loaded.implementation.label == f"{target}[other]"
    with pytest.raises(TargetNotLoaded, match=r"no variant 'othr', did you mean 'other'\? Known: .*SoundAttention, "):
        load(f"{target}[othr]")


def test_a_built_module_is_of_the_package_that_defines_its_class() -> None:
    (loaded,) = load("torch.nn:MultiheadAttention")
    assert described(loaded, {}).distribution == "torch"


def functions() -> Iterator[FunctionType]:
    """Yield every function of the table, once."""
    given = [function for adapter in ADAPTERS for function in (adapter.call, adapter.build) if function is not None]
    inner = (function.func if isinstance(function, partial) else function for function in given)
    yield from dict.fromkeys(function for function in inner if isinstance(function, FunctionType))


def names(code: CodeType) -> set[str]:
    """Return the names that code looks up outside its own function."""
    nested = [names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return set(code.co_names).union(*nested)


@pytest.mark.parametrize("function", [*functions()], ids=lambda function: f"{function.__module__}:{function.__name__}")
def test_a_function_of_the_table_can_be_pasted(function: FunctionType) -> None:
    outside = {name for name in names(function.__code__) & set(function.__globals__) if not name.startswith("__")}
    assert not {name for name in outside if function.__globals__[name] is not torch}
    assert function.__closure__ is None
