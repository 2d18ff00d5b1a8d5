"""What an implementation offers, and how it answers the questions on which sound implementations differ."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from .cases.layouts import KERNEL_LAYOUTS, MODULE_LAYOUTS
from .dtypes import DTYPES
from .errors import InvalidCapability, UnknownCapability, nearest

MASK_PATTERNS = (
    "S", "LS", "BS", "BLS", "(BH)LS", "(BH)1S", "11LS", "111S", "B11S", "B1LS", "1HLS", "BH1S", "BHLS",
)  # fmt: skip

VOCABULARY: Mapping[str, tuple[object, ...]] = {
    "layout": (*KERNEL_LAYOUTS, *MODULE_LAYOUTS),
    "inputs": ("cross", "context", "self"),
    "lengths": ("any", "equal", "at most"),
    "value_width": ("any", "same"),
    "heads": ("equal", "grouped"),
    "leading": ("broadcast", "equal"),
    "mask_means": ("attend", "hide"),
    "empty_row": ("uniform", "zeros", "nan", "error", "unspecified"),
    "no_keys": ("zeros", "nan", "error", "unspecified"),
    "causal": (None, "top-left", "bottom-right", "always top-left", "always bottom-right"),
    "causal_with_mask": ("and", "error", "unspecified"),
    "second": ("optional weights", "weights", "averaged weights", "lse", "lse2", None),
    "precision": ("eager", "fused", "upcast", "tf32", "softmax32"),
    "gradient": ("twice", "once", "none"),
    "deterministic": ("yes", "forward", "no"),
}
"""Closed vocabularies of the fields that hold one word."""

SETS: Mapping[str, tuple[str, ...]] = {
    "mask": ("bool", "number", "additive", "lengths"),
    "options": ("scale", "bias", "window", "softcap", "dropout"),
    "dtypes": DTYPES,
}
"""Closed vocabularies of the fields that hold a set of words."""

SCALES = ("1/sqrt(D)", "1/sqrt(d_model)")
"""Scales known by their formula; a number is accepted as well."""

USUAL_SCALES = (*SCALES, 1.0)
"""Scales that are tried where nothing is known."""

UNASKED_TRIANGLES = (None, "always top-left", "always bottom-right")
"""What a call may be that does not ask for a causal triangle."""


@dataclass(frozen=True)
class Capabilities:
    """What one implementation offers. Every field: meaning, default, consequence.

    Axes: B batch, H heads, L queries, S keys, D key width, E value width; `d_model` is H * D.
    """

    layout: str = "...LD"
    """Order of the axes of query, key, value and output. Default: any leading axes, then L and D (kernels),
    or `BLE` (modules). With any other layout of a kernel only inputs of batch and heads are sent: as they are (`BHLD`),
    in another order (`BLHD`, `LBHD`), with the two merged (`(BH)LD`), or with heads merged into the width (`BL(HD)`,
    `LB(HD)`), where the call is told their number as `heads=`."""

    inputs: str = "cross"
    """`cross`: query, key and value are separate. `context`: the query is separate, one tensor is key and value.
    `self`: one tensor is all three, so L = S always. Rules that tell the tensors apart do not apply to the last two."""

    lengths: str = "any"
    """`any`: queries and keys are as many as they like. `equal`: only L = S is sent. `at most`: only L <= S is sent,
    as to a decoder whose every step brings one key."""

    widths: str | tuple[int, ...] = "any"
    """Key widths D that are accepted. Default `any`; with a tuple no other width is ever sent."""

    value_width: str = "any"
    """`any`: the value width E may differ from D. `same`: only E = D is sent."""

    heads: str = "equal"
    """`equal`: key and value have as many heads as the query. `grouped`: they may have fewer, each shared by
    a run of consecutive query heads; the grouped-heads rules then apply."""

    leading: str = "broadcast"
    """`broadcast`: leading axes of query, key and value broadcast. `equal`: only equal ones are sent."""

    mask: tuple[str, ...] = ("bool", "number")
    """Kinds of mask that are accepted: `bool`, `number` (integers and floats, zero or not), `additive` (0 and
    -inf or finite values, added to the scores), `lengths` (keys per batch element). `()` takes no mask."""

    mask_means: str = "attend"
    """What True (or nonzero) means: `attend` (the key takes part) or `hide`. Additive masks are not affected."""

    mask_shapes: str | tuple[str, ...] = "broadcast"
    """Shapes of mask that are accepted. Default: whatever broadcasts to (..., L, S); otherwise patterns such as
    `LS`, `B11S`, `(BH)LS`, and masks are expanded to the first pattern that can hold them."""

    empty_row: str = "uniform"
    """Answer of a row that may attend to nothing: the mean over all keys (`uniform`), `zeros`, `nan`, `error`,
    or `unspecified` (such rows are then left out of every comparison)."""

    no_keys: str = "zeros"
    """Answer when S = 0: `zeros`, `nan`, `error` or `unspecified`."""

    causal: str | None = None
    """Whether a `causal=True` option exists and which corner its triangle is aligned with when L differs from
    S; `always ...` when there is no way to switch it off. Default: not offered."""

    causal_with_mask: str = "and"
    """What causal together with a mask does: both hold (`and`), it raises (`error`), or `unspecified`."""

    scale: str | float = "1/sqrt(D)"
    """Factor on the scores when no scale is passed: `1/sqrt(D)`, `1/sqrt(d_model)` or a number."""

    second: str | None = "optional weights"
    """Second result: `weights` (..., L, S), `averaged weights` (..., L, S without the head axis), `lse` (natural
    logsumexp of the scores, (..., L)), `lse2` (base 2), None. The default judges weights where they are returned."""

    options: tuple[str, ...] = ()
    """Keyword options that `call` accepts: `scale`, `bias`, `window`, `softcap`, `dropout`. Default: none."""

    dtypes: tuple[str, ...] = ("fp64", "fp32", "bf16")
    """dtypes in which it is judged. Default: where the documents' masked code runs."""

    precision: str = "eager"
    """Where it rounds: `eager` (every step in the working dtype, sums in fp32 at least), `fused` (fp32 scores, rounded
    weights), `upcast` (one final rounding), `tf32`, `softmax32` (fp32 softmax for fp64 inputs). Sets the error bound."""

    gradient: str = "twice"
    """How often it can be differentiated: `twice`, `once`, `none` (forward only; no gradient rule applies)."""

    deterministic: str = "yes"
    """What repeats bit by bit: forward and backward (`yes`), the `forward` pass only, or nothing (`no`)."""

    @property
    def distinct(self) -> tuple[str, ...]:
        """Which of query, key and value are tensors of their own; the last of them serves for the rest."""
        return ("query", "key", "value")[: {"self": 1, "context": 2}.get(self.inputs, 3)]

    @property
    def mask_patterns(self) -> str | tuple[str, ...]:
        """`mask_shapes`, spelled out where tensors of three axes leave no room for masks of four."""
        if self.layout == "(BH)LD" and self.mask_shapes == "broadcast":
            return ("S", "LS", "(BH)LS", "(BH)1S")
        return self.mask_shapes


FIELDS = tuple(field.name for field in fields(Capabilities))


def capabilities(defaults: Mapping[str, Any], declared: Mapping[str, Any]) -> Capabilities:
    """Return the capabilities of a reference with the declared ones put over them.

    Raises UnknownCapability for a name and InvalidCapability for a value outside its vocabulary.
    """
    for name in declared:
        if name not in FIELDS:
            raise UnknownCapability(
                f"register() knows no capability {name!r}{nearest(name, FIELDS)} "
                f"The capabilities are: {', '.join(FIELDS)}."
            )
    merged = {**defaults, **{name: _checked(name, value) for name, value in declared.items()}}
    return replace(Capabilities(), **merged)


def _checked(name: str, value: Any) -> Any:
    if name in VOCABULARY:
        return _word(name, value, VOCABULARY[name])
    if name in SETS:
        return _words(name, value, SETS[name])
    if name == "widths":
        return _widths(value)
    if name == "mask_shapes":
        return value if value == "broadcast" else _words(name, value, MASK_PATTERNS)
    return _scale(value)


def _word(name: str, value: Any, words: tuple[object, ...]) -> Any:
    if not isinstance(value, (str, type(None))) or value not in words:
        raise InvalidCapability(
            f"{name}={value!r} is not one of {', '.join(map(repr, words))}"
            f"{nearest(value, [word for word in words if isinstance(word, str)])}"
        )
    return value


def _words(name: str, value: Any, words: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, (tuple, list, set, frozenset)):
        raise InvalidCapability(f"{name}={value!r} is not a tuple of words; write {name}=({value!r},)")
    unknown = [word for word in value if word not in words]
    if unknown:
        raise InvalidCapability(
            f"{name} holds {unknown[0]!r}, which is not one of {', '.join(map(repr, words))}"
            f"{nearest(unknown[0], words)}"
        )
    if name == "dtypes" and not value:
        raise InvalidCapability("dtypes=() leaves nothing to judge; name at least one of " + ", ".join(DTYPES))
    if name == "mask_shapes":
        return tuple(dict.fromkeys(value))
    return tuple(word for word in words if word in value)


def _widths(value: Any) -> Any:
    if value == "any":
        return value
    if not isinstance(value, (tuple, list)) or not value or not all(isinstance(w, int) and w > 0 for w in value):
        raise InvalidCapability(f"widths={value!r} is neither 'any' nor a tuple of positive numbers such as (32, 64)")
    return tuple(sorted(set(value)))


def _scale(value: Any) -> str | float:
    if isinstance(value, str) and value in SCALES:
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    raise InvalidCapability(
        f"scale={value!r} is neither a number nor one of {', '.join(map(repr, SCALES))}{nearest(value, SCALES)}"
    )
