"""Which of the things that came back is the output, and which the second result."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor

from ..foreign.edge import WrongResult, safe
from .names import is_output, is_second

_MOST = 12
"""So many results are listed in an error."""


class Found(NamedTuple):
    """The output, the second result, and the Python that picks the output out of what was returned."""

    output: Tensor
    second: Tensor | None
    pick: str


def split(returned: object, second: str | None, call: str) -> Found:
    """Return the output and the second result.

    A tensor is the output; a tuple or list starts with it, and what comes second is the second result if it is a tensor.
    In a dictionary, named tuple, dataclass or other object both are told by their names; a single tensor is the output.
    `second` is the declared kind of the second result, `call` the suggestion for errors.

    Raises WrongResult where no output is found, or several.
    """
    if isinstance(returned, Tensor):
        return Found(returned, None, "")
    named = _named(returned)
    if named:
        output = _output(named)
        if output is not None:
            return Found(named[output], _second(named, output, second), _pick(returned, output))
    if isinstance(returned, (tuple, list)) and returned and isinstance(returned[0], Tensor):
        other = returned[1] if len(returned) > 1 else None
        return Found(returned[0], other if isinstance(other, Tensor) else None, "[0]")
    raise WrongResult(_told(returned, call))


def _named(returned: object) -> dict[str, Any]:
    """Return the tensors that came back under a name."""
    return {name: value for name, value in _entries(returned).items() if isinstance(value, Tensor)}


def _entries(returned: object) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        return {name: returned[name] for name in returned if isinstance(name, str)}
    if isinstance(returned, tuple):
        return {name: getattr(returned, name) for name in getattr(returned, "_fields", ())}
    if dataclasses.is_dataclass(returned):
        return {field.name: getattr(returned, field.name, None) for field in dataclasses.fields(returned)}
    return dict(getattr(returned, "__dict__", {}))


def _output(named: Mapping[str, Tensor]) -> str | None:
    hits = [name for name in named if is_output(name)]
    if not hits and len(named) == 1:
        hits = [name for name in named if not (is_second(name, "weights") or is_second(name, "lse"))]
    return hits[0] if len(hits) == 1 else None


def _second(named: Mapping[str, Tensor], output: str, declared: str | None) -> Tensor | None:
    """Return the second result of the declared kind, or of any kind where none is declared; the first that fits."""
    kinds = ("lse",) if declared in ("lse", "lse2") else ("weights",) if declared else ("weights", "lse")
    hits = [name for kind in kinds for name in named if name != output and is_second(name, kind)]
    return named[hits[0]] if hits else None


def _pick(returned: object, name: str) -> str:
    return f"[{name!r}]" if isinstance(returned, Mapping) else f".{name}"


def _told(returned: object, call: str) -> str:
    kind = safe(type(returned).__name__)
    positions = (
        {f"[{number}]": each for number, each in enumerate(returned)} if isinstance(returned, (tuple, list)) else {}
    )
    entries = positions or {_pick(returned, name): value for name, value in _entries(returned).items()}
    if not entries:
        return f"it returned {kind}, which holds no tensor; return one, or make one: {call}..."
    lines = [f"    {safe(name, 60)}  {_described(value)}" for name, value in list(entries.items())[:_MOST]]
    tensors = [name for name, value in entries.items() if isinstance(value, Tensor)]
    several = "several tensors, and no name says" if len(tensors) > 1 else "nothing that says"
    return (
        f"it returned {kind} with {several} which is the output:\n"
        + "\n".join(lines)
        + f"\n  pick it: {call}{safe(tensors[0], 60) if tensors else '[...]'}"
    )


def _described(value: object) -> str:
    kind = safe(type(value).__name__, 60)
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is None:
        return kind
    return safe(f"{kind} {tuple(shape) if hasattr(shape, '__iter__') else shape} {dtype}", 120)
