"""Which parameters hold which projections, by their names; and, where names do not tell, which may.

Numbered lists are taken to come as query, key, value, output. Matrices without a telling name are tried in every order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .names import LETTERS, Entry, Found

Roles = Mapping[str, list[Entry]]


@dataclass(frozen=True)
class Assignment:
    """Which entries hold which projections. `doubt` names the roles that no name tells; `packing` is what was declared,
    by letters."""

    roles: Roles
    doubt: tuple[str, ...] = ()
    packing: Mapping[str, str] = field(default_factory=dict)

    def guess(self) -> dict[str, str | None]:
        """Return the assignment as `parameters=` would give it."""
        told: dict[str, str | None] = {}
        for letters, entries in self.roles.items():
            names = dict.fromkeys(entry.name.removesuffix(".weight").removesuffix(".bias") for entry in entries)
            told[LETTERS.get(letters, letters)] = " ".join(names)
        return told


def assignments(found: Found, d_model: int) -> list[Assignment]:
    """Return what names leave possible: one assignment where they are clear."""
    return [replace(assignment, packing=found.packing) for assignment in _assignments(found, d_model)]


def _assignments(found: Found, d_model: int) -> list[Assignment]:
    roles, covered = (
        {letters: _as_wide(entries, d_model) for letters, entries in found.roles.items()},
        "".join(found.roles),
    )
    missing = [letter for letter in "qkv" if letter not in covered]
    if not missing:
        return list(_with_output(roles, found, d_model))
    if len(missing) == 3:
        lists = [one for entries in found.lists.values() for one in _numbered(entries, roles, found)]
        packed = _matrices(found, 3 * d_model**2)
        if lists:
            return lists
        if len(packed) == 1:
            more = {**roles, "qkv": _with_bias(packed[0], found)}
            return [Assignment(one.roles, ("qkv", *one.doubt)) for one in _with_output(more, found, d_model)]
    output_known = "o" in covered or found.no_output
    names = missing if output_known else [*missing, "o"]
    squares = _matrices(found, d_model**2)
    if len(squares) == len(names) and (len(missing) == 3 or output_known):
        doubt = tuple(LETTERS[letter] for letter in names)
        orders = [dict(zip(names, order, strict=True)) for order in itertools.permutations(squares)]
        return [
            Assignment({**roles, **{letter: _with_bias(entry, found) for letter, entry in order.items()}}, doubt)
            for order in orders
        ]
    return [Assignment({**roles, **({"o": found.weak} if found.weak and "o" not in covered else {})}, tuple(missing))]


def _as_wide(entries: list[Entry], d_model: int) -> list[Entry]:
    """Leave out matrices that have no axis of d_model beside some that have: they map something else, lengths say."""
    wide = [entry for entry in entries if entry.bias or d_model in entry.tensor.shape]
    return wide if any(not entry.bias for entry in wide) else entries


def _matrices(found: Found, size: int) -> list[Entry]:
    """Return the matrices of a size whose names do not tell what they are."""
    return [entry for entry in (*found.weak, *found.rest) if entry.tensor.numel() == size and not entry.bias]


def _numbered(entries: list[Entry], roles: Roles, found: Found) -> Iterator[Assignment]:
    """Yield the orders of a numbered list of three or four projections, query, key, value, output first."""
    members = [[weight, *_bias_of(weight, entries)] for weight in entries if not weight.bias]
    weak = [entry for entry in found.weak if not entry.bias]
    if len(members) + ("o" in roles) > 4 or (len(members) == 3 and len(weak) > 1):
        return
    output = {"o": found.weak} if weak and len(members) == 3 else {}
    for order in itertools.permutations(members):
        yield Assignment({**output, **roles, **dict(zip("qkvo", order, strict=False))})


def _with_output(roles: Roles, found: Found, d_model: int) -> Iterator[Assignment]:
    """Yield the assignment with its output projection: named, of a word that may name it, a square one, or none."""
    if "o" in roles or found.no_output:
        yield Assignment(roles)
        return
    weak = [entry for entry in found.weak if not entry.bias]
    if len(weak) == 1:
        yield Assignment({**roles, "o": found.weak})
        return
    squares = _matrices(found, d_model**2)
    choices = [entry for entry in squares if any(entry is other for other in weak)] or squares
    for entry in choices:
        yield Assignment({**roles, "o": _with_bias(entry, found)}, ("output",))
    yield Assignment(roles, ("output",) if choices else ())


def _with_bias(weight: Entry, found: Found) -> list[Entry]:
    return [weight, *_bias_of(weight, (*found.weak, *found.rest))]


def _bias_of(weight: Entry, entries: Sequence[Entry]) -> list[Entry]:
    stem = weight.name.rpartition(".")[0]
    return [entry for entry in entries if entry.bias and stem and entry.name.rpartition(".")[0] == stem]
