"""Calls that the documents' code accepts and no ordinary attention explains, each with the ordinary call it equals."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from tests.goldens.recipe import Odd, numbers

Tensors = dict[str, Tensor | None]
Change = Callable[[Tensors], Tensors]


def of(tensors: Tensors, name: str) -> Tensor:
    """Return a tensor that is there."""
    tensor = tensors[name]
    assert tensor is not None
    return tensor


def reshaped(sent: dict[str, tuple[int, ...]], plain: dict[str, tuple[int, ...]]) -> Odd:
    """The numbers of an ordinary call in other shapes; `plain` are the shapes as which the code reads them."""

    def change(shapes: dict[str, tuple[int, ...]]) -> Change:
        return lambda tensors: {**tensors, **{name: of(tensors, name).reshape(shape) for name, shape in shapes.items()}}

    return Odd(change(sent), change(plain))


def number_mask(*values: float) -> Odd:
    """A mask (S) of these numbers, read as a number mask."""
    mask = torch.tensor(values, dtype=torch.float64)
    allowed = (mask != 0).reshape(1, 1, 1, -1)
    return Odd(lambda tensors: {**tensors, "mask": mask}, lambda tensors: {**tensors, "allowed": allowed}, "number")


def mask_read_as(rows: list[object], shape: tuple[int, ...]) -> Odd:
    """A boolean mask in a shape without a head axis; `shape` is how broadcasting reads it, (b, h, l, s)."""
    mask = torch.tensor(rows).bool()
    return Odd(
        lambda tensors: {**tensors, "mask": mask},
        lambda tensors: {**tensors, "allowed": mask.reshape(shape)},
    )


def poisoned(name: str) -> Odd:
    """NaN in the last key or value, which the mask (S) hides."""

    def put(tensors: Tensors) -> Tensors:
        tensor = of(tensors, name).clone()
        tensor[..., -1, :] = math.nan
        return {**tensors, name: tensor}

    def without(tensors: Tensors) -> Tensors:
        allowed = of(tensors, "mask").bool().reshape(1, 1, 1, -1)
        return {**tensors, name: of(tensors, name).nan_to_num(nan=0.0), "allowed": allowed}

    return Odd(put, without, listing_nan=True)


def overflowing(tensors: Tensors) -> Tensors:
    """Products above 65504 in fp16: 64 * 64 for each feature; the scaled scores would fit."""
    large = {name: torch.full_like(of(tensors, name), 64.0) for name in ("query", "key")}
    return {**tensors, **large}


def below_the_fill(power: int) -> Odd:
    """Scores of -4^power and twice that for two allowed keys and 0 for the hidden one, which a finite fill turns over."""

    def sent(tensors: Tensors) -> Tensors:
        query, key = (torch.zeros_like(of(tensors, name)) for name in ("query", "key"))
        query[..., 0] = 2.0**power
        key[..., 0, 0], key[..., 1, 0] = -(2.0**power), -(2.0 ** (power + 1))
        return {**tensors, "query": query, "key": key, "mask": torch.tensor([1.0, 1.0, 0.0]).double()}

    def plain(tensors: Tensors) -> Tensors:
        return {**tensors, "allowed": torch.tensor([False, False, True]).reshape(1, 1, 1, 3)}

    return Odd(sent, plain, "number")


def mask_of_more_samples(tensors: Tensors) -> Tensors:
    """A mask of batch 3 where the inputs have batch 1."""
    return {**tensors, "mask": torch.tensor([[1, 1, 0], [1, 0, 1], [0, 1, 1]]).bool().reshape(3, 1, 1, 3)}


def repeated_samples(tensors: Tensors) -> Tensors:
    """The ordinary inputs: those of the call three times, each under its own part of the mask."""
    grown = {name: of(tensors, name) for name in ("query", "key", "value")}
    repeated = {name: tensor.expand(3, *tensor.shape[1:]).clone() for name, tensor in grown.items()}
    return {**repeated, "allowed": tensors["mask"]}


def mask_of_more_rows(tensors: Tensors) -> Tensors:
    """A causal mask of 3 rows where the query has one."""
    return {**tensors, "mask": torch.ones(3, 3).tril().bool()}


def repeated_rows(tensors: Tensors) -> Tensors:
    """The ordinary inputs: the one query three times."""
    query = of(tensors, "query")
    allowed = of(tensors, "mask").reshape(1, 1, 3, 3)
    return {**tensors, "query": query.expand(query.shape[0], 3, query.shape[2]).clone(), "allowed": allowed}


def heads_of_leftover_features(heads: int, width: int, leftover: int, length: int) -> Odd:
    """A model whose width the heads do not divide: its features are dealt out as if there were more positions."""
    names = ("query", "key", "value")

    def sent(tensors: Tensors) -> Tensors:
        return {
            **tensors,
            **{name: numbers(f"leftover {name}", (1, length, heads * width + leftover)) for name in names},
        }

    def plain(tensors: Tensors) -> Tensors:
        return {name: of(tensors, name).reshape(1, -1, heads, width).transpose(1, 2) for name in names}

    return Odd(sent, plain)


def values_of_one_key(count: int) -> Odd:
    """One key with `count` values, which the code adds up."""
    small = torch.arange(count, dtype=torch.float64)[:, None] / 4 - 0.5

    def sent(tensors: Tensors) -> Tensors:
        value = of(tensors, "value")
        return {**tensors, "value": (small + torch.arange(value.shape[-1]) / 8).expand(1, count, -1).clone()}

    return Odd(sent, lambda tensors: {**tensors, "value": of(tensors, "value").sum(1, keepdim=True)})
