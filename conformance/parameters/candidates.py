"""The layouts that names and shapes leave open, the most usual one first.

Open is what no name tells: whether a packed parameter is cut into blocks or head by head, and whether a square parameter
that belongs to no linear layer is stored as (out, in).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from .assigning import Assignment, Roles
from .names import LETTERS, Entry
from .patterns import PACKINGS, USUAL, input_slots, output_slots
from .storage import Layout, Slot, rows_of, structure_of

Way = TypeVar("Way")


class Unfit(Exception):
    """Parameters that cannot be the projections of a module of this size. The text says which, and why."""


@dataclass(frozen=True)
class Candidate:
    """One layout with what is in doubt about it."""

    layout: Layout
    assignment: Assignment
    doubt: tuple[str, ...]


def candidates(assigned: Sequence[Assignment], d_model: int, heads: int) -> list[Candidate]:
    """Return the layouts that fit, the most usual one first. Raises Unfit, with the first reason, where none does."""
    found: list[Candidate] = []
    problem: Unfit | None = None
    for assignment in assigned:
        for packing, turned, turned_output in itertools.product(_packings(assignment), (0, 1), (0, 1)):
            reading = _Reading(assignment, d_model, heads, packing, turned, turned_output)
            try:
                layout = reading.layout()
            except Unfit as error:
                problem = problem or error
                continue
            if all(layout != other.layout for other in found):
                found.append(Candidate(layout, assignment, (*assignment.doubt, *reading.open)))
    if not found:
        raise problem or Unfit("nothing was found for query, key, value")
    return found


def _packings(assignment: Assignment) -> tuple[str, ...]:
    open_ = {letters: entries for letters, entries in assignment.roles.items() if letters not in assignment.packing}
    packed = [entries for letters, entries in open_.items() if len(letters) > 1]
    # The order of rows that torch's own module has goes with its parameter's name.
    fixed = all("in_proj_weight" in entry.name for entries in packed for entry in entries if not entry.bias)
    return (USUAL,) if not packed or fixed else PACKINGS


class _Reading:
    """One way to read the entries of an assignment; `open` collects the roles that could be read otherwise."""

    def __init__(
        self, assignment: Assignment, d_model: int, heads: int, packing: str, turned: int, turned_output: int
    ) -> None:
        self.assignment, self.packing = assignment, packing
        self.turned, self.turned_output = turned, turned_output
        self.heads, self.width, self.model = heads, d_model // heads, d_model
        self.open: list[str] = []

    def layout(self) -> Layout:
        """Return the layout. Raises Unfit."""
        roles = self.assignment.roles
        covered = "".join(roles)
        missing = [LETTERS[letter] for letter in "qkv" if letter not in covered]
        if missing:
            raise Unfit(f"nothing was found for {', '.join(missing)}")
        inner = self
        if self._is_shared(roles):
            inner = _Reading(self.assignment, self.width, 1, self.packing, self.turned, 0)
            inner.open = self.open
        weights, biases = inner._inputs({letters: entries for letters, entries in roles.items() if letters != "o"})
        if "o" in roles:
            self._output(roles["o"], weights, biases)
        for role, vectors in biases.items():
            if role in weights and role != "output" and rows_of(vectors) != rows_of(weights[role]):
                raise Unfit(f"{vectors[0].name} does not fit {weights[role][0].name}")
        return Layout(weights, biases, structure_of(weights, biases, self.heads, self.width))

    def _is_shared(self, roles: Roles) -> bool:
        sizes = [
            (entry.tensor.numel(), len(letters)) for letters, entries in roles.items() for entry in entries
            if "o" not in letters and not entry.bias
        ]  # fmt: skip
        single = len(sizes) == sum("o" not in letters for letters in roles)
        return self.heads > 1 and single and all(size == parts * self.width**2 for size, parts in sizes)

    def _inputs(self, roles: Roles) -> tuple[dict[str, tuple[Slot, ...]], dict[str, tuple[Slot, ...]]]:
        weights: dict[str, tuple[Slot, ...]] = {}
        biases: dict[str, tuple[Slot, ...]] = {}
        for letters, entries in roles.items():
            for bias, table in ((False, weights), (True, biases)):
                chosen = [entry for entry in entries if entry.bias == bias]
                if not chosen:
                    continue
                for letter, slots in self._split(letters, chosen).items():
                    if LETTERS[letter] in table:
                        raise Unfit(
                            f"{table[LETTERS[letter]][0].name} and {slots[0].name} may both be the {LETTERS[letter]}"
                        )
                    table[LETTERS[letter]] = slots
        missing = [LETTERS[letter] for letter in "qkv" if LETTERS[letter] not in weights]
        if missing:
            raise Unfit(f"no matrix was found for {', '.join(missing)}")
        if rows_of(weights["query"]) != self.model:
            raise Unfit(f"{weights['query'][0].name} has {rows_of(weights['query'])} rows, not d_model {self.model}")
        if rows_of(weights["key"]) != rows_of(weights["value"]) or self.heads % (rows_of(weights["key"]) // self.width):
            raise Unfit(f"{weights['key'][0].name} and {weights['value'][0].name} have other numbers of heads")
        return weights, biases

    def _split(self, letters: str, entries: list[Entry]) -> dict[str, tuple[Slot, ...]]:
        """Return the slots of each letter: of one parameter, of one for each letter, or of one for each head."""
        packing = self.assignment.packing.get(letters, USUAL)
        if len(entries) > 1 and packing != USUAL:
            raise Unfit(f"only one parameter can be packed {packing}, not {', '.join(entry.name for entry in entries)}")
        if len(letters) > 1 and len(entries) == len(letters):
            return {
                letter: self._read(letter, entry, self.heads) for letter, entry in zip(letters, entries, strict=True)
            }
        if len(entries) == 1:
            slots = self._read(letters, entries[0], self.heads)
            return {letter: (slot,) for letter, slot in zip(letters, slots, strict=True)}
        whole = len(letters) * self.model * (1 if entries[0].bias else self.model)
        if sum(entry.tensor.numel() for entry in entries) > whole:
            raise Unfit(f"{len(entries)} parameters look alike ({', '.join(entry.name for entry in entries)})")
        parts = [self._read(letters, entry, 1) for entry in entries]
        return {letter: tuple(part[place] for part in parts) for place, letter in enumerate(letters)}

    def _read(self, letters: str, entry: Entry, heads: int) -> tuple[Slot, ...]:
        """Return one slot for each letter of a parameter that serves so many heads."""
        counts = self._counts(letters, entry, heads)
        packing = self.assignment.packing.get(letters, self.packing) if len(letters) > 1 else USUAL
        ways = input_slots(entry.name, entry.tensor, counts, packing, self.width, self.model, entry.bias)
        return self._one(ways, entry, self.turned, letters)

    def _counts(self, letters: str, entry: Entry, heads: int) -> list[int]:
        """Return how many heads each letter has in this parameter, by its size."""
        unit = self.width if entry.bias else self.width * self.model
        total, rest = divmod(entry.tensor.numel(), unit)
        if rest or not total:
            raise self._unfit(entry)
        if len(letters) == 1:
            counts = [total]
        elif total % len(letters) == 0 and ("q" not in letters or total >= len(letters) * heads):
            counts = [total // len(letters)] * len(letters)
        elif "q" in letters and len(letters) == 3:
            counts = [heads if letter == "q" else (total - heads) // 2 for letter in letters]
        else:
            counts = [heads if letter == "q" else total - heads for letter in letters]
        if any(count < 1 or heads % count for count in counts) or sum(counts) != total:
            raise self._unfit(entry)
        return counts

    def _output(
        self, entries: list[Entry], weights: dict[str, tuple[Slot, ...]], biases: dict[str, tuple[Slot, ...]]
    ) -> None:
        matrices = [entry for entry in entries if not entry.bias]
        vectors = [entry for entry in entries if entry.bias]
        if len(matrices) not in (1, self.heads) or len(vectors) > 1:
            several = ", ".join(entry.name for entry in matrices or entries)
            raise Unfit(f"{len(matrices)} parameters may be the output ({several})")
        heads = self.heads // len(matrices)
        ways = [(e, output_slots(e.name, e.tensor, heads, self.width, self.model, bias=False)) for e in matrices]
        weights["output"] = tuple(self._one(found, entry, self.turned_output, "o") for entry, found in ways)
        if vectors:
            found = output_slots(vectors[0].name, vectors[0].tensor, heads, self.width, self.model, bias=True)
            biases["output"] = (self._one(found, vectors[0], 0, "o"),)

    def _one(self, ways: list[Way], entry: Entry, turned: int, letters: str) -> Way:
        """Return the way that fits what is known about the entry."""
        if not ways:
            raise self._unfit(entry)
        if len(ways) == 1 or entry.bias or (entry.certain and not entry.turned):
            return ways[0]
        if entry.turned is not None:
            return ways[1 if entry.turned and entry.tensor.dim() == 2 else 0]
        self.open += [LETTERS[letter] for letter in letters]
        # A kernel, as opposed to a weight, is stored as (in, out).
        usual = 1 if entry.name.endswith("kernel") else 0
        return ways[turned if usual == 0 else 1 - turned]

    def _unfit(self, entry: Entry) -> Unfit:
        shape = tuple(entry.tensor.shape)
        rows = max(shape, default=0)
        wide = f"; its heads may be wider than d_model / heads = {self.width}" if rows > 3 * self.model else ""
        return Unfit(
            f"{entry.name} has shape {shape}, which fits neither d_model {self.model} nor {self.heads} heads of it{wide}"
        )
