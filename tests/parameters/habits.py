"""Modules that differ in nothing but where they keep their projections: one class per habit, made from a line of data."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Maps = dict[str, tuple[Tensor, Tensor | None]]
"""Weight (rows, d_model) and bias of each projection, by its letter."""


class Turned(nn.Module):
    """A linear map stored as (in, out), by a class that is none of torch's."""

    def __init__(self, inputs: int, outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / inputs**0.5)
        self.bias = nn.Parameter(torch.randn(outputs) / 10) if bias else None


@dataclass(frozen=True)
class Stored:
    """One parameter or submodule at `path` that holds the projections `letters`.

    `how` is `linear`, `conv1d`, `conv2d`, `turned` (a class that stores (in, out)), `raw` or `raw turned` (a bare
    parameter), or the axes of a bare kernel: `EHD`, `HDE`, `HED`, `3EHD`, `E3HD`, `EH3D`, `3HDE`, `3EE`. `packing` says
    how rows are cut: `usual`, `by head`, `by feature`. `bias` is where the bias of a bare parameter lies.
    """

    letters: str
    path: str
    how: str = "linear"
    packing: str = "usual"
    bias: str | None = ""

    def make(self, module: Habitual) -> None:
        """Put what is stored into the module."""
        rows, model = sum(module.rows(letter) for letter in self.letters), module.d_model
        if self.how in ("linear", "conv1d", "conv2d", "turned"):
            made: dict[str, Callable[[], nn.Module]] = {
                "linear": lambda: nn.Linear(model, rows, bias=self.bias is not None),
                "conv1d": lambda: nn.Conv1d(model, rows, 1, bias=self.bias is not None),
                "conv2d": lambda: nn.Conv2d(model, rows, 1, bias=self.bias is not None),
                "turned": lambda: Turned(model, rows, self.bias is not None),
            }
            _put(module, self.path, made[self.how]())
            return
        _put(module, self.path, nn.Parameter(torch.randn(self._shape(module, rows)) / model**0.5))
        if self.bias:
            _put(module, self.bias, nn.Parameter(torch.randn(rows) / 10))

    def _shape(self, module: Habitual, rows: int) -> list[int]:
        if self.how.startswith("raw"):
            return [rows, module.d_model] if self.how == "raw" else [module.d_model, rows]
        if self.how == "3EE":
            return [3, module.d_model, module.d_model]
        sizes = {"E": module.d_model, "H": rows // module.width // len(self.letters), "D": module.width, "3": 3}
        return [sizes[letter] for letter in self.how]

    def read(self, module: Habitual) -> Maps:
        """Return the projections as the module computes with them."""
        weight, bias = self._matrix(module)
        cut = {"usual": self._blocks, "by head": self._by_head, "by feature": self._by_feature}[self.packing]
        biases = {} if bias is None else cut(module, bias)
        return {letter: (rows, biases.get(letter)) for letter, rows in cut(module, weight).items()}

    def _matrix(self, module: Habitual) -> tuple[Tensor, Tensor | None]:
        """Return all rows as (rows, d_model), for the output (d_model, rows)."""
        held = _get(module, self.path)
        if isinstance(held, nn.Module):
            weight, bias = held.get_parameter("weight"), held.bias
            weight = weight.T if self.how == "turned" else weight.flatten(1)
            return weight, bias if bias is None else held.get_parameter("bias")
        bias = _get(module, self.bias) if self.bias else None
        assert isinstance(held, Tensor)
        if self.how == "3EE":
            return held.flatten(0, 1), bias
        if self.how.startswith("raw"):
            return (held if self.how == "raw" else held.T), bias
        outer = "EHD" if self.letters == "o" else "3HDE" if "3" in self.how else "HDE"
        axes = [self.how.index(letter) for letter in outer]
        return held.permute(axes).flatten(1 if self.letters == "o" else 0, -1 if self.letters == "o" else -2), bias

    def _blocks(self, module: Habitual, rows: Tensor) -> dict[str, Tensor]:
        return dict(zip(self.letters, rows.split([module.rows(letter) for letter in self.letters]), strict=True))

    def _by_head(self, module: Habitual, rows: Tensor) -> dict[str, Tensor]:
        """Every group of heads has its queries, then a key, then a value."""
        counts = {letter: module.rows(letter) // module.width // module.kv_heads for letter in self.letters}
        groups = rows.unflatten(0, (module.kv_heads, sum(counts.values()), module.width))
        parts = groups.split(list(counts.values()), 1)
        return {letter: part.flatten(0, 2) for letter, part in zip(self.letters, parts, strict=True)}

    def _by_feature(self, module: Habitual, rows: Tensor) -> dict[str, Tensor]:
        parts = rows.unflatten(0, (module.d_model, len(self.letters))).unbind(1)
        return dict(zip(self.letters, parts, strict=True))


class Habitual(nn.Module):
    """Sound multi-head attention, one tensor per argument, whose projections lie where `stored` says."""

    stored: tuple[Stored, ...] = ()
    group = 1

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.d_model, self.n_heads, self.width = d_model, n_heads, d_model // n_heads
        self.kv_heads = n_heads // math.gcd(n_heads, self.group)
        for each in self.stored:
            each.make(self)

    def rows(self, letter: str) -> int:
        return (self.kv_heads if letter in "kv" else self.n_heads) * self.width

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        maps = {letter: found for each in self.stored for letter, found in each.read(self).items()}
        q, k, v = (
            F.linear(tensor, *maps[letter]).unflatten(-1, (-1, self.width)).transpose(1, 2)
            for letter, tensor in (("q", query), ("k", key), ("v", value))
        )
        k, v = (tensor.repeat_interleave(self.n_heads // self.kv_heads, 1) for tensor in (k, v))
        scores = q @ k.mT * self.width**-0.5
        scores = scores if mask is None else scores.masked_fill(mask == 0, -1e9)
        merged = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        return F.linear(merged, *maps["o"]) if "o" in maps else merged


def habit(name: str, *stored: Stored, group: int = 1) -> type[Habitual]:
    """Return a class of that name with its projections stored so; `group` query heads share a key and a value."""
    return type(name, (Habitual,), {"stored": stored, "group": group, "__module__": __name__})


def linears(names: str, how: str = "linear", bias: str | None = "", group: int = 1) -> type[Habitual]:
    """Return a class with a layer of its own for query, key, value and, where four are named, output."""
    paths = names.split()
    return habit(
        _title(names),
        *(Stored(letter, path, how, bias=bias) for letter, path in zip("qkvo", paths, strict=False)),
        group=group,
    )


def packed(
    names: str, how: str = "linear", packing: str = "usual", letters: str = "qkv", group: int = 1
) -> type[Habitual]:
    """Return a class with one layer for the projections `letters`, others for what is left, then the output's."""
    first, *others = names.split()
    left = [letter for letter in "qkvo" if letter not in letters]
    single = [
        Stored(letter, path, how if how in ("linear", "turned") else "linear")
        for letter, path in zip(left, others, strict=False)
    ]
    return habit(_title(names), Stored(letters, first, how, packing), *single, group=group)


def bare(names: str, how: str, output: str, biases: str = "") -> type[Habitual]:
    """Return a class with bare parameters: kernels of the axes `how`, the output's of the axes `output`."""
    paths, vectors = names.split(), biases.split() or [""] * 4
    stored = [Stored(letter, path, how, bias=bias) for letter, path, bias in zip("qkv", paths, vectors, strict=False)]
    return habit(_title(f"{names} {how}"), *stored, Stored("o", paths[3], output, bias=vectors[3]))


def _title(names: str) -> str:
    return "".join(part.capitalize() for part in names.replace(".", "_").replace(" ", "_").split("_"))


def _put(module: nn.Module, path: str, thing: nn.Module | nn.Parameter) -> None:
    *outer, last = path.split(".")
    for part in outer:
        if not hasattr(module, part):
            module.add_module(part, nn.Module())
        module = module.get_submodule(part)
    if isinstance(thing, nn.Parameter):
        module.register_parameter(last, thing)
    else:
        module.add_module(last, thing)


def _get(module: nn.Module, path: str) -> nn.Module | nn.Parameter:
    owner, _, last = path.rpartition(".")
    found: nn.Module | nn.Parameter = getattr(module.get_submodule(owner), last)
    return found
