"""The edge: whatever foreign code raises, prints into an error or changes stays outside."""

from __future__ import annotations

import signal

import pytest
import torch
from torch import Tensor

from attention_conformance import Outcome, check
from attention_conformance.cases.layouts import to_layout
from attention_conformance.foreign.edge import Raised, device_is_lost, foreign, safe, telling_interrupts_apart
from tests.kernels import attend


class _Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")


def _raising(error: BaseException) -> None:
    raise error


@pytest.mark.parametrize(
    "error",
    [ValueError("bad"), SystemExit(3), GeneratorExit(), KeyboardInterrupt(), pytest.fail.Exception("failed")],
    ids=lambda error: type(error).__name__,
)
def test_everything_that_foreign_code_raises_becomes_one_error(error: BaseException) -> None:
    with pytest.raises(Raised) as caught:
        foreign(_raising, error)
    assert caught.value.kind == type(error).__name__
    assert caught.value.__cause__ is error
    assert "test_edge.py" in caught.value.where


class _Nameless(type):
    @property
    def __name__(cls) -> str:
        raise SystemExit("no name")


class _WithoutName(Exception, metaclass=_Nameless):  # type: ignore[misc]
    pass


def test_an_error_without_a_name_is_told() -> None:
    with pytest.raises(Raised, match="it raised an exception without a name: lost"):
        foreign(_raising, _WithoutName("lost"))


@pytest.mark.parametrize(
    "text",
    [
        "CUDA error: an illegal memory access was encountered",
        "it raised AcceleratorError: CUDA error: device-side assert triggered (and 3 more lines)",
        "Triton Error [CUDA]: misaligned address",
        "HIP error: unspecified launch failure",
        "CUDA error: uncorrectable ECC error encountered",
    ],
)
def test_an_error_that_a_device_keeps_is_told_apart(text: str) -> None:
    assert device_is_lost(text)


@pytest.mark.parametrize(
    "text",
    [
        "CUDA out of memory. Tried to allocate 20.00 GiB",
        "CUDA error: invalid argument",
        "CUDA error: no kernel image is available for execution on the device",
        "an illegal instruction of mine",
        "",
    ],
)
def test_an_error_after_which_a_device_goes_on_is_none_that_it_keeps(text: str) -> None:
    assert not device_is_lost(text)


def test_a_message_that_cannot_be_made_is_replaced() -> None:
    with pytest.raises(Raised, match=r"it raised _Unprintable: \(its message raised ValueError\)"):
        foreign(_raising, _Unprintable())


def test_an_interrupt_from_the_terminal_passes_and_a_raised_one_does_not() -> None:
    with telling_interrupts_apart():
        with pytest.raises(Raised, match="KeyboardInterrupt"):
            foreign(_raising, KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            foreign(signal.raise_signal, signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_somebody_else_is_left_alone() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with telling_interrupts_apart():
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("plain\nlines", "plain\nlines"),
        ("red \x1b[31m", "red \\x1b[31m"),
        ("half \ud800", "half \\ud800"),
        ("bell \x07 and nul \x00", "bell \\x07 and nul \\x00"),
        ("Δ stays", "Δ stays"),
    ],
)
def test_text_of_others_is_made_safe(text: str, clean: str) -> None:
    assert safe(text) == clean


def test_text_of_others_is_cut() -> None:
    assert safe("a" * 50, limit=10) == "a" * 10 + " ..."
    assert safe("a" * 10, limit=10) == "a" * 10


def _exits(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    if mask is not None:
        raise SystemExit("no masks\x1b[2J here")
    return attend(query, key, value)[0]


def test_an_implementation_that_exits_gets_records_with_safe_text() -> None:
    records = list(check(_exits, dtypes=("fp32",), select=["MASK-003"]))
    assert [record.outcome for record in records] == [Outcome.ERROR]
    assert "it raised SystemExit" in records[0].message
    assert "\x1b" not in records[0].message


def test_the_place_of_an_error_is_outside_this_package_wherever_it_was_raised_inside() -> None:
    with pytest.raises(Raised, match=r"\(at test_edge\.py:\d+\)"):
        foreign(lambda: to_layout(torch.zeros(1), "BLHD"))
