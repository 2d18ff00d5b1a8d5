"""The table of adapters: what each entry declares is what torch does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attention_conformance import Deviation, check
from attention_conformance.adapters import ADAPTERS, DEFAULT_TARGETS, Adapter, find
from attention_conformance.adapters.torch_attention import sdpa
from attention_conformance.capabilities import VOCABULARY
from attention_conformance.loading import load
from attention_conformance.records import Outcome
from attention_conformance.rulebook import catalogue

SDPA = "torch.nn.functional:scaled_dot_product_attention"
since_2_5 = pytest.mark.skipif(torch.__version__ < "2.5", reason="the older kernels of torch do otherwise")
TORCH = [adapter for adapter in ADAPTERS if adapter.target.startswith("torch.")]
CONVENTIONS = {rule.convention: rule.id for rule in catalogue().values() if rule.convention is not None}


def test_an_entry_occurs_once() -> None:
    assert len({adapter.text for adapter in ADAPTERS}) == len(ADAPTERS)


def test_every_target_is_recognised_and_the_usual_way_comes_first() -> None:
    assert list(find(F.scaled_dot_product_attention)) == [None, "math"]
    assert list(find(nn.MultiheadAttention)) == [None, "weights", "self"]
    assert find(nn.Linear) == {}
    assert find(None) == {}


def test_recognising_imports_nothing() -> None:
    code = (
        "import sys\nfrom attention_conformance.adapters import find\nimport attention_conformance.loading\n"
        "before = set(sys.modules); find(print); print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("text", DEFAULT_TARGETS)
def test_default_targets_load(text: str) -> None:
    (loaded,) = load(text)
    assert loaded.name == text


def here(adapter: Adapter) -> list[Deviation]:
    """Return the deviations that hold under this version of torch."""
    return [entry for entry in adapter.deviations if entry.applies("fp32", "cpu", torch.__version__)]


@pytest.mark.parametrize("adapter", TORCH, ids=lambda adapter: adapter.text)
def test_the_declared_conventions_are_what_torch_does(adapter: Adapter) -> None:
    excused = {deviation.rule for deviation in here(adapter)}
    for record in check(adapter.describe({}), select=CONVENTIONS.values()):
        wanted = (Outcome.DEVIATION,) if record.rule in excused else (Outcome.PASSED, Outcome.NOT_APPLICABLE)
        assert record.outcome in wanted, record.message


@pytest.mark.parametrize("adapter", TORCH, ids=lambda adapter: adapter.text)
def test_each_deviation_is_needed(adapter: Adapter) -> None:
    for deviation in here(adapter):
        records = list(check(adapter.describe({}), tier="thorough", select=[deviation.rule]))
        assert {record.outcome for record in records} == {Outcome.DEVIATION}
        assert deviation.link is not None


def wrong_answers() -> Iterator[tuple[str, str, object]]:
    """Yield (text of an entry, capability, answer) for answers that torch does not give."""
    for text, capability, answer in (
        (SDPA, "empty_row", "uniform"),
        (SDPA, "causal", "bottom-right"),
        (SDPA, "mask_means", "hide"),
        (f"{SDPA}[math]", "causal_with_mask", "and"),
        ("torch.nn:MultiheadAttention", "mask_means", "attend"),
        ("torch.nn:MultiheadAttention", "empty_row", "nan"),
        ("torch.nn:MultiheadAttention", "no_keys", "nan"),
        ("torch.nn:MultiheadAttention[weights]", "empty_row", "zeros"),
        ("torch.nn:MultiheadAttention[weights]", "second", "averaged weights"),
    ):
        assert capability in CONVENTIONS
        assert answer in VOCABULARY[capability]
        yield text, capability, answer


@since_2_5
@pytest.mark.parametrize(("text", "capability", "answer"), [*wrong_answers()])
def test_another_answer_would_fail(text: str, capability: str, answer: object) -> None:
    (loaded,) = load(text, {capability: answer, "dtypes": ("fp32",)})
    records = list(check(loaded.implementation, select=[CONVENTIONS[capability]]))
    assert [record.outcome for record in records] == [Outcome.FAILED]


@since_2_5
@pytest.mark.parametrize(
    ("text", "claim", "select", "holds"),
    [
        (SDPA, {"precision": "upcast"}, ["CAUSAL-004", "bf16"], False),
        (f"{SDPA}[math]", {"precision": "upcast"}, ["CAUSAL-004", "bf16"], True),
        ("torch.nn:MultiheadAttention", {"gradient": "twice"}, ["GRADIENT-011"], False),
        ("torch.nn:MultiheadAttention[weights]", {"gradient": "twice"}, ["GRADIENT-011"], True),
    ],
)
def test_the_tightest_claims_hold_only_where_they_are_made(
    text: str, claim: dict[str, str], select: list[str], holds: bool
) -> None:
    """The fused kernel rounds its weights and has no second derivative; neither is true of the others."""
    (loaded,) = load(text, claim)
    outcomes = {record.outcome for record in check(loaded.implementation, select=select)}
    assert outcomes
    assert (outcomes == {Outcome.PASSED}) if holds else (outcomes <= {Outcome.FAILED, Outcome.ERROR})


@pytest.mark.parametrize(
    ("key", "grouped"), [((2, 2, 5, 8), True), ((2, 4, 5, 8), False), ((1, 1, 5, 8), False), ((5, 8), False)]
)
def test_heads_that_broadcast_are_not_called_grouped(key: tuple[int, ...], grouped: bool) -> None:
    """torch before 2.5 has no grouped heads and broadcasts a single one."""
    told: dict[str, object] = {}
    sdpa(lambda *tensors, **options: told.update(options), torch.zeros(2, 4, 3, 8), torch.zeros(key), torch.zeros(key))
    assert ("enable_gqa" in told) is grouped
