"""Small faulty implementations for rules that reject no mutant of the zoo, each named for its fault."""

from __future__ import annotations

from tests.zoo.mutant import Mutant, Population

fakes = Population()

FAKES: tuple[Mutant, ...] = tuple(fakes)
