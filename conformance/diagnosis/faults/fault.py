"""What a known fault is: a name, a sentence, what repairs it, and what attention computes that has it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..stages import Call, Stages

Variants = Callable[[Call], Iterable[Stages]]


@dataclass(frozen=True)
class Fault:
    """A fault by what it computes.

    `name` stays as it is once released. `sentence` says what is done in place of the definition, `repair` what to do
    instead. `variants` gives the stages that it replaces, in every version that is known. `when` says what a call must
    have for the fault to show; others are not tried.
    """

    name: str
    sentence: str
    repair: str
    variants: Variants
    when: Callable[[Call], bool] = lambda call: True

    @property
    def text(self) -> str:
        """The name, what is wrong, and what to do."""
        return f"{self.name}: {self.sentence} {self.repair}"


@dataclass(frozen=True)
class Told:
    """A fault that the failing rule itself shows: `rule` and `seen` are patterns of its id and of what was seen. Groups
    of `seen` stand in name, sentence and repair as {0}, {1}."""

    name: str
    sentence: str
    repair: str
    rule: str
    seen: str = ""


def one(**stages: Any) -> Variants:
    """One version: the named stages replaced."""
    return lambda call: (stages,)


def of(*versions: Stages) -> Variants:
    """Several versions, each with its stages."""
    return lambda call: versions


def each(make: Callable[..., Stages], *values: Any) -> Variants:
    """One version for each value."""
    return lambda call: (make(value) for value in values)


def where(when: Callable[[Call], bool], *faults: Fault) -> tuple[Fault, ...]:
    """Return the faults, tried only where `when` holds beside what each needs itself."""
    return tuple(replace(fault, when=_both(when, fault.when)) for fault in faults)


def _both(one: Callable[[Call], bool], other: Callable[[Call], bool]) -> Callable[[Call], bool]:
    return lambda call: one(call) and other(call)
