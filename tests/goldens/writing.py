"""Vectors as text: one JSON file each, a row of numbers a line, written the same way on every machine."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

from torch import Tensor

from attention_conformance.oracle.expectations import Setting
from tests.goldens.proof import Proven, Result, Sent
from tests.goldens.recipe import Recipe

FORMAT = 1
FOLDERS: Mapping[str, str] = {
    "attention": "attention",
    "MultiHeadAttention": "multi_head_attention",
    "SelfAttention": "self_attention",
}
"""The folder below snapshots/ in which the vectors of each reference lie."""

_WORDS = {math.inf: "inf", -math.inf: "-inf"}


def hexadecimal(value: float) -> str:
    """Return a float64 exactly, without zeros that say nothing: `0x1.8p+1` is 3."""
    if math.isnan(value):
        return "nan"
    return _WORDS.get(value) or re.sub(r"\.?0*p", "p", value.hex())


def decimal(value: float) -> float | int | str:
    """Return a number with few bits as an exact JSON number; NaN and infinities as words."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return _WORDS[value]
    return int(value) if value == int(value) else value


def rounded_up(value: float) -> float:
    """Return the smallest number of two decimal digits that is not below `value` and a billionth more.

    The billionth keeps an allowance that is such a number itself, 0.25 say, from depending on how a machine rounds.
    """
    if value == 0:
        return 0.0
    exact = Decimal(value * (1 + 1e-9))
    step = Decimal((0, (1,), exact.adjusted() - 1))
    rounded = float(exact.quantize(step, rounding=ROUND_CEILING))
    return rounded if rounded >= value else math.nextafter(rounded, math.inf)


def file_of(recipe: Recipe) -> str:
    """Return the place of a vector below snapshots/."""
    return f"{FOLDERS[recipe.reference]}/{recipe.id}.json"


def text_of(proven: Proven) -> str:
    """Return the file of one vector."""
    recipe, sent = proven.recipe, proven.sent
    document = {
        "kind": "vector",
        "format": FORMAT,
        "id": recipe.id,
        "title": recipe.title,
        "reference": recipe.reference,
        "agreement": recipe.agreement,
        "conventions": conventions(recipe),
        "quirks": list(recipe.quirks),
        "dtypes": list(recipe.dtypes),
        "heads": recipe.heads,
        "inputs": {name: _inputs(tensor) for name, tensor in sent.tensors.items()},
        "mask": _mask(recipe, sent),
        "parameters": {name: _inputs(tensor) for name, tensor in sent.parameters.items()},
        "upstream": _inputs(sent.upstream),
        "expected": {name: _result(result) for name, result in proven.results.items() if name in ("output", "weights")},
        "gradients": {
            name: _result(result) for name, result in proven.results.items() if name not in ("output", "weights")
        },
    }
    return written(document)


def conventions(recipe: Recipe) -> dict[str, Any]:
    """Return the answers on which a vector depends, by the name of the convention."""
    setting: Setting = recipe.setting()
    found: dict[str, Any] = {"scale": setting.scale}
    if recipe.mask is not None and recipe.mask.content in ("empty row", "none"):
        found["empty_row"] = "uniform"
    if recipe.keys == 0:
        found["no_keys"] = "zeros"
    if recipe.mask is not None or (recipe.odd is not None and recipe.odd.form == "number"):
        found["mask_means"] = "attend"
    return found


def _inputs(tensor: Tensor) -> dict[str, Any]:
    rows = Rows([decimal(value) for value in tensor.double().reshape(-1).tolist()], _row(tuple(tensor.shape)))
    return {"shape": list(tensor.shape), "values": rows}


def _mask(recipe: Recipe, sent: Sent) -> dict[str, Any] | None:
    if sent.mask is None:
        return None
    same = [] if recipe.mask is None or recipe.odd is not None else list(recipe.mask.forms[1:])
    axes = "B" if sent.form == "lengths" else recipe.mask.axes if recipe.mask is not None else None
    whole = sent.mask.dtype.is_floating_point is False
    values = [value if whole else decimal(value) for value in sent.mask.reshape(-1).tolist()]
    rows = Rows(values, _row(tuple(sent.mask.shape)))
    return {"form": sent.form, "same_as": same, "axes": axes, "shape": list(sent.mask.shape), "values": rows}


def _result(result: Result) -> dict[str, Any]:
    """Return values and allowances; a profile whose allowances are those of `eager` has no list of its own."""
    allowed: dict[str, Rows] = {}
    for dtype, profiles in result.allowed.items():
        lists = {profile: [rounded_up(value) for value in values] for profile, values in profiles.items()}
        for profile, own in lists.items():
            if profile == "eager" or own != lists["eager"]:
                allowed[f"{dtype} {profile}"] = Rows(own, len(own) or 1, ",")
    values = Rows([hexadecimal(value) for value in result.values], _row(result.shape))
    return {"shape": list(result.shape), "values": values, "allowed": allowed}


def _row(shape: Sequence[int]) -> int:
    """Return how many numbers stand on one line: those along the last axis, eight at most."""
    return min(max(shape[-1], 1), 8) if shape else 1


def _short(number: Any) -> str:
    """Return a number or word as JSON, exponents without zeros in front: 1.8e-6."""
    return re.sub(r"e-0", "e-", json.dumps(number)) if isinstance(number, float) else json.dumps(number)


class Rows:
    """A flat list that is written with `width` numbers a line and `comma` between them."""

    def __init__(self, numbers: Iterable[Any], width: int, comma: str = ", ") -> None:
        self.numbers, self.width, self.comma = list(numbers), width, comma

    def text(self, indent: str) -> str:
        """Return the list as JSON: on one line if it is one row."""
        items = [_short(number) for number in self.numbers]
        lines = [self.comma.join(items[start : start + self.width]) for start in range(0, len(items), self.width)]
        if len(lines) < 2:
            return f"[{''.join(lines)}]"
        return "[\n" + ",\n".join(f"{indent} {line}" for line in lines) + f"\n{indent}]"


def written(value: Any, indent: str = "") -> str:
    """Return JSON with a space of indent a level; small lists of words and numbers stay on their line."""
    if isinstance(value, Rows):
        return value.text(indent)
    deeper = indent + " "
    if isinstance(value, Mapping) and value:
        parts = [f"{deeper}{json.dumps(name)}: {written(entry, deeper)}" for name, entry in value.items()]
        return "{\n" + ",\n".join(parts) + f"\n{indent}}}" + ("" if indent else "\n")
    if isinstance(value, list) and any(isinstance(entry, Mapping) for entry in value):
        return "[\n" + ",\n".join(f"{deeper}{json.dumps(entry)}" for entry in value) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=True)
