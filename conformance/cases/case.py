"""Cases: what is sent, as data. Tensors are made of them in `inputs`, expectations in `expectations`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields, replace
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Mask:
    """A mask by its content, its axes and the forms in which it may be delivered.

    `content` names an entry of `masks.CONTENTS`. `axes` is the shape in letters (G, B, H, L, S and 1), without leading
    axes that a mask leaves out. `forms` are kinds in order of preference, the first that is accepted is used.
    `numbers` says how true and false are written in a number mask: `int` (1, 0), `float` (1.0, 0.0), `bytes`, `int8`,
    `int32`, `fp32`, `fp64` (1 and 0 in that dtype whatever the inputs have),
    `odd` (2, -1, 256 and 0), `fractions` (0.25, -2, 1.5 and 0).
    `finite` adds finite values to an additive mask. `memory` is `contiguous`, `expanded`, `transposed` or `sliced`.
    """

    content: str = "random"
    axes: str = "LS"
    forms: tuple[str, ...] = ("bool", "number", "additive")
    numbers: str = "int"
    finite: bool = False
    memory: str = "contiguous"


@dataclass(frozen=True)
class Case:
    """One input: sizes, values, mask, options, memory and seed.

    `leading` names the leading axes of a kernel's tensors: any of "", "B", "BH", "GBH". `kv_heads` is the number of
    key and value heads where it differs from `heads`. `values` names an entry of `values.FAMILIES`. `broadcast` lists tensors whose leading axes have size 1. `memory` is how
    the tensors in `strided` lie. `shared` is "qkv" or "kv" where one tensor object serves several arguments. Options
    that are None are not passed. `draw` is the seed of the run, which changes what every case draws.
    """

    name: str
    batch: int = 2
    heads: int = 4
    queries: int = 5
    keys: int = 7
    width: int = 8
    value_width: int = 6
    kv_heads: int | None = None
    leading: str = "BH"
    values: str = "signed"
    mask: Mask | None = None
    causal: bool = False
    scale: float | None = None
    window: int | None = None
    softcap: float | None = None
    bias: str | None = None
    dropout: float | None = None
    broadcast: tuple[str, ...] = ()
    memory: str = "contiguous"
    strided: tuple[str, ...] = ("query", "key", "value")
    shared: str = ""
    seed: int = 0
    draw: int = 0

    @property
    def may_have_empty_rows(self) -> bool:
        """Whether the mask leaves some query without a key."""
        return self.mask is not None and self.mask.content.startswith("empty")

    def describe(self) -> str:
        """Return the case in one line."""
        sizes = f"B={self.batch} H={self.heads} L={self.queries} S={self.keys} D={self.width} E={self.value_width}"
        parts = [f"{self.name}: {sizes}"]
        if self.kv_heads is not None:
            parts.append(f"kv_heads={self.kv_heads}")
        if self.values != "signed":
            parts.append(f"values {self.values}")
        if self.mask is not None:
            parts.append(f"mask {self.mask.content} {self.mask.axes} as {self.mask.forms[0]}")
        parts += [f"{name}={value}" for name, value in self.options().items()]
        if self.memory != "contiguous":
            parts.append(f"{', '.join(self.strided)} {self.memory}")
        return ", ".join(parts)

    def options(self) -> dict[str, Any]:
        """Return the options of the case that are set, `causal` among them."""
        return {**self._options}

    @cached_property
    def _options(self) -> Mapping[str, Any]:
        named = {"causal": self.causal or None}
        named |= {name: getattr(self, name) for name in ("scale", "window", "softcap", "bias", "dropout")}
        return {name: value for name, value in named.items() if value is not None}


def vary(case: Case, name: str, **changes: Any) -> Case:
    """Return `case` under another name with some fields changed."""
    return replace(case, name=name, **changes)


def source_of(thing: Case | Mask) -> str:
    """Return the expression that makes a case or a mask, without the fields that have their default."""
    parts = []
    for entry in fields(thing):
        value = getattr(thing, entry.name)
        if entry.default is MISSING or value != entry.default:
            parts.append(f"{entry.name}={source_of(value) if isinstance(value, Mask) else repr(value)}")
    return f"{type(thing).__name__}({', '.join(parts)})"


FOUND = "found"
"""Name of a case that was not written here but found by a search."""

PLAIN = Case("all sizes differ")
SQUARE = Case("lengths equal", queries=6, keys=6, value_width=8)
COINCIDING = Case("B = H = L = S = D = E", batch=4, heads=4, queries=4, keys=4, width=4, value_width=4)
MASKED = Case("random mask", mask=Mask("random", "LS"))
PADDED = Case("key padding", mask=Mask("padding", "B11S", ("bool", "number", "additive", "lengths")))
PER_HEAD = Case("mask per batch and head", mask=Mask("random", "BHLS"))
EMPTY_ROW = Case("one empty row", mask=Mask("empty row", "LS"))
SMALL = Case("small", batch=2, heads=2, queries=3, keys=4, width=4, value_width=5)
SMALL_MASKED = vary(SMALL, "small with mask", mask=Mask("random", "LS"))
