"""Matrices for reports: cut out of the tensors of a failure, small enough for a result file."""

from __future__ import annotations

import torch
from torch import Tensor

from ..records import Picture

WINDOW = 16
"""How many rows and columns a picture shows, those around its worst element."""

_AXES = {
    "output": ("L", "E"), "weights": ("L", "S"), "bias": ("L", "S"),
    "query": ("L", "D"), "key": ("S", "D"), "value": ("S", "E"),
}  # fmt: skip


def of_errors(what: str, ratio: Tensor) -> tuple[Picture, ...]:
    """Return a picture of the matrix that holds the largest of some ratios of error to allowance.

    `ratio` (..., rows, columns) belongs to the tensor that `what` names; nothing is returned for less than a row.
    """
    if not ratio.dim() or not ratio.numel():
        return ()
    matrices = ratio.detach().to("cpu", torch.float64)
    matrices = matrices if matrices.dim() > 1 else matrices[None]
    *place, row, column = (int(i) for i in torch.unravel_index(matrices.argmax(), matrices.shape))
    return (cut("error", what, matrices[tuple(place)], tuple(place), _axes(what), (row, column)),)


def cut(
    kind: str, what: str, matrix: Tensor, place: tuple[int, ...], axes: tuple[str, str], worst: tuple[int, int] | None
) -> Picture:
    """Return the part of a matrix (rows, columns) around its worst element, or its first part."""
    rows, columns = matrix.shape
    size, centre = (int(rows), int(columns)), worst or (0, 0)
    first = (_start(centre[0], size[0]), _start(centre[1], size[1]))
    shown = matrix[first[0] : first[0] + WINDOW, first[1] : first[1] + WINDOW]
    lines = tuple(" ".join(f"{number:.3g}" for number in row) for row in shown.tolist())
    return Picture(kind, what, place, axes, size, first, lines, worst)


def _start(centre: int, length: int) -> int:
    return max(0, min(centre - WINDOW // 2, length - WINDOW))


def _axes(what: str) -> tuple[str, str]:
    """Return the names of the last two axes of a tensor by how it is called: the word that comes first decides."""
    named = what.split(" through ")[0]
    words = [word for word in _AXES if word in named]
    return _AXES[min(words, key=named.index)] if words else ("row", "column")
