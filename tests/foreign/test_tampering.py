"""What an implementation has done to its process that nothing puts back is named."""

from __future__ import annotations

import json
import sys
import threading
import types
from collections.abc import Callable

import pytest
import torch

from attention_conformance import check
from attention_conformance.foreign.tampering import Watch
from attention_conformance.oracle import definition as oracle
from attention_conformance.reference.attention import MultiHeadAttention, attention
from attention_conformance.rulebook import catalogue
from attention_conformance.trials.trial import Trial

Patch = pytest.MonkeyPatch

REPLACED: dict[str, Callable[[Patch], None]] = {
    "torch.softmax": lambda patch: patch.setattr(torch, "softmax", torch.sigmoid),
    "torch.nn.functional.softmax": lambda patch: patch.delattr(torch.nn.functional, "softmax"),
    "torch.Tensor.matmul": lambda patch: patch.setattr(torch.Tensor, "matmul", torch.Tensor.mul),
    "torch.nn.modules.module.Module.eval": lambda patch: patch.setattr(torch.nn.Module, "eval", torch.nn.Module.train),
    "json.dumps": lambda patch: patch.setattr(json, "dumps", repr),
    "builtins.sum": lambda patch: patch.setattr("builtins.sum", max),
    "attention_conformance.oracle.definition.solve": lambda patch: patch.setattr(oracle, "solve", None),
    "attention_conformance.trials.trial.Trial.agrees": lambda patch: patch.setattr(Trial, "agrees", Trial.near),
    "the module cmath": lambda patch: patch.setitem(sys.modules, "cmath", types.ModuleType("cmath")),
}


@pytest.mark.parametrize("name", REPLACED)
def test_what_is_replaced_is_named(name: str, monkeypatch: Patch) -> None:
    import cmath  # noqa: F401 - it is there before

    watch = Watch()
    with monkeypatch.context() as patch:
        REPLACED[name](patch)
        changes = watch.changes()
    assert f"{name} is another one" in changes
    assert watch.changes() == []


def test_a_thread_that_goes_on_is_named() -> None:
    watch, ended = Watch(), threading.Event()
    thread = threading.Thread(target=ended.wait, name="pulse", daemon=True)
    thread.start()
    assert watch.changes() == ["a thread goes on (pulse)"]
    ended.set()
    thread.join()
    assert watch.changes() == []


def test_modes_that_are_never_left_are_named() -> None:
    watch = Watch()
    with torch.overrides.BaseTorchFunctionMode():
        assert [each.partition(":")[0] for each in watch.changes()] == ["modes that intercept torch"]
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor):
        assert [each.partition(":")[0] for each in watch.changes()] == ["hooks for saved tensors"]
    with torch.autograd.forward_ad.dual_level():
        assert [each.partition(":")[0] for each in watch.changes()] == ["level of forward differentiation"]
    assert watch.changes() == []


def test_where_nothing_can_be_told_something_has_changed(monkeypatch: Patch) -> None:
    watch = Watch()
    with monkeypatch.context() as patch:
        patch.setattr(threading, "enumerate", None)
        assert watch.changes() == ["what has changed cannot be told (TypeError)"]


@pytest.mark.parametrize("target", [attention, MultiHeadAttention])
def test_judging_itself_changes_nothing(target: Callable[..., object]) -> None:
    catalogue()
    watch = Watch()
    select = ("SHAPE", "MASK", "PURITY", "GRADIENT", "PORTABILITY", "fp32")
    assert len(list(check(target, select=select))) > 30
    assert watch.changes() == []
