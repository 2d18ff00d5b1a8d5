"""Where the projections lie inside the parameters of a module, and how they are written and read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..cases.inputs import ROLES, Drawn
from ..oracle.expectations import Structure


@dataclass(frozen=True)
class Slot:
    """One matrix or vector inside a parameter.

    The parameter is seen with axes of the given `sizes`, named by `axes`: H groups of heads, P heads or parts within,
    D features of a head, E the model's width. Of P, those from `start` on, `count` of them, belong to the slot. What is
    left is read as (heads * D, E), or (E, heads * D) for the `output`.
    """

    name: str
    axes: str
    sizes: tuple[int, ...]
    start: int
    count: int
    output: bool = False

    def place(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the slot as a view with separate axes, to be written to."""
        return self._cut(tensors[self.name].view(self.sizes))

    def of(self, tensors: Mapping[str, Tensor]) -> Tensor:
        """Return the slot as (out, in) or (out,), of the parameter or of a tensor of its shape."""
        found = self._cut(tensors[self.name].reshape(self.sizes))
        if "E" not in self.axes or "D" not in self.axes:
            return found.flatten()
        return found.flatten(1) if self.output else found.flatten(0, -2)

    def _cut(self, tensor: Tensor) -> Tensor:
        if "P" in self.axes:
            tensor = tensor.narrow(self.axes.index("P"), self.start, self.count)
        return tensor.permute(self.order)

    @property
    def order(self) -> tuple[int, ...]:
        """How the axes are permuted before they are flattened."""
        wanted = "EHPD" if self.output else "HPDE"
        return tuple(self.axes.index(letter) for letter in wanted if letter in self.axes)

    @property
    def rows(self) -> int:
        """Features of the heads that it holds, heads times D; the model's width for the bias of the output."""
        sizes = dict(zip(self.axes, self.sizes, strict=True))
        if "D" not in sizes:
            return sizes["E"]
        return sizes.get("H", 1) * (self.count if "P" in sizes else 1) * sizes["D"]


@dataclass(frozen=True)
class Layout:
    """The slots of each role, one per head where heads are separate; a role without bias has no entry in `biases`, a
    module without an output projection no entry for it at all."""

    weights: Mapping[str, tuple[Slot, ...]]
    biases: Mapping[str, tuple[Slot, ...]]
    structure: Structure

    def write(self, module: nn.Module, drawn: Drawn) -> None:
        """Put the drawn parameters into the module; narrower key and value projections get the first rows."""
        tensors: dict[str, Tensor] = {**dict(module.named_buffers()), **dict(module.named_parameters())}
        with torch.no_grad():
            for role, slots in self.weights.items():
                shared = self.structure.shared and role != "output"
                _copy((drawn.head if shared else drawn.full)[role], slots, tensors)
            for role, slots in self.biases.items():
                _copy(drawn.bias[role], slots, tensors)

    def gather(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return `query.weight`, `query.bias` ... of a mapping from parameter names to tensors (gradients, say)."""
        result = {}
        for kind, table in (("weight", self.weights), ("bias", self.biases)):
            for role, slots in table.items():
                along = 1 if kind == "weight" and role == "output" else 0
                result[f"{role}.{kind}"] = torch.cat([slot.of(tensors) for slot in slots], along)
        return result

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters that hold the projections."""
        slots = [slot for table in (self.weights, self.biases) for group in table.values() for slot in group]
        return tuple(dict.fromkeys(slot.name for slot in slots))


def rows_of(slots: tuple[Slot, ...]) -> int:
    """Return how many rows of a drawn matrix the slots of a role hold together."""
    return sum(slot.rows for slot in slots)


def _copy(source: Tensor, slots: tuple[Slot, ...], tensors: Mapping[str, Tensor]) -> None:
    start = 0
    for slot in slots:
        by_column = slot.output and source.dim() == 2
        piece = source.narrow(1 if by_column else 0, start, slot.rows)
        target = slot.place(tensors)
        target.copy_(piece.reshape(target.shape))
        start += slot.rows


def structure_of(
    weights: Mapping[str, tuple[Slot, ...]], biases: Mapping[str, tuple[Slot, ...]], heads: int, width: int
) -> Structure:
    """Return the structure of a module whose heads, of the given number and width, lie in these slots."""
    first = weights["query"][0]
    shared = heads > 1 and rows_of(weights["query"]) == width and first.sizes[first.axes.index("E")] == width
    kv_heads = None if shared else rows_of(weights["key"]) // width
    return Structure(
        shared=shared,
        biases=frozenset(role for role in ROLES if role in biases),
        kv_heads=None if kv_heads == heads else kv_heads,
        output="output" in weights,
    )
