"""What is measured: one shape and one direction, the same for everybody in the group."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from ..cases.case import Case, Mask
from ..errors import ConformanceError
from ..fitting import Excluded, fit
from ..implementation import Implementation

DIRECTIONS = ("forward", "forward and backward")
MASKS = ("none", "causal", "random")


class NotMeasured(ConformanceError):
    """A capability keeps an implementation out of a group, or all groups. The text names it."""


@dataclass(frozen=True)
class Plan:
    """What a benchmark runs. `sizes` are the lengths L (and S = L); `dtype` None is fp32 or, where the implementation
    does not take that, its first; `mask` is one of `MASKS`; `rounds` None makes as many as fit into a second or two, nine at least."""

    sizes: tuple[int, ...] = (128, 256, 512, 1024)
    directions: tuple[str, ...] = DIRECTIONS
    batch: int = 1
    heads: int = 8
    width: int = 64
    mask: str = "none"
    dtype: str | None = None
    rounds: int | None = None


@dataclass(frozen=True)
class Group:
    """One shape and direction: query, key and value are (batch, heads, length, width), or for modules
    (batch, length, heads * width). `shared` says that one tensor is all three."""

    length: int
    direction: str
    mask: str
    dtype: str
    device: str
    batch: int
    heads: int
    width: int
    shared: bool = False
    module: bool = False

    @property
    def section(self) -> str:
        """Everything but the length: groups of one section are one line in a plot."""
        tensor = ", one tensor" if self.shared else ""
        masked = "" if self.mask == "none" else f", {self.mask} mask"
        kind = "module" if self.module else "kernel"
        sizes = f"B={self.batch} H={self.heads} D={self.width}"
        return f"{self.direction}: {kind}, {sizes}, {self.dtype} on {self.device}{masked}{tensor}"

    @property
    def name(self) -> str:
        """The group as pytest-benchmark shows it, which sorts groups by their names."""
        return f"{self.section}, L={self.length:6d}"

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON takes them."""
        return asdict(self)


def groups(plan: Plan, implementation: Implementation) -> list[Group]:
    """Return the groups in which an implementation is measured, as its capabilities allow.

    Raises NotMeasured where they allow none.
    """
    own = implementation.capabilities
    first = Case("benchmark", width=plan.width, heads=plan.heads)
    fitted = fit(first, implementation)
    width = plan.width if isinstance(fitted, Excluded) else fitted.width
    always = (own.causal or "").startswith("always")
    mask = "causal" if always and plan.mask == "none" else plan.mask
    directions = [each for each in plan.directions if each == "forward" or own.gradient != "none"]
    if not directions:
        raise NotMeasured(
            f"{implementation.label}: gradient='none' leaves nothing to measure; measure it with --forward."
        )
    found = [
        Group(
            length, direction, mask, _dtype(plan.dtype, implementation), implementation.device, plan.batch, plan.heads,
            width, own.inputs == "self", implementation.is_module,
        )
        for direction in directions
        for length in sorted(set(plan.sizes))
    ]  # fmt: skip
    case_for(found[0], implementation)
    return found


def _dtype(wanted: str | None, implementation: Implementation) -> str:
    own = implementation.capabilities.dtypes
    if wanted is None:
        return "fp32" if "fp32" in own else own[0]
    if wanted not in own:
        raise NotMeasured(
            f"{implementation.label}: dtypes={own!r} does not hold {wanted}; choose one of them, or declare {wanted}."
        )
    return wanted


def case_for(group: Group, implementation: Implementation) -> tuple[Case, str]:
    """Return the case that an implementation gets in a group, and how it is told of the mask.

    Raises NotMeasured where a capability rules it out.
    """
    base = Case(
        f"benchmark {group.length}", batch=group.batch, heads=group.heads, queries=group.length, keys=group.length,
        width=group.width, value_width=group.width, shared="qkv" if group.shared else "",
    )  # fmt: skip
    always = (implementation.capabilities.causal or "").startswith("always")
    reason = "causal"
    for case, told in _ways(group.mask, base):
        fitted = fit(case, implementation)
        if isinstance(fitted, Excluded):
            reason = fitted.capability
        elif fitted != case:
            reason = _difference(case, fitted)
        elif always and not case.causal:
            reason = f"causal={implementation.capabilities.causal!r}"
        else:
            return case, "always" if always else told
    raise NotMeasured(
        f"{implementation.label}: {reason} rules out what is measured here ({group.section}). "
        "Ask for another mask or width, or declare what it takes."
    )


def _ways(mask: str, base: Case) -> list[tuple[Case, str]]:
    if mask == "none":
        return [(base, "no mask")]
    if mask == "causal":
        by_mask = replace(base, mask=Mask("causal", "LS"))
        return [(replace(base, causal=True), "by option"), (by_mask, "by mask")]
    return [(replace(base, mask=Mask("random", "LS")), "by mask")]


def _difference(case: Case, fitted: Case) -> str:
    names = {"width": "widths", "value_width": "value_width", "shared": "inputs"}
    return next(told for name, told in names.items() if getattr(case, name) != getattr(fitted, name))
