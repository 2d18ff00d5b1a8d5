"""What failed, told once for each rule: the first dtype in full, the others in a few words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from ..records import Record
from .combining import Combined, family_of, worst
from .drawing import Map, cells, maps
from .signs import OUTCOMES, Sign, short_ratio, shortened
from .wording import by_rule

ROOM = 1_000_000
"""How many characters of reproductions and pictures a page may hold, so that a browser opens it at once."""

_LABEL = re.compile(r"  (case|as data|seen|only with|declare|likely) +(?=\S)")
_PASTE = "  to reproduce, paste:"
_LONGEST = 4_000
_CELL = 20


@dataclass(frozen=True)
class Part:
    """One labelled line of a story."""

    label: str
    text: str


@dataclass(frozen=True)
class Message:
    """A record's message, taken apart."""

    sentence: str
    parts: tuple[Part, ...]
    reproduction: str


@dataclass(frozen=True)
class Told:
    """What became of a rule in one dtype, in a few words."""

    dtype: str
    sign: Sign
    ratio: str


@dataclass(frozen=True)
class Story:
    """One failing rule. `full` says whether pictures and reproduction are there, where the record has any."""

    rule: str
    family: str
    sign: Sign
    outcomes: tuple[str, ...]
    dtypes: tuple[Told, ...]
    message: Message
    maps: tuple[Map, ...]
    full: bool


def failing(records: Iterable[Record]) -> tuple[list[Record], ...]:
    """Return the records of each rule that failed in any dtype."""
    return tuple(group for group in by_rule(records).values() if any(record.failing for record in group))


def depth(combined: Combined, room: int = ROOM) -> int:
    """Return how many stories of each implementation are told in full, so that all of them together have room."""
    costs = [[_cost(_first(group)) for group in failing(entry.audited.records)] for entry in combined.entries]
    for number, layer in enumerate(zip_longest(*costs, fillvalue=0)):
        room -= sum(layer)
        if room < 0:
            return number
    return max(map(len, costs), default=0)


def stories(records: Iterable[Record], full: int) -> tuple[Story, ...]:
    """Return a story for each failing rule, the first `full` of them with everything there is."""
    return tuple(_story(group, place < full) for place, group in enumerate(failing(records)))


def _story(records: Sequence[Record], full: bool) -> Story:
    first = _first(records)
    told = [record.outcome for record in records if record.failing]
    message = take_apart(first.message)
    if not full:
        message = Message(message.sentence, message.parts, "")
    return Story(
        rule=first.rule,
        family=family_of(first),
        sign=OUTCOMES[worst(told)],
        outcomes=tuple(dict.fromkeys(map(str, told))),
        dtypes=tuple(Told(r.dtype or "any dtype", OUTCOMES[r.outcome], short_ratio(r.ratio)) for r in records),
        message=message,
        maps=maps(first.pictures) if full else (),
        full=full or not _cost(first),
    )


def _first(records: Iterable[Record]) -> Record:
    return next(record for record in records if record.failing)


def _cost(record: Record) -> int:
    return len(record.message.partition(_PASTE)[2]) + _CELL * cells(record.pictures)


def take_apart(message: str) -> Message:
    """Return the sentence, the labelled lines and the reproduction of a message; any text will do."""
    told, _, pasted = message.partition(f"\n{_PASTE}\n")
    reproduction = "\n".join(line.removeprefix("    ") for line in pasted.splitlines())
    sentence: list[str] = []
    parts: list[tuple[str, list[str]]] = []
    for line in told.splitlines():
        label = _LABEL.match(line)
        if label:
            parts.append((label[1], [line[label.end() :]]))
        else:
            (parts[-1][1] if parts else sentence).append(line)
    made = tuple(Part(label, shortened("\n".join(lines), _LONGEST)) for label, lines in parts)
    return Message(shortened("\n".join(sentence), _LONGEST), made, reproduction)
