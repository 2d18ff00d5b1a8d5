"""The arguments of a definition, each with what its name says that it holds.

The names are those by which a registered target is called and built (`calling.names`); how roles make a call is read
here from syntax, without torch, and again by `register` from the object itself.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from ..calling.names import built_role, called_role

Definition = ast.FunctionDef | ast.AsyncFunctionDef

TENSORS = frozenset(("query", "key", "value", "x", "context", "qkv", "kv"))
"""Roles that carry inputs."""


@dataclass(frozen=True)
class Argument:
    """One argument: its name, its role (None for unknown), whether it has to be given, whether a number is its default."""

    name: str
    role: str | None
    required: bool
    has_number: bool = False


@dataclass(frozen=True)
class Arguments:
    """The arguments of one definition, of which each role has one; `takes_any` if `*args` stands among them."""

    each: tuple[Argument, ...]
    takes_any: bool

    @property
    def roles(self) -> frozenset[str]:
        """Every role that an argument has."""
        return frozenset(one.role for one in self.each if one.role is not None)

    @property
    def required(self) -> tuple[Argument, ...]:
        """Those that have to be given."""
        return tuple(one for one in self.each if one.required)

    def unknown(self, known: Iterable[str]) -> tuple[str, ...]:
        """Return the names that have to be given and hold none of the known roles."""
        known = frozenset(known)
        return tuple(one.name for one in self.required if one.role not in known)

    def renamed(self, role: str, meant: str) -> Arguments:
        """Return the same arguments with another role for the argument of a role."""
        found = next((one for one in self.each if one.role == role), None)
        return self if found is None else self.replaced(found, meant)

    def replaced(self, argument: Argument, role: str | None) -> Arguments:
        """Return the same arguments with another role for one of them."""
        each = tuple(replace(one, role=role) if one is argument else one for one in self.each)
        return replace(self, each=each)


def call_arguments(definition: Definition) -> Arguments:
    """Return the arguments of a call. Where several could hold the same, one that has to be given is it, then the clearest."""
    return _unambiguous(_arguments(definition, False, _called))


def forward_arguments(definition: Definition) -> Arguments:
    """Return the arguments of a module's call.

    A module projects, so what it calls `qkv` or `kv` is one tensor; its only tensor, or the only argument that has to be
    given, is its input, whatever the name.
    """
    found = _unambiguous(_arguments(definition, True, _called))
    for role, meant in (("qkv", "x"), ("kv", "context")):
        found = found if meant in found.roles else found.renamed(role, meant)
    tensors = found.roles & TENSORS
    if len(tensors) == 1:
        (only,) = tensors
        return found.renamed(only, "x") if only in ("key", "value") else found
    if tensors or len(found.required) != 1:
        return found
    return found.replaced(found.required[0], "x")


def built_arguments(definition: Definition) -> Arguments:
    """Return the arguments of a constructor."""
    return _arguments(definition, True, built_role)


def _arguments(definition: Definition, method: bool, role: Callable[[str], str | None]) -> Arguments:
    given = definition.args
    places = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(places) - len(given.defaults)) + list(given.defaults)
    pairs = [*list(zip(places, defaults, strict=True))[method:], *zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    each = tuple(Argument(one.arg, role(one.arg), default is None, _is_number(default)) for one, default in pairs)
    return Arguments(each, given.vararg is not None)


def _called(name: str) -> str | None:
    return (called_role(name) or (None, 0))[0]


def _unambiguous(found: Arguments) -> Arguments:
    best: dict[str, Argument] = {}
    for one in sorted(found.each, key=lambda one: (not one.required, (called_role(one.name) or ("", 0))[1])):
        if one.role is not None:
            best.setdefault(one.role, one)
    for one in found.each:
        if one.role is not None and best[one.role] is not one:
            found = found.replaced(one, None)
    return found


def _is_number(default: ast.expr | None) -> bool:
    return isinstance(default, ast.Constant) and type(default.value) in (int, float)


def kernel_inputs(arguments: Arguments) -> tuple[str, ...] | None:
    """Return the roles that carry the inputs of a kernel; None where they are not query, key and value in some form."""
    first = next((role for role in ("query", "x") if role in arguments.roles), None)
    if first is not None and {"key", "value"} <= arguments.roles:
        return (first, "key", "value")
    if first is not None and "kv" in arguments.roles:
        return (first, "kv")
    return ("qkv",) if "qkv" in arguments.roles and first is None else None


def module_inputs(arguments: Arguments) -> tuple[str, ...] | None:
    """Return the roles that carry the inputs of a module, which may be one tensor, or one and a context."""
    found = kernel_inputs(arguments)
    if found is not None:
        return found
    first = next((role for role in ("query", "x") if role in arguments.roles), None)
    if first is None:
        return None
    needed = {one.role for one in arguments.required}
    return (first, "context") if "context" in needed else (first,)


def foreign_names(arguments: Arguments, takes: Iterable[str]) -> tuple[str, ...]:
    """Return the names that have to be given and that nobody knows what to pass for."""
    return arguments.unknown((arguments.roles - TENSORS) | frozenset(takes))


def listed(names: Sequence[str], most: int = 4) -> str:
    """Return names as a list to read."""
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])])
