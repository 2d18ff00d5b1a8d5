"""The runner: what came back may be hostile, rules in any order, other seeds, and who ends the run."""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor

from attention_conformance import Outcome, check, cli
from attention_conformance.cases.case import MASKED, PLAIN
from attention_conformance.cases.inputs import make, parameter_seed, seed_of
from attention_conformance.implementation import describe
from attention_conformance.records import Record
from attention_conformance.reference.attention import attention
from attention_conformance.results import read
from attention_conformance.rulebook import get_rule
from attention_conformance.runner import Examination
from attention_conformance.selection import plan


def wrapped(change: Callable[[Tensor], object]) -> Callable[..., object]:
    """Return the document's kernel with its output changed by `change`."""

    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> object:
        output, weights = attention(query, key, value, mask)
        return change(output), weights

    return attend


class Untouchable(Tensor):
    """Raises beyond Exception whenever anybody looks at it."""

    @classmethod
    def __torch_function__(cls, *arguments: Any, **named: Any) -> NoReturn:
        raise SystemExit("do not touch")


class Interrupting(Tensor):
    """Raises what looks like Ctrl-C whenever anybody looks at it."""

    @classmethod
    def __torch_function__(cls, *arguments: Any, **named: Any) -> NoReturn:
        raise KeyboardInterrupt


class Late(Tensor):
    """Fails only when its numbers are asked for, as the result of an asynchronous kernel does."""

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(function, "__name__", "") in ("to", "double", "item", "abs", "sub", "isfinite", "isnan"):
            raise RuntimeError("device-side assert triggered\nlaunch with BLOCKING=1")
        return super().__torch_function__(function, types, args, kwargs or {})


class Lying(Tensor):
    """Says that its shape is another one, and that it equals everything."""

    shape = (1, 2, 3)  # type: ignore[assignment]

    def __eq__(self, other: object) -> Any:
        return True

    __hash__ = Tensor.__hash__


class Nameless(Tensor):
    """Raises an error that cannot be printed."""

    @classmethod
    def __torch_function__(cls, *arguments: Any, **named: Any) -> NoReturn:
        class Hidden(Exception):
            def __str__(self) -> str:
                raise ValueError

        raise Hidden


RESULTS: dict[str, Callable[[Tensor], object]] = {
    "untouchable": lambda output: output.detach().as_subclass(Untouchable),
    "interrupting": lambda output: output.detach().as_subclass(Interrupting),
    "late": lambda output: output.as_subclass(Late),
    "lying": lambda output: output.as_subclass(Lying),
    "nameless": lambda output: output.detach().as_subclass(Nameless),
    "meta": lambda output: output.to("meta"),
    "complex": lambda output: torch.complex(output, output),
    "integer": lambda output: output.detach().to(torch.int64),
    "boolean": lambda output: output.detach() > 0,
    "eight_bits": lambda output: output.to(torch.float8_e4m3fn),
    "sparse": lambda output: output.to_sparse(),
    "quantised": lambda output: torch.quantize_per_tensor(output.detach().float(), 0.1, 0, torch.qint8),
    "nested": lambda output: torch.nested.nested_tensor([output.detach()]),
    "nan_in_another_dtype": lambda output: torch.full_like(output.half(), torch.nan),
    "no_axes": lambda output: output.sum(),
    "no_elements": lambda output: output[..., :0],
    "conjugated": lambda output: torch.complex(output, output).conj(),
    "needs_a_gradient_of_its_own": lambda output: output.detach().clone().requires_grad_(),
    "needs_none": lambda output: output.detach(),
    "inference": lambda output: torch.inference_mode()(lambda: output.detach().clone())(),
    "its_own_twin": lambda output: [output, output],
    "nothing": lambda output: None,
}
"""What comes back instead of the output, by name."""

RULES = ("SHAPE-001", "MASK-001", "CAUSAL-001", "NUMERIC-001", "PURITY-001", "GRADIENT-001", "fp32")


def judged(target: Callable[..., object], select: tuple[str, ...] = RULES) -> list[Record]:
    """Judge without gates, so that every rule looks at what comes back."""
    implementation = describe(target)
    examination = Examination(implementation, gated=False)
    return [examination.run_one(get_rule(key.rule), key.dtype) for key in plan(implementation, select=select)]


@pytest.mark.parametrize("name", RESULTS)
def test_whatever_comes_back_gets_a_record_and_departs(name: str) -> None:
    records = judged(wrapped(RESULTS[name]))
    assert len(records) == len(plan(describe(attention), select=RULES))
    assert any(record.failing for record in records)
    assert all(record.message for record in records if record.bad)


@pytest.mark.parametrize("name", ["untouchable", "interrupting", "late", "nameless"])
def test_a_result_that_fails_when_it_is_looked_at_is_an_error_with_its_place(name: str) -> None:
    (record,) = (record for record in judged(wrapped(RESULTS[name])) if record.rule == "NUMERIC-001")
    assert record.outcome is Outcome.ERROR
    assert "what it returned made this rule fail at " in record.message
    assert ".py:" in record.message


def test_a_result_without_values_is_told() -> None:
    (record,) = (record for record in judged(wrapped(RESULTS["meta"])) if record.rule == "SHAPE-001")
    assert record.outcome is Outcome.ERROR
    assert "it returned a tensor without values, on the device meta" in record.message


def test_every_rule_survives_a_result_that_fails_late() -> None:
    target = wrapped(RESULTS["late"])
    keys = plan(describe(target, dtypes=("fp32",)), tier="thorough")
    implementation = describe(target, dtypes=("fp32",))
    examination = Examination(implementation, gated=False)
    records = [examination.run_one(get_rule(key.rule), key.dtype) for key in keys]
    assert [record.key for record in records] == list(keys)


def test_check_yields_a_record_for_every_key_of_a_hostile_implementation() -> None:
    target = wrapped(RESULTS["untouchable"])
    records = list(check(target))
    assert [record.key for record in records] == list(plan(describe(target)))


@pytest.mark.skipif(signal.getsignal(signal.SIGINT) is not signal.default_int_handler, reason="Ctrl-C is not heard")
@pytest.mark.parametrize("when", ["called", "looked at"])
def test_a_real_ctrl_c_ends_the_run(when: str) -> None:
    class Slow(Tensor):
        @classmethod
        def __torch_function__(cls, *arguments: Any, **named: Any) -> NoReturn:
            signal.raise_signal(signal.SIGINT)
            raise AssertionError("not reached")

    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        if when == "called":
            signal.raise_signal(signal.SIGINT)
        return query.detach().as_subclass(Slow)

    with pytest.raises(KeyboardInterrupt):
        list(check(attend))


def test_a_rule_of_its_own_that_fails_on_sound_results_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **named: Any) -> NoReturn:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr("attention_conformance.story.failure.of_departure", broken)
    (record,) = judged(lambda query, key, value, mask=None: query, ("NUMERIC-001", "fp32"))
    assert record.outcome is Outcome.ERROR
    assert "ZeroDivisionError: a mistake of ours" in record.message


def test_a_default_device_that_is_left_behind_is_put_back() -> None:
    def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> object:
        result = attention(query, key, value, mask)
        torch.set_default_device("meta")
        return result

    judged(attend, ("SHAPE-001", "fp32"))
    assert torch.get_default_device() == torch.device("cpu")
    assert torch.ones(2).device == torch.device("cpu")


# Seeds


def test_a_seed_of_the_run_changes_every_case_and_the_parameters() -> None:
    other = replace(PLAIN, draw=1)
    assert seed_of(other) != seed_of(PLAIN)
    assert parameter_seed(other) != parameter_seed(PLAIN)
    assert not torch.equal(make(other, False, "fp32").query, make(PLAIN, False, "fp32").query)
    assert not torch.equal(make(replace(MASKED, draw=3), True, "fp32").query, make(MASKED, True, "fp32").query)


def test_check_hands_its_seed_to_every_call() -> None:
    seen: dict[int, list[Tensor]] = {}

    def watching(seed: int) -> Callable[..., object]:
        def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> object:
            seen.setdefault(seed, []).append(query.detach().clone())
            return attention(query, key, value, mask)

        return attend

    for seed in (0, 5):
        list(check(watching(seed), select=("NUMERIC-001", "PURITY-007", "fp32"), seed=seed))
    drawn = [(a, b) for a, b in zip(seen[0], seen[5], strict=True) if a.numel() and bool(a.any())]
    assert len(drawn) > 5
    assert not any(torch.equal(a, b) for a, b in drawn)


def test_the_audit_hands_its_seed_on_and_writes_it_down(tmp_path: Path) -> None:
    path, file = tmp_path / "kernels.py", tmp_path / "result.jsonl"
    path.write_text(
        "from attention_conformance.reference.attention import attention\n"
        "def telling(query, key, value, mask=None):\n"
        "    if query.numel():\n"
        "        raise ValueError(f'{float(query.flatten()[0]):.9f}')\n"
        "    return attention(query, key, value, mask)\n"
    )
    said = {}
    for seed in ("0", "7"):
        arguments = [
            "audit",
            f"{path}:telling",
            "--select",
            "SHAPE-001,fp32",
            "--seed",
            seed,
            "--json",
            str(file),
            "-q",
        ]
        assert cli.run(arguments) == cli.DEPARTS
        result = read(file)
        assert result.header.seed == int(seed)
        said[seed] = result.audited[0].records[0].message.partition("raised ValueError")[2].splitlines()[0]
    assert said["0"] != said["7"]


def test_the_order_of_rules_does_not_change_a_record() -> None:
    implementation = describe(attention, dtypes=("fp32",))
    keys = plan(implementation, select=("MASK", "CAUSAL", "PURITY"))

    def outcomes(order: tuple[Any, ...]) -> dict[Any, tuple[Outcome, float | None]]:
        examination = Examination(implementation)
        records = [examination.run_one(get_rule(key.rule), key.dtype) for key in order]
        return {record.key: (record.outcome, record.ratio) for record in records}

    assert outcomes(keys) == outcomes(tuple(reversed(keys)))
