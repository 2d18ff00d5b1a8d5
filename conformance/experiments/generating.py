"""What a search may send: cases of every size, family of values, mask and option that an implementation declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

from ..cases.case import FOUND, Case, Mask
from ..cases.values import EXACT_SCORES
from ..implementation import Implementation

T = TypeVar("T")

Flip = Callable[[], bool]

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 33, 40)

WIDTHS = (4, 1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 32)

HEADS = ((1, None), (2, None), (3, None), (4, None), (2, 1), (4, 2), (6, 3), (6, 2))

FAMILIES = (
    "signed", "zero query", "flat", "constant value", "sharp", "tiny", "shifted keys", "shifted values",
    "large values", "huge scores", "equal keys", "ramp", "duplicate keys", "identity value",
    "scores -20", "scores -64", "scores 120", "two keys",
)  # fmt: skip
"""Families of values that fit any sizes and stay in the range of every dtype."""

CONTENTS = (
    "all", "random", "padding", "single", "tail hidden", "left padding", "causal", "last key only", "last three",
    "islands", "empty row", "empty everywhere",
)  # fmt: skip

UNDER_A_TRIANGLE = ("all", "padding", "tail hidden", "causal", "random")
"""Contents that seldom leave a row of a causal call without a key."""

AXES = ("LS", "B11S", "1HLS", "BHLS", "11LS", "111S", "B1LS", "BH1S", "HLS")

OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "scale": (1.0, 0.5, 0.1),
    "window": (1, 2, 3, 5, 17),
    "softcap": (1.0, 5.0, 30.0),
    "bias": ("LS", "1HLS", "BHLS", "B11S", "11LS", "B1LS"),
    "dropout": (0.0,),
}


@dataclass
class Generator:
    """Builds a case for one implementation from coin flips.

    Flips alone decide: hypothesis draws numbers also from the constants that it reads out of the source files in
    reach, so that drawn numbers differ between repositories (and reading them takes time and leaves a cache).
    """

    flip: Flip
    implementation: Implementation
    dtype: str
    gradients: bool = False
    built: dict[str, Any] = field(default_factory=dict)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options; no flip that comes up gives the first."""
        place = 0
        for _ in range((len(options) - 1).bit_length()):
            place = 2 * place + self.flip()
        return options[place % len(options)]

    def seldom(self) -> bool:
        """Return True once in four times."""
        return self.flip() and self.flip()

    def case(self, before: Case | None = None) -> Case:
        """Return a case; one that follows another differs from it in some parts only."""
        parts = (self._sizes, self._leading, self._values, self._options, self._mask, self._memory)
        self.built = {} if before is None else {name: getattr(before, name) for name in _NAMES}
        for part in parts:
            if before is None or self.flip():
                self.built |= part()
        self.built |= self._repairs()
        return Case(FOUND, **self.built, seed=sum(2**place * self.flip() for place in range(8)))

    def _sizes(self) -> dict[str, Any]:
        own, module = self.implementation.capabilities, self.implementation.is_module
        heads, shared = self.pick(HEADS if own.heads == "grouped" and not module else HEADS[:4])
        queries = self.pick(SIZES)
        keys = queries if self.flip() else self.pick(SIZES)
        accepted = own.widths if isinstance(own.widths, tuple) else (4, 3, 8, 16) if module else WIDTHS
        width = self.pick([width for width in accepted if width <= 64] or accepted[:1])
        return {
            "batch": self.pick((1, 2, 3)), "heads": heads, "kv_heads": shared, "queries": queries, "keys": keys,
            "width": width, "value_width": width if self.flip() else self.pick(WIDTHS),
        }  # fmt: skip

    def _leading(self) -> dict[str, Any]:
        leading = "BH"
        broadcast: tuple[str, ...] = ()
        if self.implementation.capabilities.layout == "...LD" and not self.implementation.is_module:
            if self.seldom():
                leading = self.pick(("", "B", "GBH"))
            elif self._broadcasts() and self.seldom():
                broadcast = self.pick((("key", "value"), ("query",), ("value",)))
        return {"leading": leading, "broadcast": broadcast}

    def _broadcasts(self) -> bool:
        """Say whether a tensor may have one head where others have several; grouped heads have a meaning for it."""
        own = self.implementation.capabilities
        return own.leading == "broadcast" and own.heads == "equal"

    def _values(self) -> dict[str, Any]:
        return {"values": self.pick(FAMILIES) if self.flip() else "signed"}

    def _options(self) -> dict[str, Any]:
        own = self.implementation.capabilities
        chosen: dict[str, Any] = {"causal": own.causal in ("top-left", "bottom-right") and self.flip()}
        for name, choices in OPTIONS.items():
            chosen[name] = self.pick(choices) if name in own.options and self.seldom() else None
        return chosen

    def _mask(self) -> dict[str, Any]:
        own = self.implementation.capabilities
        causal = self.built["causal"] or (own.causal or "").startswith("always")
        forms = own.mask if not causal or own.causal_with_mask == "and" else ()
        return {"mask": self._a_mask(self.pick(forms), causal) if forms and self.flip() else None}

    def _a_mask(self, form: str, causal: bool) -> Mask:
        if form == "lengths":
            return Mask("padding", "B11S", (form,))
        judged = ("uniform", "zeros") if self.gradients else ("uniform", "zeros", "nan")
        empty_rows = self.implementation.capabilities.empty_row in judged
        content = self.pick(UNDER_A_TRIANGLE if causal else CONTENTS if empty_rows else CONTENTS[:-2])
        numbers = self.pick(("int", "float", "odd", "fractions")) if form == "number" else "int"
        memory = self.pick(("transposed", "sliced", "offset", "expanded")) if self.seldom() else "contiguous"
        axes = self.pick([axes for axes in AXES if content != "causal" or "L" in axes])
        return Mask(content, axes, (form,), numbers, form == "additive" and self.flip(), memory)

    def _memory(self) -> dict[str, Any]:
        memory = "contiguous"
        strided: tuple[str, ...] = ("query", "key", "value")
        if self.seldom():
            memory = self.pick(("transposed", "heads swapped", "sliced", "offset", "rows apart"))
            strided = self.pick((strided, ("query",), ("key",), ("value",)))
        return {"memory": memory, "strided": strided, "shared": self.pick(("kv", "qkv")) if self.seldom() else ""}

    def _repairs(self) -> dict[str, Any]:
        """Return what has to give way where two parts of a case do not go together."""
        built, own = self.built, self.implementation.capabilities
        repaired: dict[str, Any] = {}
        if built["kv_heads"] is not None:
            repaired |= {"leading": "BH", "broadcast": (), "shared": ""}
        if built["broadcast"] or own.inputs == "self":
            repaired |= {"shared": ""}
        shared = repaired.get("shared", built["shared"])
        if shared:
            repaired |= {"value_width": built["width"]}
        if shared == "qkv" or own.inputs == "self":
            repaired |= {"keys": built["queries"]}
        if repaired.get("leading", built["leading"]) != "BH":
            mask = built["mask"]
            repaired |= {"bias": None, "mask": None if mask is None else replace(mask, axes="LS")}
        return repaired | self._repaired_values()

    def _repaired_values(self) -> dict[str, Any]:
        """Return other values for those that would leave the range of the dtype or make no exact scores."""
        built, own = self.built, self.implementation.capabilities
        exact = built["values"] in EXACT_SCORES and built["values"] != "zero query"
        # sqrt(D) and its root are powers of two then, so that a scale can be split without rounding.
        can_be_exact = built["width"] == 16 and own.scale == "1/sqrt(D)"
        options_round = built["scale"] is not None or built["softcap"] is not None
        overflows = self.gradients and self.dtype == "fp16" and built["values"] == "large values"
        return {"values": "signed"} if overflows or (exact and (not can_be_exact or options_round)) else {}


_NAMES = tuple(entry.name for entry in fields(Case) if entry.name not in ("name", "seed", "draw"))
