"""What a mutant is: a deliberately faulty implementation together with the truth about its fault.

A population of mutants measures the suite: every member must be rejected, by the family of rules it is about.
Members are plain functions and classes that stay importable under their own name, so that worker processes,
`pickle` and `copy` treat them as they treat a user's code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from attention_conformance.rulebook import families

EMPTY = "empty (fully masked) rows"
SCALE = "scale"
LAYOUT = "layout / head split and merge"
MEANING = "mask meaning (polarity / dtype)"
FILL = "mask fill value or place"
BROADCAST = "mask broadcast / head-batch order"
FLAG = "causal flag dropped, forced or shifted"
DROPOUT = "dropout in eval / dropout state"
STATE = "mutation / stale state / copies"
WINDOW = "sliding window / ALiBi off by one"
LEAK = "masked values leak (NaN/Inf behind the mask)"
ALIGNMENT = "causal alignment when Lq != Lk"
STRIDES = "strided / expanded / non-contiguous input"
PATHS = "compile / vmap / export / fast path differs"
BATCH = "batch / padding dependence"
GRADIENT = "gradient missing or wrong"
SOFTCAP = "softcap lost or misplaced"
FP16_FILL = "fp16 fill overflow"
AXIS = "softmax axis"
GROUPS = "GQA head grouping"
LARGE = "large magnitudes (score or exp overflow)"
INDEX = "large sizes / index width"
OUTPUT = "value dim / output shape"
TAILS = "block tails (length not a multiple)"
ZERO = "zero-size input"
DETERMINISM = "determinism"
MIXED = "autocast / mixed dtype"
MASK_SUM = "mask sum overflow"
PRECISION = "low precision accumulation"
WEIGHTS = "returned weights"
UNRAISED = "error not raised"

KINDS = frozenset(
    {
        EMPTY,
        SCALE,
        LAYOUT,
        MEANING,
        FILL,
        BROADCAST,
        FLAG,
        DROPOUT,
        STATE,
        WINDOW,
        LEAK,
        ALIGNMENT,
        STRIDES,
        PATHS,
        BATCH,
        GRADIENT,
        SOFTCAP,
        FP16_FILL,
        AXIS,
        GROUPS,
        LARGE,
        INDEX,
        OUTPUT,
        TAILS,
        ZERO,
        DETERMINISM,
        MIXED,
        MASK_SUM,
        PRECISION,
        WEIGHTS,
        UNRAISED,
    }
)

_PROPERTY = re.compile(r"numerics G?\d+")
_SNAKE = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

Target = TypeVar("Target", bound=Callable[..., Any])


@dataclass(frozen=True)
class Mutant:
    """One faulty implementation.

    A kernel is called as `target(query, key, value, mask=None, **options)` and returns `(output, weights)` or the
    output alone. A module is built by `target(d_model, n_heads)`.
    `capabilities` holds the keyword arguments of `register()` that it declares honestly; it is empty where the
    implementation follows its reference. `families` are the families of rules that ought to reject it, the one it
    is about first. `kind` is one of KINDS, or `numerics N` for a property that holds without an oracle.
    `repeats` lists the public reports (B...) and properties that it repeats.

    Raises ValueError if the name is not snake_case, or a family or the kind is unknown.
    """

    name: str
    target: Callable[..., Any]
    capabilities: Mapping[str, Any]
    families: tuple[str, ...]
    fault: str
    kind: str
    repeats: str = ""

    def __post_init__(self) -> None:
        unknown = [family for family in self.families if family not in families()]
        if unknown or not self.families:
            raise ValueError(f"{self.name} names no family or an unknown one ({unknown}); choose from {families()}")
        if self.kind not in KINDS and not _PROPERTY.fullmatch(self.kind):
            raise ValueError(f"{self.name} has the unknown kind {self.kind!r}; add it to KINDS or write 'numerics N'")
        if not _SNAKE.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not snake_case; name the mutant for its fault")
        if not self.fault:
            raise ValueError(f"{self.name} does not say what is wrong with it; give it a docstring")


class Population:
    """The mutants of one file, in the order in which they stand there."""

    def __init__(self) -> None:
        self._members: list[Mutant] = []

    def __iter__(self) -> Iterator[Mutant]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def add(self, *families: str, kind: str, repeats: str = "", **capabilities: object) -> Callable[[Target], Target]:
        """Enter the decorated function or class; its docstring is the fault, its name in snake_case the name."""

        def enter(target: Target) -> Target:
            self._members.append(
                Mutant(
                    name=_snake_case(target.__name__),
                    target=target,
                    capabilities=MappingProxyType(capabilities),
                    families=families,
                    fault=" ".join((target.__doc__ or "").split()),
                    kind=kind,
                    repeats=repeats,
                )
            )
            return target

        return enter


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
