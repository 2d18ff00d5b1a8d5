"""What a pin file holds: a value, the tolerance under which it is compared, and what it was pinned with.

    {
      "format": "attention-conformance pin 1",
      "pinned_with": {"attention_conformance": "0.1.0", "numpy": "2.4.6", "torch": "2.13.0"},
      "tolerance": {"fp32": {"rtol": 1e-05, "atol": 1e-06}},
      "value": {
        "output": {"$tensor": "fp32", "shape": [1, 2], "values": [[0.25, "nan"]]},
        "empty_row": "zeros"
      }
    }

A float is the shortest decimal that gives the same bits in its dtype; what JSON has no number for is a string there.
`pinned_with` is told where a difference is explained, and never compared.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, cast

import numpy as np

from ..errors import ConformanceError
from ..version import __version__

FORMAT = "attention-conformance pin 1"

Filter = Callable[..., bool]
Path = tuple[tuple[Any, type[Any]], ...]


class UnsupportedPin(ConformanceError, TypeError):
    """A value that a pin file cannot hold."""


class Tolerance(NamedTuple):
    """A number may be `atol + rtol * |pinned|` away from the pinned one."""

    rtol: float
    atol: float


TOLERANCES: Mapping[str, Tolerance] = {
    "fp64": Tolerance(1e-12, 1e-12),
    "fp32": Tolerance(1e-5, 1e-6),
    "bf16": Tolerance(3e-2, 1e-2),
    "fp16": Tolerance(4e-3, 1e-3),
    "float": Tolerance(1e-9, 1e-12),
}
"""Per dtype, and for a plain `float`. Wide enough for sums in the order of another machine, for values about 1."""

FLOATS = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}
EXACT = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
"""dtypes whose elements are compared exactly."""


def document(
    value: Any,
    tolerances: Mapping[str, Tolerance],
    *,
    matcher: Callable[..., Any] | None = None,
    include: Filter | None = None,
    exclude: Filter | None = None,
) -> dict[str, Any]:
    """Return what the file of a value holds.

    `matcher`, `include` and `exclude` are syrupy's: they replace values, and leave out entries of dicts. Raises
    UnsupportedPin.
    """
    encoded = _Encoder(matcher, include, exclude).encode(value, ())
    return {
        "format": FORMAT,
        "pinned_with": versions(),
        "tolerance": {name: tolerances[name]._asdict() for name in sorted(inexact(encoded))},
        "value": encoded,
    }


def versions() -> dict[str, str]:
    """Return the versions of what results depend on, as far as it is in use."""
    found = {"attention_conformance": __version__, "numpy": np.__version__}
    if "torch" in sys.modules:
        found["torch"] = str(sys.modules["torch"].__version__)
    return found


class _Encoder:
    def __init__(self, matcher: Callable[..., Any] | None, include: Filter | None, exclude: Filter | None) -> None:
        self._matcher, self._include, self._exclude = matcher, include, exclude

    def encode(self, value: Any, path: Path) -> Any:
        if self._matcher is not None:
            value = self._matcher(data=value, path=path)
        if value is None or (isinstance(value, (bool, int, str)) and type(value).__module__ == "builtins"):
            return value
        if isinstance(value, float) and type(value) is float:
            return value if math.isfinite(value) else {"$float": _word(value)}
        if isinstance(value, Mapping):
            return self._mapping(value, path)
        if isinstance(value, (list, tuple)):
            return [self.encode(entry, (*path, (place, type(entry)))) for place, entry in enumerate(value)]
        return tensor(value, path)

    def _mapping(self, value: Mapping[Any, Any], path: Path) -> dict[str, Any]:
        encoded = {}
        for key, entry in value.items():
            if not isinstance(key, str):
                raise UnsupportedPin(
                    f"{place_of(path)} has the key {key!r}; the keys of what is pinned are strings; convert them first."
                )
            if self._exclude is not None and self._exclude(prop=key, path=path):
                continue
            if self._include is not None and not self._include(prop=key, path=path):
                continue
            # A dollar sign in front marks what a tensor is written with.
            name = f"${key}" if key.startswith("$") else key
            encoded[name] = self.encode(entry, (*path, (key, type(entry))))
        return encoded


def tensor(value: Any, path: Path = ()) -> dict[str, Any]:
    """Return a torch tensor, a numpy array or a numpy scalar as dtype, shape and nested values.

    Raises UnsupportedPin for anything else and for dtypes without an exact decimal form here.
    """
    name, array = _array(value, path)
    if name in EXACT:
        return {"$tensor": name, "shape": list(array.shape), "values": array.tolist()}
    flat = [float(str(element)) for element in array.reshape(-1)]
    written = [entry if math.isfinite(entry) else _word(entry) for entry in flat]
    return {"$tensor": name, "shape": list(array.shape), "values": _nested(written, array.shape)}


def _array(value: Any, path: Path) -> tuple[str, Any]:
    """Return the name of the dtype and an array of numpy, which knows no bf16: fp32 holds those values."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        name = str(value.dtype).removeprefix("torch.")
        _require_dtype(name, path)
        plain = value.detach().to("cpu")
        if plain.layout != torch.strided:
            plain = plain.to_dense()
        return FLOATS.get(name, name), (plain.float() if name == "bfloat16" else plain).numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        name = value.dtype.name
        _require_dtype(name, path)
        array = np.asarray(value)
        return FLOATS.get(name, name), array.astype(np.float32) if name == "bfloat16" else array
    raise UnsupportedPin(
        f"{place_of(path)} is a {type(value).__name__}. A pin holds tensors, numpy arrays, numbers, texts, None, and "
        "lists and dicts of them; convert it first."
    )


def _require_dtype(name: str, path: Path) -> None:
    if name not in FLOATS and name not in EXACT:
        known = ", ".join((*FLOATS, *EXACT))
        raise UnsupportedPin(f"{place_of(path)} has dtype {name}; convert it to one of {known} first.")


def _word(value: float) -> str:
    return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"


def _nested(flat: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return flat[0]
    size = math.prod(shape[1:])
    return [_nested(flat[place * size : (place + 1) * size], shape[1:]) for place in range(shape[0])]


def inexact(encoded: Any) -> set[str]:
    """Return the dtypes in an encoded value that need a tolerance."""
    if isinstance(encoded, float):
        return {"float"}
    if isinstance(encoded, list):
        return set().union(*map(inexact, encoded))
    if not isinstance(encoded, dict):
        return set()
    if "$float" in encoded:
        return {"float"}
    if "$tensor" in encoded:
        return {encoded["$tensor"]} - set(EXACT)
    return set().union(*map(inexact, encoded.values()))


def place_of(path: Path) -> str:
    """Return a place inside a value as text: `output`, `layers.0.output`; `the value` for the whole."""
    return ".".join(str(key) for key, _ in path) or "the value"


def to_text(entry: Any) -> str:
    """Return JSON whose innermost lists stand on one line each, ending with a line break."""
    return _text(entry, "") + "\n"


def _text(entry: Any, indent: str) -> str:
    inner = indent + "  "
    if isinstance(entry, dict) and entry and not _is_flat(entry.values()):
        lines = [f"{inner}{_plain(key)}: {_text(value, inner)}" for key, value in entry.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(entry, list) and entry and not _is_flat(entry):
        return "[\n" + ",\n".join(f"{inner}{_text(value, inner)}" for value in entry) + f"\n{indent}]"
    return _plain(entry)


def _is_flat(entries: Any) -> bool:
    """Say whether entries fit on one line: a row of numbers, a tolerance."""
    found = list(entries)
    return all(isinstance(entry, (int, float)) or entry in ("nan", "inf", "-inf") for entry in found)


def _plain(entry: Any) -> str:
    return json.dumps(entry, ensure_ascii=False, allow_nan=False)


def from_text(text: str) -> dict[str, Any]:
    """Return what a file holds. Raises ValueError saying what is wrong with it."""
    found = json.loads(text)
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        format_ = found.get("format") if isinstance(found, dict) else None
        raise ValueError(f"its format is {format_!r}, this version reads {FORMAT!r}")
    for name in ("tolerance", "value"):
        if name not in found:
            raise ValueError(f"it has no {name!r}")
    for name in inexact(found["value"]):
        _require_tolerance(name, found["tolerance"])
    return cast("dict[str, Any]", found)


def _require_tolerance(name: str, stated: Any) -> None:
    entry = stated.get(name) if isinstance(stated, dict) else None
    if not isinstance(entry, dict) or set(entry) != set(Tolerance._fields):
        raise ValueError(f"it states no tolerance for {name}; write {{'rtol': 1e-05, 'atol': 1e-06}}")
    if not all(isinstance(number, (int, float)) and 0 <= number < math.inf for number in entry.values()):
        raise ValueError(f"its tolerance for {name} is {entry}, which is no pair of finite numbers")
