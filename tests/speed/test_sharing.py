"""What is expected of a case is made once, whoever is judged and however often."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from attention_conformance import check
from attention_conformance.cases import inputs
from attention_conformance.oracle import bounds, expectations, gradients
from attention_conformance.oracle import definition as oracle
from attention_conformance.records import Outcome
from attention_conformance.reference.attention import MultiHeadAttention, attention

from . import kernels

_MAKERS = (
    (oracle, "solve"),
    (oracle, "differentiate"),
    (oracle, "differentiate_logsumexp"),
    (bounds, "forward"),
    (bounds, "backward"),
    (bounds, "backward_logsumexp"),
    (inputs, "shapes_of"),
)
"""What has to run whenever an oracle is asked, a bound is computed or tensors are drawn."""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Notes the name of everything that is made while the test runs."""
    found: list[str] = []

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            found.append(name)
            return function(*args, **kwargs)

        return call

    for owner, name in _MAKERS:
        monkeypatch.setattr(owner, name, noting(name, getattr(owner, name)))
    return found


def _forget() -> None:
    for cache in (inputs.make, expectations.expect, expectations._expect_contents, gradients.expected_gradients):
        cache.cache_clear()


@pytest.mark.parametrize("target", [attention, MultiHeadAttention])
def test_a_second_check_makes_nothing_anew(target: Callable[..., Any], made: list[str]) -> None:
    _forget()
    first = [record.outcome for record in check(target, dtypes=("fp32",))]
    assert {name for _, name in _MAKERS} - {"differentiate_logsumexp", "backward_logsumexp"} <= set(made)
    made.clear()
    assert [record.outcome for record in check(target, dtypes=("fp32",))] == first
    assert made == []


def test_a_hundred_kernels_share_what_is_expected_of_them(made: list[str]) -> None:
    select, targets = ("MASK-004", "MASK-008", "GRADIENT-001", "fp32"), _compiled(kernels.sound(), 100)
    assert len(targets) == 100
    _forget()
    list(check(targets[0], select=select))
    assert made
    made.clear()
    for target in targets[1:]:
        assert {record.outcome for record in check(target, select=select)} == {Outcome.PASSED}
    assert made == []


def _compiled(made: Iterator[kernels.Kernel], number: int) -> list[Callable[..., Any]]:
    names: dict[str, Any] = {}
    wanted = [kernel for kernel, _ in zip(made, range(number), strict=False)]
    exec(kernels.IMPORTS + "\n".join(kernel.source for kernel in wanted), names)
    return [names[kernel.name] for kernel in wanted]


def test_the_kernels_differ_from_each_other_and_the_faulty_ones_fail() -> None:
    sources = [kernel.source.partition("(")[2] for kernel in kernels.sound()]
    assert len(set(sources)) == len(sources) >= 100
    faulty = [kernel for kernel in kernels.with_faults(5) if kernel.name.startswith("faulty")]
    assert len(faulty) == len(sources) // 5 + 1
    for target in _compiled(iter(faulty), 6):
        assert any(record.outcome is Outcome.FAILED for record in check(target, select=("NUMERIC", "MASK", "fp64")))
