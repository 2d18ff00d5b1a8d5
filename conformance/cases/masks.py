"""Contents of masks, and how a mask reaches an implementation: kind, polarity, shape, memory."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import torch
from torch import Tensor

from .case import Mask

Sizes = Mapping[str, int]

GROUPS = 3
"""Size of G, the axis in front of B in inputs of five axes."""


def _random(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Each key is allowed with probability 0.6, and every row keeps at least one."""
    allowed = torch.rand(shape, generator=generator) < 0.6
    if shape[-1]:
        kept = torch.randint(shape[-1], (*shape[:-1], 1), generator=generator)
        allowed.scatter_(-1, kept, True)
    return allowed


def _padding(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """The batch element b keeps its first max(1, S - 1 - 2 b) keys."""
    lengths = torch.tensor([max(1, shape[-1] - 1 - 2 * b) for b in range(shape[0])])
    return (torch.arange(shape[-1]) < lengths[:, None, None, None]).expand(shape).clone()


def _left_padding(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return _padding(shape, generator).flip(-1)


def _all(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.ones(shape, dtype=torch.bool)


def _single(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Every row keeps exactly one key, another one in each row."""
    rows = torch.arange(shape[-2]) * 3 + 1
    return (torch.arange(shape[-1]) == (rows % max(shape[-1], 1))[:, None]).expand(shape).clone()


def _causal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.ones(shape, dtype=torch.bool).tril()


def _empty_row(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Random, and the second row (or, without rows, the last batch element) may attend to nothing."""
    allowed = _random(shape, generator)
    if shape[-2] > 1:
        allowed[..., 1, :] = False
    else:
        allowed[-1] = False
    return allowed


def _empty_all(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.zeros(shape, dtype=torch.bool)


def _islands(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Row i sees four keys from i / L of the length on: whole blocks before and behind are hidden."""
    starts = torch.arange(shape[-2]) * shape[-1] // max(shape[-2], 1)
    offset = torch.arange(shape[-1]) - starts[:, None]
    return ((offset >= 0) & (offset < 4)).expand(shape).clone()


def _late(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Only the last three keys are seen."""
    return (torch.arange(shape[-1]) >= shape[-1] - 3).expand(shape).clone()


def _tail_hidden(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """The last three keys are hidden from everybody."""
    return (torch.arange(shape[-1]) < max(1, shape[-1] - 3)).expand(shape).clone()


def _empty_padding(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """As padding, and the last batch element keeps no key."""
    allowed = _padding(shape, generator)
    if shape[0]:
        allowed[-1] = False
    return allowed


def _empty_or_all(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Batch elements keep every key and none in turn."""
    return (torch.arange(shape[0]) % 2 == 0)[:, None, None, None].expand(shape).clone()


def _first_only(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return (torch.arange(shape[-1]) == 0).expand(shape).clone()


def _documents(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Three documents lie end to end, and rows see the keys of their own only."""
    rows, keys = (torch.arange(size) * 3 // max(size, 1) for size in shape[-2:])
    return (rows[:, None] == keys).expand(shape).clone()


def _last_only(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return (torch.arange(shape[-1]) == shape[-1] - 1).expand(shape).clone()


CONTENTS: Mapping[str, Callable[[tuple[int, ...], torch.Generator], Tensor]] = {
    "random": _random,
    "padding": _padding,
    "left padding": _left_padding,
    "all": _all,
    "single": _single,
    "causal": _causal,
    "empty row": _empty_row,
    "empty everywhere": _empty_all,
    "tail hidden": _tail_hidden,
    "last key only": _last_only,
    "first key only": _first_only,
    "empty padding": _empty_padding,
    "empty or all": _empty_or_all,
    "documents": _documents,
    "islands": _islands,
    "last three": _late,
}


def draw(mask: Mask, sizes: Sizes, generator: torch.Generator) -> Tensor:
    """Return the content as boolean (b, h, l, s), True = attend, with size 1 for axes that the mask leaves out.

    A mask with the axis G, for inputs of five axes, has it in front.
    """
    letters = mask.axes.rjust(4, "1")
    shape = tuple(_size(letter, sizes) for letter in letters)
    if mask.content == "causal":
        shape = (*shape[:-2], sizes["L"], sizes["S"])
    return CONTENTS[mask.content](shape, generator)


@lru_cache(maxsize=256)
def letters_of(pattern: str) -> tuple[str, ...]:
    """Split a pattern into axes: `(BH)LS` gives ("BH", "L", "S")."""
    return tuple(part.strip("()") for part in re.findall(r"\(\w+\)|\w", pattern))


def holds(pattern: str, axes: str) -> bool:
    """Say whether a mask of `axes` fits into the shape `pattern` by expansion."""
    return set(axes) - {"1"} <= set("".join(letters_of(pattern)))


def choose_pattern(accepted: str | tuple[str, ...], axes: str) -> str | None:
    """Return the accepted pattern in which a mask of `axes` is delivered, or None."""
    if isinstance(accepted, str):
        return axes
    if axes in accepted:
        return axes
    return next((pattern for pattern in accepted if holds(pattern, axes)), None)


def shape_as(content: Tensor, pattern: str, sizes: Sizes) -> Tensor:
    """Return `content` (b, h, l, s) in the shape that `pattern` names, perhaps as a view."""
    letters = letters_of(pattern)
    present = "".join(letters)
    axes = "GBHLS" if content.dim() > 4 else "BHLS"
    wanted = [_size(letter, sizes) if letter in present else 1 for letter in axes]
    full = content.expand([max(have, want) for have, want in zip(content.shape, wanted, strict=True)])
    shape = [_size(letter, sizes) for letter in letters]
    return full.reshape(shape)


def _size(letter: str, sizes: Sizes) -> int:
    if letter == "1":
        return 1
    size = 1
    for axis in letter:
        size *= GROUPS if axis == "G" else sizes[axis]
    return size


def _cycle(numbers: tuple[float, ...], shape: torch.Size) -> Tensor:
    """Return a tensor that repeats `numbers` in the order of memory."""
    count = 1
    for size in shape:
        count *= size
    return torch.tensor(numbers)[torch.arange(count) % len(numbers)].reshape(shape)


def encode(allowed: Tensor, mask: Mask, form: str, means: str, dtype: torch.dtype, finite: Tensor | None) -> Tensor:
    """Write a boolean attend mask in another kind: `bool`, `number` or `additive`, with the polarity `means`."""
    if form == "additive":
        zero = torch.zeros(allowed.shape, dtype=dtype) if finite is None else finite.to(dtype)
        return zero.masked_fill(~allowed, float("-inf"))
    written = allowed if means == "attend" else ~allowed
    if form == "bool":
        return written
    if mask.numbers == "float":
        return written.to(dtype)
    if mask.numbers == "odd":
        return torch.where(written, _cycle((2, -1, 256), written.shape), 0)
    if mask.numbers == "fractions":
        return torch.where(written, _cycle((0.25, -2.0, 1.5), written.shape).to(dtype), 0.0)
    return written.to(_WRITTEN.get(mask.numbers, torch.int64))


_WRITTEN: Mapping[str, torch.dtype] = {
    "bytes": torch.uint8,
    "int8": torch.int8,
    "int32": torch.int32,
    "fp32": torch.float32,
    "fp64": torch.float64,
}
"""dtypes in which a mask of 1 and 0 is written, whatever the dtype of the inputs."""
