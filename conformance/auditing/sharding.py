"""A run dealt out to many machines: by implementation, never within one.

The implementation at place j of the target at place i belongs to part (i + j) mod N, so that one module that registers
many is dealt out as evenly as many targets with one each, and every part is the same wherever it is made.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..errors import UnknownShard


@dataclass(frozen=True)
class Shard:
    """Part `index` (from 0) of `number`."""

    index: int
    number: int

    def __str__(self) -> str:
        return f"{self.index + 1}/{self.number}"

    def holds(self, place: int) -> bool:
        """Whether what stands at this place belongs here."""
        return place % self.number == self.index


WHOLE = Shard(0, 1)


def parse_shard(text: str) -> Shard:
    """Take `I/N` apart. Raises UnknownShard for anything else, or for an I beyond N."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    index, number = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= index <= number:
        raise UnknownShard(f"--shard {text!r} is no part. Write I/N with I from 1 to N, for example 2/4.")
    return Shard(index - 1, number)
