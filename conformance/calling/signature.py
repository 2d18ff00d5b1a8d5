"""The arguments of a callable, each with what it holds as far as its name says so."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from ..foreign.edge import Raised, foreign
from .names import called_role


@dataclass(frozen=True)
class Parameter:
    """One argument. `by_position` and `by_name` say how it can be passed, `role` what it holds, None for unknown."""

    name: str
    role: str | None
    by_position: bool
    by_name: bool
    required: bool
    default: Any = None


MOST_SHOWN = 8
"""How many arguments are printed."""


@dataclass(frozen=True)
class Signature:
    """The arguments in order, and whether more may come by position (`*args`) or by name (`**kwargs`)."""

    parameters: tuple[Parameter, ...]
    more_by_position: bool = False
    more_by_name: bool = False

    def of(self, role: str) -> Parameter | None:
        """Return the argument of a role."""
        return next((each for each in self.parameters if each.role == role), None)

    def has(self, *roles: str) -> bool:
        """Say whether there is an argument for every role."""
        return all(self.of(role) is not None for role in roles)

    def without(self, role: str) -> Signature:
        """Return the same signature with the argument of a role unknown."""
        return self.renamed({each.name: None for each in self.parameters if each.role == role})

    def renamed(self, roles: dict[str, str | None]) -> Signature:
        """Return the same signature with other roles for some names."""
        changed = tuple(replace(each, role=roles.get(each.name, each.role)) for each in self.parameters)
        return replace(self, parameters=changed)

    def __str__(self) -> str:
        names = [each.name if each.required else f"{each.name}={_default(each.default)}" for each in self.parameters]
        if len(names) > MOST_SHOWN:
            names = [*names[:MOST_SHOWN], f"and {len(names) - MOST_SHOWN} more"]
        more = ["*args"] * self.more_by_position + ["**kwargs"] * self.more_by_name
        return f"({', '.join([*names, *more])})"


def _default(value: object) -> str:
    return repr(value) if isinstance(value, (bool, int, float, str, type(None))) else "..."


def signature_of(target: Any, role: Callable[[str], str | None]) -> Signature | None:
    """Return the signature of a callable, with a role for each name that has one; None where it cannot be read."""
    try:
        found = foreign(inspect.signature, target)
    except Raised:
        return None
    kinds = inspect.Parameter
    variable = (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)
    parameters = tuple(
        Parameter(
            each.name,
            role(each.name),
            by_position=each.kind is not kinds.KEYWORD_ONLY,
            by_name=each.kind is not kinds.POSITIONAL_ONLY,
            required=each.default is kinds.empty,
            default=None if each.default is kinds.empty else each.default,
        )
        for each in found.parameters.values()
        if each.kind not in variable
    )
    present = {each.kind for each in found.parameters.values()}
    return Signature(parameters, kinds.VAR_POSITIONAL in present, kinds.VAR_KEYWORD in present)


def call_signature(target: Any) -> Signature | None:
    """Return the signature of a call: of `forward` for a module or a class of modules, else of the callable itself.

    Where several names could hold the same, the one that has to be given is taken, then the clearest.
    """
    # torch.compile wraps a module in another one that takes anything.
    target = getattr(target, "_orig_mod", target)
    bound = not inspect.isclass(target)
    if isinstance(target, nn.Module) or not bound:
        target = getattr(target, "forward", None)
    found = None if target is None else signature_of(target, _role)
    if found is None or (not bound and not found.parameters):
        return None
    return _unambiguous(found if bound else replace(found, parameters=found.parameters[1:]))


def _role(name: str) -> str | None:
    found = called_role(name)
    return None if found is None else found[0]


def _unambiguous(signature: Signature) -> Signature:
    best: dict[str, Parameter] = {}
    for each in signature.parameters:
        if each.role is not None and (each.role not in best or _clearer(each, best[each.role])):
            best[each.role] = each
    others = {each.name: None for each in signature.parameters if each.role and best[each.role] is not each}
    return signature.renamed(dict(others))


def _clearer(one: Parameter, other: Parameter) -> bool:
    ranks = [(not each.required, (called_role(each.name) or ("", 0))[1]) for each in (one, other)]
    return ranks[0] < ranks[1]
