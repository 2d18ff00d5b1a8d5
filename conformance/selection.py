"""Which rules and dtypes apply to an implementation."""

from __future__ import annotations

from collections.abc import Iterable

from .capabilities import Capabilities
from .cases.case import Case
from .errors import UnknownRule, nearest
from .fitting import Excluded, fit
from .implementation import Implementation
from .records import Key
from .rulebook import Rule, catalogue, families

TIERS = ("default", "thorough")


def plan(implementation: Implementation, *, tier: str = "default", select: Iterable[str] = ()) -> tuple[Key, ...]:
    """Return every key that a run gives a record for, in order.

    `select` names rule ids, families (`MASK`) or dtypes (`fp32`); without it everything is planned.
    """
    wanted = check_selection(select)
    keys = []
    for rule in catalogue().values():
        if rule.thorough and tier != "thorough":
            continue
        if implementation.reference.kind not in rule.kinds:
            continue
        keys += [Key(rule.id, dtype) for dtype in dtypes_of(rule, implementation.capabilities)]
    return tuple(key for key in keys if is_selected(key, wanted))


def dtypes_of(rule: Rule, own: Capabilities) -> tuple[str | None, ...]:
    """Return the dtypes in which a rule runs."""
    if rule.dtypes == "once":
        return (None,)
    if rule.dtypes == "exact":
        return tuple(dtype for dtype in own.dtypes if dtype in ("fp64", "fp32")) or own.dtypes
    if rule.dtypes == "wide":
        return tuple(dtype for dtype in own.dtypes if dtype != "fp16")
    if rule.dtypes == "first":
        return (own.dtypes[0],)
    return own.dtypes


def check_selection(select: Iterable[str]) -> frozenset[str]:
    """Return the words of a selection. Raises UnknownRule for one that selects nothing."""
    words = frozenset(select)
    known = {*catalogue(), *families(), "fp64", "fp32", "bf16", "fp16"}
    for word in words:
        if word not in known:
            raise UnknownRule(
                f"{word!r} is no rule, family or dtype{nearest(word, known)} See attention-conformance rules."
            )
    return words


def is_selected(key: Key, wanted: frozenset[str]) -> bool:
    """Say whether a selection holds the key: its rule or family, and its dtype, where either kind is named."""
    if not wanted:
        return True
    dtypes = {word for word in wanted if word[0].islower()}
    names = wanted - dtypes
    by_name = not names or key.rule in names or key.rule.split("-")[0] in names
    return by_name and (not dtypes or key.dtype is None or key.dtype in dtypes)


def ruled_out(rule: Rule, implementation: Implementation) -> str | None:
    """Return the capability for which a rule does not apply, or None."""
    own = implementation.capabilities
    for name, accepted in rule.needs.items():
        value = implementation.framework if name == "framework" else getattr(own, name)
        meets = any(word in value for word in accepted) if isinstance(value, tuple) else value in accepted
        if not meets:
            return f"{name}={value!r}"
    return None


def fitted_cases(rule: Rule, implementation: Implementation) -> tuple[list[Case], str | None]:
    """Return the cases of a rule as this implementation gets them, and what ruled out the first of the others."""
    fitted: list[Case] = []
    reason = None
    for case in rule.cases:
        result = fit(case, implementation, rule.convention)
        if isinstance(result, Excluded):
            reason = reason or result.capability
        elif result not in fitted:
            fitted.append(result)
    return fitted, reason
