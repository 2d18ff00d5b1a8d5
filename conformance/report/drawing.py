"""Pictures: matrices as tables whose cells carry a colour and a number, and ratios of error to bound on one axis.

Tables and not images, as their numbers can be read, copied and heard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..records import Picture
from .signs import counted, short_ratio

Matrix = tuple[tuple[float, ...], ...]

_SHADES = 5
"""How many colours errors beyond their bound have, from the least to the worst of a matrix."""

_NAMED = 6
"""How many cells are named in words."""


@dataclass(frozen=True)
class Cell:
    """One number: `look` names its colours in the style sheet."""

    look: str
    text: str


@dataclass(frozen=True)
class Row:
    """The cells of one row and its index in the whole matrix."""

    index: int
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Map:
    """A matrix to look at. `corner` names the axes, `label` says for ears what the table is, `words` what it shows."""

    title: str
    label: str
    corner: tuple[str, str]
    columns: tuple[int, ...]
    rows: tuple[Row, ...]
    words: str


def maps(pictures: Iterable[Picture]) -> tuple[Map, ...]:
    """Return what there is to look at: errors, then what was asked for beside what was seen."""
    pictures = tuple(pictures)
    errors = tuple(_of_errors(picture) for picture in pictures if picture.kind == "error")
    asked = next((picture for picture in pictures if picture.kind == "asked"), None)
    reached = next((picture for picture in pictures if picture.kind == "reached"), None)
    return errors + (_of_masks(asked, reached) if asked and reached else ())


def cells(pictures: Iterable[Picture]) -> int:
    """Return how many numbers the pictures hold."""
    return sum(len(row.split()) for picture in pictures for row in picture.rows)


# Errors


def _of_errors(picture: Picture) -> Map:
    numbers = picture.numbers
    beyond = [number for row in numbers for number in row if 1 < number < math.inf]
    least, most = min(beyond, default=1.0), max(beyond, default=1.0)
    rows = [[Cell(_heat(number, least, most), short_ratio(number)) for number in row] for row in numbers]
    words = ""
    if picture.worst is not None:
        row, column = (i - first for i, first in zip(picture.worst, picture.first, strict=True))
        worst = rows[row][column]
        rows[row][column] = Cell(f"{worst.look} worst", worst.text)
        words = f"Worst at {_place(picture, picture.worst)}: {worst.text} times what rounding allows."
    if least < most:
        words += f" The colours are logarithmic, from {short_ratio(least)} to {short_ratio(most)}."
    return _map(picture, f"Error ÷ bound, {picture.what}{_leading(picture)}", rows, words)


def _heat(ratio: float, least: float, most: float) -> str:
    """Return the shade of a ratio: 0 within the bound, then by its logarithm, and a last one for what is not finite."""
    if ratio <= 1:
        return "e0"
    if not math.isfinite(ratio):
        return f"e{_SHADES + 1}"
    share = math.log(ratio / least) / math.log(most / least) if least < most else 1.0
    return f"e{min(_SHADES, 1 + int(share * _SHADES))}"


# Masks


def _of_masks(asked: Picture, reached: Picture) -> tuple[Map, ...]:
    wanted, seen = asked.numbers, reached.numbers
    differing = tuple(_differing(wanted, seen))
    what = f"{asked.what[:1].upper()}{asked.what[1:]}{_leading(asked)}"
    if not differing:
        words = "Each query really sees exactly the keys that were asked for."
        return (_map(asked, f"{what}: asked for and seen alike", _mask_rows(seen, ()), words + _unknown(seen)),)
    return (
        _map(asked, f"{what}: asked for", _mask_rows(wanted, differing), "What the mask lets each query see."),
        _map(reached, f"{what}: read out", _mask_rows(seen, differing), _difference(asked, wanted, differing, seen)),
    )


def _differing(wanted: Matrix, seen: Matrix) -> Iterator[tuple[int, int]]:
    for i, (one, other) in enumerate(zip(wanted, seen, strict=True)):
        yield from ((i, j) for j, (a, b) in enumerate(zip(one, other, strict=True)) if a != b and not math.isnan(b))


def _mask_rows(numbers: Matrix, differing: Sequence[tuple[int, int]]) -> list[list[Cell]]:
    marked = set(differing)
    return [
        [_mask_cell(number, (i, j) in marked) for j, number in enumerate(row)]
        for i, row in enumerate(numbers)
    ]  # fmt: skip


def _mask_cell(number: float, differs: bool) -> Cell:
    look, text = ("unknown", "?") if math.isnan(number) else ("on", "1") if number else ("off", "0")
    return Cell(f"{look} differs" if differs else look, text)


def _difference(asked: Picture, wanted: Matrix, differing: Sequence[tuple[int, int]], seen: Matrix) -> str:
    leaking = [cell for cell in differing if not wanted[cell[0]][cell[1]]]
    missing = [cell for cell in differing if wanted[cell[0]][cell[1]]]
    parts = []
    if leaking:
        parts.append(f"{counted(len(leaking), 'hidden key')} seen all the same ({_names(asked, leaking)})")
    if missing:
        parts.append(f"{counted(len(missing), 'key')} not seen that the mask lets through ({_names(asked, missing)})")
    return "; ".join(parts) + "." + _unknown(seen)


def _names(picture: Picture, places: Sequence[tuple[int, int]]) -> str:
    named = [_place(picture, (picture.first[0] + i, picture.first[1] + j)) for i, j in places[:_NAMED]]
    return "; ".join(named) + ("; …" if len(places) > _NAMED else "")


def _unknown(seen: Matrix) -> str:
    some = any(math.isnan(number) for row in seen for number in row)
    return " A question mark: a token that is query and key at once cannot be told apart." if some else ""


# Both


def _map(picture: Picture, title: str, rows: Sequence[Sequence[Cell]], words: str) -> Map:
    top, left = picture.first
    made = tuple(Row(top + i, tuple(row)) for i, row in enumerate(rows))
    columns = tuple(range(left, left + len(rows[0]))) if rows else ()
    label = f"{title}. Rows are {picture.axes[0]}, columns are {picture.axes[1]}."
    return Map(
        title, label, picture.axes, columns, made, " ".join(filter(None, (words, _part(picture, made, columns))))
    )


def _part(picture: Picture, rows: Sequence[Row], columns: Sequence[int]) -> str:
    """Say which part of a larger matrix is shown."""
    if (len(rows), len(columns)) == picture.size or not rows:
        return ""
    (one, other), (height, width) = picture.axes, picture.size
    return (
        f"Shown: {one} {rows[0].index} to {rows[-1].index} of {height}, "
        f"{other} {columns[0]} to {columns[-1]} of {width}."
    )


def _place(picture: Picture, place: tuple[int, int]) -> str:
    return f"{picture.axes[0]} {place[0]}, {picture.axes[1]} {place[1]}"


def _leading(picture: Picture) -> str:
    return f" at ({', '.join(map(str, picture.place))})" if picture.place else ""
