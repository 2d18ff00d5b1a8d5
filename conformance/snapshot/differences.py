"""What differs between a value and the pinned one, in numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .encoding import EXACT

Encoded = Any
Tolerances = Mapping[str, Mapping[str, float]]
Floats = NDArray[np.float64]


def differences(found: Encoded, pinned: Encoded, stated: Tolerances, place: str = "") -> Iterator[str]:
    """Yield a line for each entry of an encoded value that is not as pinned, under the `stated` tolerances.

    dtype, shape and the places of NaN and infinity are compared exactly, whole numbers and texts too. Raises ValueError
    where the pinned value itself is damaged.
    """
    if _is_tensor(found) and _is_tensor(pinned):
        yield from _tensors(found, pinned, stated, place or "the value")
    elif _is_plain_dict(found) and _is_plain_dict(pinned):
        yield from _dicts(found, pinned, stated, place)
    elif isinstance(found, list) and isinstance(pinned, list) and len(found) == len(pinned):
        for position, (one, other) in enumerate(zip(found, pinned, strict=True)):
            yield from differences(one, other, stated, _below(place, str(position)))
    elif _is_float(found) and _is_float(pinned):
        yield from _floats(_number(found), _number(pinned), stated["float"], place or "the value")
    elif type(found) is not type(pinned) or found != pinned:
        yield f"{place or 'the value'}: {told(found)}, pinned {told(pinned)}"


def told(encoded: Encoded) -> str:
    """Return an encoded value in a few words."""
    if _is_tensor(encoded):
        return f"{encoded['$tensor']} of shape {tuple(encoded['shape'])}"
    if isinstance(encoded, dict) and "$float" in encoded:
        return str(encoded["$float"])
    if isinstance(encoded, dict):
        return f"a dict of {', '.join(map(_unescaped, encoded)) or 'nothing'}"
    if isinstance(encoded, list):
        return f"a list of {len(encoded)}"
    text = repr(encoded)
    return text if len(text) <= 200 else f"{text[:200]} ..."


def _is_tensor(encoded: Encoded) -> bool:
    return isinstance(encoded, dict) and "$tensor" in encoded


def _is_plain_dict(encoded: Encoded) -> bool:
    return isinstance(encoded, dict) and not {"$tensor", "$float"} & set(encoded)


def _is_float(encoded: Encoded) -> bool:
    return isinstance(encoded, float) or (isinstance(encoded, dict) and "$float" in encoded)


def _number(encoded: Encoded) -> float:
    return float(encoded["$float"] if isinstance(encoded, dict) else encoded)


def _below(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _unescaped(name: str) -> str:
    return name.removeprefix("$")


def _dicts(found: Encoded, pinned: Encoded, stated: Tolerances, place: str) -> Iterator[str]:
    for name in {**pinned, **found}:
        below = _below(place, _unescaped(name))
        if name not in found:
            yield f"{below}: missing, pinned {told(pinned[name])}"
        elif name not in pinned:
            yield f"{below}: {told(found[name])}, nothing is pinned under this name"
        else:
            yield from differences(found[name], pinned[name], stated, below)


def _floats(value: float, expected: float, tolerance: Mapping[str, float], place: str) -> Iterator[str]:
    error, allowed = _error(np.array(value), np.array(expected), tolerance)
    if not error <= allowed:
        yield f"{place}: {_numbers(value, expected, float(error), float(allowed))}"


def _tensors(found: Encoded, pinned: Encoded, stated: Tolerances, place: str) -> Iterator[str]:
    if found["$tensor"] != pinned["$tensor"]:
        yield f"{place}: dtype {found['$tensor']}, pinned {pinned['$tensor']}"
    if list(found["shape"]) != list(pinned["shape"]):
        yield f"{place}: shape {tuple(found['shape'])}, pinned {tuple(pinned['shape'])}"
    elif found["$tensor"] == pinned["$tensor"]:
        compare = _exact_elements if found["$tensor"] in EXACT else _near_elements
        yield from compare(found, pinned, stated, place)


def _exact_elements(found: Encoded, pinned: Encoded, stated: Tolerances, place: str) -> Iterator[str]:
    values, expected = _flat(found, place), _flat(pinned, place)
    differing = [at for at, (one, other) in enumerate(zip(values, expected, strict=True)) if one != other]
    if differing:
        first = differing[0]
        yield (
            f"{place}: {len(differing)} of {len(values)} elements differ, the first at "
            f"{_index(first, found['shape'])}: {values[first]}, pinned {expected[first]}"
        )


def _near_elements(found: Encoded, pinned: Encoded, stated: Tolerances, place: str) -> Iterator[str]:
    values, expected = (np.array([float(one) for one in _flat(each, place)]) for each in (found, pinned))
    moved = np.isnan(values) != np.isnan(expected)
    if moved.any():
        first = int(moved.argmax())
        yield (
            f"{place}: NaN at {int(np.isnan(values).sum())} of {values.size} elements, pinned at "
            f"{int(np.isnan(expected).sum())}; the first difference is at {_index(first, found['shape'])}: "
            f"{_shown(values[first])}, pinned {_shown(expected[first])}"
        )
        return
    tolerance = stated[found["$tensor"]]
    error, allowed = _error(values, expected, tolerance)
    beyond = error > allowed
    if beyond.any():
        worst = _worst(error, allowed)
        numbers = _numbers(values[worst], expected[worst], error[worst], allowed[worst])
        yield (
            f"{place}: {int(beyond.sum())} of {values.size} elements are beyond the tolerance, the worst at "
            f"{_index(worst, found['shape'])}: {numbers} "
            f"({found['$tensor']}: atol {tolerance['atol']:g} + rtol {tolerance['rtol']:g} * |pinned|)"
        )


def _error(values: Floats, expected: Floats, tolerance: Mapping[str, float]) -> tuple[Floats, Floats]:
    """Return error and allowance; equal infinities, and NaN beside NaN, have no error, and nothing excuses another."""
    same = (values == expected) | (np.isnan(values) & np.isnan(expected))
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.where(same, 0.0, np.nan_to_num(np.abs(values - expected), nan=math.inf, posinf=math.inf))
        allowed = tolerance["atol"] + tolerance["rtol"] * np.abs(expected)
    return error, np.where(np.isfinite(allowed), allowed, tolerance["atol"])


def _worst(error: Floats, allowed: Floats) -> int:
    """Return the element that is farthest beyond its allowance, which may be zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(error == 0, 0.0, error / allowed)
    return int(ratio.argmax())


def _numbers(value: float, expected: float, error: float, allowed: float) -> str:
    return f"{_shown(value)}, pinned {_shown(expected)}, error {error:.3g}, allowed {allowed:.3g}"


def _shown(value: float) -> str:
    return f"{value:.9g}"


def _flat(encoded: Encoded, place: str) -> list[Any]:
    """Return the elements of an encoded tensor in order. Raises ValueError where they do not fill its shape."""
    flat, shape = [encoded.get("values")], list(encoded.get("shape", []))
    for size in shape:
        if not all(isinstance(each, list) and len(each) == size for each in flat):
            raise ValueError(f"the values of {place} do not fill the shape {tuple(shape)}")
        flat = [entry for each in flat for entry in each]
    if any(isinstance(entry, (list, dict, type(None))) for entry in flat):
        raise ValueError(f"the values of {place} do not fill the shape {tuple(shape)}")
    return flat


def _index(flat: int, shape: list[int]) -> tuple[int, ...]:
    return tuple(int(each) for each in np.unravel_index(flat, tuple(shape)))
