"""What `parameters=` says: names of submodules or tensors for each projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from torch import Tensor, nn

from ..errors import UnknownParameters
from .names import LETTERS, PACKED, Entry, Found, entry_of, find, is_apart
from .patterns import BY_FEATURE, BY_HEAD, USUAL
from .telling import explain

_ROLES = {role: letter for letter, role in LETTERS.items()}


def read(module: nn.Module, tensors: Mapping[str, Tensor], given: Mapping[str, str | None]) -> Found:
    """Return what `parameters=` names, and for the roles that it leaves out what names say.

    Raises UnknownParameters for an unknown role or name.
    """
    roles: dict[str, list[Entry]] = {}
    packing = {}
    for role, text in given.items():
        _check(role, text)
        if text is None:
            continue
        names, packing[_ROLES.get(role, role)] = _packing(text)
        entries = [entry for name in names for entry in _named(module, tensors, role, name)]
        roles[_ROLES.get(role, role)] = list({entry.name: entry for entry in entries}.values())
    claimed = {entry.name for entries in roles.values() for entry in entries}
    found = find(module, {name: tensor for name, tensor in tensors.items() if name not in claimed})
    no_output = given.get("output", "") is None
    settled = {*"".join(roles), *("o" if no_output else "")}
    kept = {letters: entries for letters, entries in found.roles.items() if not settled & set(letters)}
    return replace(found, roles={**kept, **roles}, packing=packing, no_output=no_output)


def _check(role: str, text: str | None) -> None:
    if role not in _ROLES and role not in PACKED:
        known = ", ".join((*_ROLES, "qkv", "kv"))
        raise UnknownParameters(
            f"parameters= knows no role {role!r}; the roles are {known}, and other orders of q, k and v"
        )
    if text is None and role != "output":
        raise UnknownParameters(f"parameters= says None for {role}; only the output projection may be absent")


def _packing(text: str) -> tuple[list[str], str]:
    for packing in (BY_HEAD, BY_FEATURE):
        if text.endswith(f" {packing}"):
            return text.removesuffix(packing).split(), packing
    return text.split(), USUAL


def _named(module: nn.Module, tensors: Mapping[str, Tensor], role: str, name: str) -> list[Entry]:
    stored = name.removesuffix(".T")
    inside = [full for full in tensors if full.startswith(stored + ".") and not is_apart(module, full, tensors)]
    hits = [stored] if stored in tensors else inside
    if not hits:
        raise UnknownParameters(explain(f"parameters= names {stored!r} for the {role}, which is not there", tensors))
    return [entry_of(module, full, tensors[full], name.endswith(".T")) for full in hits]
