"""Which cases an implementation gets: adapted to its capabilities, or ruled out by one of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .capabilities import Capabilities
from .cases import masks
from .cases.case import Case
from .implementation import Implementation


@dataclass(frozen=True)
class Excluded:
    """The capability that rules a case out, as `name=value`."""

    capability: str


def fit(case: Case, implementation: Implementation, asked: str | None = None) -> Case | Excluded:
    """Return the case as this implementation gets it, or the capability for which it is never sent.

    `asked` is the convention that the case asks about: an answer to it, that it raises for one, rules out no case.
    """
    own = implementation.capabilities
    problem = _excluded(case, own, implementation.is_module, asked)
    adapted = _adapted(case, own, implementation.is_module)
    if problem is None and own.lengths == "at most" and adapted.queries > adapted.keys:
        problem = "lengths"
    return adapted if problem is None else Excluded(f"{problem}={getattr(own, problem)!r}")


def _adapted(case: Case, own: Capabilities, module: bool) -> Case:
    width = case.width
    if not isinstance(own.widths, str):
        accepted_widths = [w for w in own.widths if case.values != "needles" or _codes(w)]
        width = min(accepted_widths, key=lambda accepted: (abs(accepted - case.width), accepted))
    value_width = case.value_width
    if module or own.value_width == "same":
        value_width = width
    paired = own.inputs == "self" or own.lengths == "equal"
    keys = case.queries if paired else case.keys
    if case.values == "needles":
        keys = min(keys, width)
    if paired and (case.queries == 0 or case.keys == 0):
        keys = 0
    queries = keys if paired else case.queries
    shared = {"self": "qkv", "context": case.shared or "kv"}.get(own.inputs, case.shared)
    if shared in ("qkv", "kv"):
        value_width = width
    changed = {"width": width, "value_width": value_width, "queries": queries, "keys": keys, "shared": shared}
    same = all(getattr(case, name) == value for name, value in changed.items())
    return case if same else replace(case, **changed)  # type: ignore[arg-type]


def _excluded(case: Case, own: Capabilities, module: bool, asked: str | None) -> str | None:
    if case.values == "needles" and not isinstance(own.widths, str) and not any(_codes(width) for width in own.widths):
        return "widths"
    if case.leading != "BH" and (module or own.layout != "...LD"):
        return "layout"
    if case.broadcast and (own.leading == "equal" or own.layout != "...LD"):
        return "leading" if own.leading == "equal" else "layout"
    if case.bias is not None and own.layout == "(BH)LD":
        return "layout"
    if case.kv_heads is not None and own.heads != "grouped":
        return "heads"
    if own.inputs == "self" and (case.shared == "kv" or case.kv_heads is not None):
        # One tensor has as many heads for its keys as for its queries.
        return "inputs"
    if case.causal and own.causal is None:
        return "causal"
    for option in ("scale", "bias", "window", "softcap", "dropout"):
        if getattr(case, option) is not None and option not in own.options:
            return "options"
    return _excluded_mask(case, own, module, asked)


def _excluded_mask(case: Case, own: Capabilities, module: bool, asked: str | None) -> str | None:
    mask = case.mask
    causal = case.causal or (own.causal or "").startswith("always")
    if mask is None:
        return None
    accepted = [form for form in mask.forms if form in own.mask]
    if not accepted:
        return "mask"
    if causal and own.causal_with_mask != "and" and asked != "causal_with_mask":
        return "causal_with_mask"
    if mask.axes == "HLS" and module:
        # Modules differ on three axes: some take one mask per sample there.
        return "layout"
    if accepted[0] != "lengths" and masks.choose_pattern(own.mask_patterns, mask.axes) is None:
        return "mask_shapes"
    if case.may_have_empty_rows and own.empty_row == "error" and asked != "empty_row":
        return "empty_row"
    return None


def _codes(width: int) -> bool:
    """Say whether keys of this width can be coded: Hadamard's matrices here are as wide as a power of two."""
    return width & (width - 1) == 0
