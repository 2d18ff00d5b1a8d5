"""Families of values for query, key and value, as data.

Most are `factor * normal + offset` per tensor, so that a reproduction can draw them in one line each. The others
are built to make one fault visible and say which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

Pair = tuple[float, float]


@dataclass(frozen=True)
class Affine:
    """factor and offset of a normal draw for each tensor; `half` multiplies the query and key factors in 16 bits,
    where larger scores would leave the bound without power."""

    query: Pair = (1.0, 0.0)
    key: Pair = (1.0, 0.0)
    value: Pair = (1.0, 0.0)
    half: float = 1.0


AFFINE: Mapping[str, Affine] = {
    "signed": Affine(),
    "sharp": Affine((3.0, 0.0), (3.0, 0.0), half=0.5),
    "flat": Affine((0.1, 0.0), (0.1, 0.0)),
    "shifted keys": Affine((1.0, 0.0), (1.0, 3.0), half=0.5),
    "shifted values": Affine(value=(1.0, 10.0)),
    "large values": Affine(value=(1000.0, 0.0)),
    "values beyond fp16": Affine(value=(1e6, 0.0)),
    "values of 1e30": Affine(value=(1e30, 0.0)),
    "values of 1e-30": Affine(value=(1e-30, 0.0)),
    "tiny": Affine((1e-3, 0.0), (1e-3, 0.0), (1e-3, 0.0)),
    "huge scores": Affine((40.0, 0.0), (40.0, 0.0), half=0.02),
    "constant value": Affine(value=(0.0, 1.5)),
    "zero query": Affine(query=(0.0, 0.0)),
    "ones value, zero query": Affine(query=(0.0, 0.0), value=(0.0, 1.0)),
}


@dataclass(frozen=True)
class Shapes:
    """Canonical shapes of query (..., L, D), key (..., S, D) and value (..., S, E)."""

    query: tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]


Drawn = tuple[Tensor, Tensor, Tensor]


def _normal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def _equal_keys(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """All keys are one vector, so the output is the mean of the allowed values whatever the scale."""
    key = _normal((*shapes.key[:-2], 1, shapes.key[-1]), generator).expand(shapes.key).clone()
    return _normal(shapes.query, generator), key, _normal(shapes.value, generator)


def _level(score: float) -> Callable[[Shapes, torch.Generator], Drawn]:
    """All scores are equal to `score` after scaling by 1/sqrt(D), exactly where sqrt(D) is a power of two."""

    def build(shapes: Shapes, generator: torch.Generator) -> Drawn:
        width = shapes.query[-1]
        query = torch.ones(shapes.query, dtype=torch.float64)
        key = torch.full(shapes.key, score / math.sqrt(width), dtype=torch.float64)
        return query, key, _normal(shapes.value, generator)

    return build


def _two_keys(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """Scores 0 and -8 exactly at D = 4^k, value columns (0, 1) and (1, 1): column 0 is the sigmoid of -8, so a
    relative error e of the scale shows as 8 e."""
    width = shapes.query[-1]
    query = torch.zeros(shapes.query, dtype=torch.float64)
    query[..., 0] = math.sqrt(width)
    key = torch.zeros(shapes.key, dtype=torch.float64)
    key[..., 1::2, 0] = -8.0
    value = torch.ones(shapes.value, dtype=torch.float64)
    value[..., 0::2, 0] = 0.0
    return query, key, value


def hadamard(size: int) -> Tensor:
    """Return the Sylvester matrix of `size`, a power of two, with entries 1 and -1."""
    matrix = torch.ones(1, 1, dtype=torch.float64)
    while matrix.shape[0] < size:
        matrix = torch.cat([torch.cat([matrix, matrix], 1), torch.cat([matrix, -matrix], 1)])
    return matrix


def _needles(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """Every key is a needle: query i scores 16 on key i mod S and 0 on all others, so a lost, doubled or moved key
    changes a whole row of the output. Needs S at most D, D a power of two."""
    keys, width = shapes.key[-2], shapes.query[-1]
    codes = hadamard(width)[:keys]
    factor = 16.0 / math.sqrt(width)
    left = 2.0 ** math.floor(math.log2(math.sqrt(factor)))
    rows = codes[torch.arange(shapes.query[-2]) % keys]
    query = (left * rows).expand(shapes.query).clone()
    key = (factor / left * codes).expand(shapes.key).clone()
    return query, key, _normal(shapes.value, generator)


def _identity_value(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """The value is the identity, so the output is the weights themselves."""
    value = torch.eye(shapes.value[-2], shapes.value[-1], dtype=torch.float64).expand(shapes.value).clone()
    return _normal(shapes.query, generator), _normal(shapes.key, generator), value


def _ramp(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """Zero query and value j in row j: the output is the mean position of the allowed keys."""
    value = torch.arange(shapes.value[-2], dtype=torch.float64)[:, None].expand(shapes.value).clone()
    return torch.zeros(shapes.query, dtype=torch.float64), _normal(shapes.key, generator), value


def _duplicate_keys(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """Keys repeat with period 3, values do not."""
    key = _normal(shapes.key, generator)
    key = key[..., torch.arange(shapes.key[-2]) % 3, :] if shapes.key[-2] >= 3 else key
    return _normal(shapes.query, generator), key, _normal(shapes.value, generator)


def _exact(shapes: Shapes, generator: torch.Generator, scores: Tensor) -> Drawn:
    """Every second query meets the negated `scores` (S); exact in every dtype where D is a power of 16."""
    width = shapes.query[-1]
    query, key = (torch.zeros(shape, dtype=torch.float64) for shape in (shapes.query, shapes.key))
    query[..., 0] = (1.0 - 2.0 * (torch.arange(shapes.query[-2]) % 2).double()) * math.sqrt(width)
    key[..., 0] = scores
    return query, key, _normal(shapes.value, generator)


def _both_signs(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """Scores 2048, -2048 and 2048 in turn, so that one or two keys of three share everything."""
    places = torch.arange(shapes.key[-2]) % 3
    return _exact(shapes, generator, torch.where(places == 1, -2048.0, 2048.0).double())


def _rising(step: float) -> Callable[[Shapes, torch.Generator], Drawn]:
    """Scores rise by `step` from key to key for one query and fall for the next, as a softmax in blocks sees worst:
    each block has a larger maximum than the one before, or none has."""

    def build(shapes: Shapes, generator: torch.Generator) -> Drawn:
        return _exact(shapes, generator, step * torch.arange(shapes.key[-2]).double())

    return build


def _two_levels(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """The first half of the keys scores -512, the second 0 and -1 in turn; negated for every second query."""
    places = torch.arange(shapes.key[-2])
    return _exact(shapes, generator, torch.where(places < shapes.key[-2] // 2, -512.0, -(places % 2).double()))


def _loud_tail(score: float) -> Callable[[Shapes, torch.Generator], Drawn]:
    """The last three keys score `score`, or its negative for every second query, the others between 0 and 1."""

    def build(shapes: Shapes, generator: torch.Generator) -> Drawn:
        places = torch.arange(shapes.key[-2])
        scores = torch.where(places >= shapes.key[-2] - 3, score, (places % 4).double() / 4)
        return _exact(shapes, generator, scores)

    return build


def _outlier(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """One key in the middle is 30 times as long as the others, and its value is not."""
    query, key, value = (_normal(shape, generator) for shape in (shapes.query, shapes.key, shapes.value))
    key[..., shapes.key[-2] // 2, :] *= 30.0
    return query, key, value


def _unlike(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """The query is tiny and the key large, so that only their product is ordinary."""
    query, key, value = (_normal(shape, generator) for shape in (shapes.query, shapes.key, shapes.value))
    return query * 1e-9, key * 1e9, value


def _many_rows(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """Signed numbers that a module sees as they are: it takes thousands of rows to tell a fault from rounding."""
    return _normal(shapes.query, generator), _normal(shapes.key, generator), _normal(shapes.value, generator)


def _equal_terms(shapes: Shapes, generator: torch.Generator) -> Drawn:
    """Scores are 0 but for a trace on the first key, so that the largest is one alone, and every gradient is a sum of
    equal terms of one sign: keys and values alternate in sign together, and queries lie across the keys."""
    query, key = (torch.zeros(shape, dtype=torch.float64) for shape in (shapes.query, shapes.key))
    sign = 1.0 - 2.0 * (torch.arange(shapes.key[-2]) % 2).double()
    key[..., 0] = sign
    if query.shape[-1] > 1:
        query[..., 1] = 1.0
        key[..., :1, 1] = 2.0**-6
    return query, key, sign[:, None].expand(shapes.value).clone()


BUILT: Mapping[str, Callable[[Shapes, torch.Generator], Drawn]] = {
    "many rows": _many_rows,
    "equal terms": _equal_terms,
    "scores of both signs": _both_signs,
    "rising scores": _rising(2.0**-6),
    "steeply rising scores": _rising(0.5),
    "two levels of scores": _two_levels,
    "loud tail": _loud_tail(4096.0),
    "louder tail": _loud_tail(32768.0),
    "one outlier": _outlier,
    "tiny query, large key": _unlike,
    "equal keys": _equal_keys,
    "scores -20": _level(-20.0),
    "scores -64": _level(-64.0),
    "scores -512": _level(-512.0),
    "scores 120": _level(120.0),
    "scores -32768": _level(-32768.0),
    "two keys": _two_keys,
    "needles": _needles,
    "identity value": _identity_value,
    "ramp": _ramp,
    "duplicate keys": _duplicate_keys,
}

EXACT_SCORES = frozenset(
    {
        "scores -20", "scores -64", "scores -512", "scores 120", "scores -32768", "two keys", "zero query", "ones value, zero query",
        "equal terms", "scores of both signs", "rising scores", "two levels of scores", "loud tail", "louder tail",
    }
)  # fmt: skip
"""Families whose scores are exact in every dtype when D is a power of 16 (so that its fourth root is exact as well)."""

AS_THEY_ARE = EXACT_SCORES | set(BUILT)
"""Families that a module has to see unchanged: its projections are then the identity, which rounds nothing."""

FAMILIES = (*AFFINE, *BUILT)


def draw(family: str, shapes: Shapes, generator: torch.Generator, half: bool) -> Drawn:
    """Return query, key and value in float64."""
    if family in BUILT:
        return BUILT[family](shapes, generator)
    recipe = AFFINE[family]
    factor = recipe.half if half else 1.0
    query = recipe.query[0] * factor * _normal(shapes.query, generator) + recipe.query[1]
    key = recipe.key[0] * factor * _normal(shapes.key, generator) + recipe.key[1]
    return query, key, recipe.value[0] * _normal(shapes.value, generator) + recipe.value[1]
