"""Which axes a parameter of some shape can have: packed or not, as (out, in) or (in, out), with heads apart or merged.

H groups of heads, P heads or parts within a group, D features of a head, E the model's width; letters in one word are
merged into one axis of the tensor.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from torch import Tensor

from .storage import Slot

Axes = tuple[str, ...]

_PLAIN: tuple[Axes, ...] = (("PD", "E"), ("E", "PD"), ("P", "D", "E"), ("E", "P", "D"), ("P", "E", "D"))
_STACKED: tuple[Axes, ...] = (
    ("P", "HD", "E"), ("P", "E", "HD"), ("P", "H", "D", "E"), ("P", "E", "H", "D"), ("P", "H", "E", "D"),
    ("E", "P", "H", "D"), ("E", "P", "HD"),
)  # fmt: skip
_BY_HEAD: tuple[Axes, ...] = (
    ("HPD", "E"), ("E", "HPD"), ("H", "PD", "E"), ("E", "H", "PD"), ("H", "P", "D", "E"), ("E", "H", "P", "D"),
    ("HP", "D", "E"), ("E", "HP", "D"), ("H", "E", "PD"),
)  # fmt: skip
_BY_FEATURE: tuple[Axes, ...] = (("HDP", "E"), ("E", "HDP"), ("H", "D", "P", "E"), ("E", "H", "D", "P"))
_OUTPUT: tuple[Axes, ...] = (("E", "PD"), ("PD", "E"), ("E", "P", "D"), ("P", "D", "E"), ("P", "E", "D"))

USUAL, BY_HEAD, BY_FEATURE = "usual", "by head", "by feature"
PACKINGS = (USUAL, BY_HEAD, BY_FEATURE)
"""How a packed parameter is cut: into blocks of query, key and value; into these per head; or per feature of a head."""


def input_slots(
    name: str, tensor: Tensor, counts: Sequence[int], packing: str, width: int, model: int, bias: bool
) -> list[tuple[Slot, ...]]:
    """Return the ways to read a parameter that holds projections of `counts` heads each, the usual one first.

    A way is one slot for each of the projections, in order.
    """
    for fits in (_equals, _equals_but_for_ones):
        ways = []
        for patterns, sizes, parts in _modes(counts, packing):
            for axes in _without_model(patterns) if bias else patterns:
                full = {**sizes, "D": width, "E": model}
                if fits(tensor, axes, full):
                    ways.append(_cut(name, "".join(axes), full, parts))
        if ways:
            return ways
    return []


def _cut(name: str, letters: str, sizes: Mapping[str, int], parts: Sequence[int]) -> tuple[Slot, ...]:
    flat = tuple(sizes[letter] for letter in letters)
    return tuple(Slot(name, letters, flat, sum(parts[:place]), count) for place, count in enumerate(parts))


def output_slots(name: str, tensor: Tensor, heads: int, width: int, model: int, bias: bool) -> list[Slot]:
    """Return the ways to read a parameter of the output projection (out E, in heads * D), the usual one first."""
    sizes = {"P": heads, "D": width, "E": model}
    patterns: tuple[Axes, ...] = (("E",),) if bias else _OUTPUT
    for fits in (_equals, _equals_but_for_ones):
        ways = [
            Slot(name, "".join(axes), tuple(sizes[letter] for letter in "".join(axes)), 0, heads, output=True)
            for axes in patterns
            if fits(tensor, axes, sizes)
        ]
        if ways:
            return ways
    return []


def _modes(counts: Sequence[int], packing: str) -> list[tuple[tuple[Axes, ...], Mapping[str, int], Sequence[int]]]:
    """Return patterns, the sizes of P and H, and the length of each part along P."""
    groups, parts, even = min(counts), len(counts), len(set(counts)) == 1
    whole = all(count % groups == 0 for count in counts)
    if packing == USUAL:
        modes: list[tuple[tuple[Axes, ...], Mapping[str, int], Sequence[int]]] = [(_PLAIN, {"P": sum(counts)}, counts)]
        return modes + ([(_STACKED, {"P": parts, "H": groups}, [1] * parts)] if even and parts > 1 else [])
    if packing == BY_HEAD and whole and parts > 1:
        per_group = [count // groups for count in counts]
        return [(_BY_HEAD, {"H": groups, "P": sum(per_group)}, per_group)]
    if packing == BY_FEATURE and even and parts > 1:
        return [(_BY_FEATURE, {"H": groups, "P": parts}, [1] * parts)]
    return []


def _without_model(patterns: tuple[Axes, ...]) -> list[Axes]:
    """Return the patterns of a bias: those of the weight without the model's axis, each once."""
    return list(dict.fromkeys(tuple(word for word in axes if word != "E") for axes in patterns))


def _equals(tensor: Tensor, axes: Axes, sizes: Mapping[str, int]) -> bool:
    return list(tensor.shape) == _shape(axes, sizes)


def _equals_but_for_ones(tensor: Tensor, axes: Axes, sizes: Mapping[str, int]) -> bool:
    """Kernels of convolutions and broadcast biases have axes of size one besides."""
    wanted = [size for size in _shape(axes, sizes) if size != 1]
    return tensor.dim() > len(axes) and [size for size in tensor.shape if size != 1] == wanted


def _shape(axes: Axes, sizes: Mapping[str, int]) -> list[int]:
    return [math.prod(sizes[letter] for letter in word) for word in axes]
