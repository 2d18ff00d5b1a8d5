"""The golden vectors that ship with the suite: read from `attention_conformance.snapshots` and checked, never written.

Only the standard library is imported here, so a reader without torch can use it. The format is told in
`snapshots/README.md`; `golden_inputs` makes tensors of a vector.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.resources import files
from typing import Any

from ..errors import ConformanceError, nearest

PACKAGE = "attention_conformance.snapshots"
FORMAT = 1
"""The format that this reader knows."""


class InvalidGolden(ConformanceError, ValueError):
    """A golden vector is missing, changed, or of a format that this version does not know."""


@dataclass(frozen=True)
class Array:
    """Numbers in row-major order and the shape that they have."""

    shape: tuple[int, ...]
    values: tuple[float, ...]


@dataclass(frozen=True)
class Mask:
    """A mask as it is sent. `form` is `bool`, `number`, `additive` or `lengths`; `same_as` are the forms that say the
    same; `axes` is its shape in letters (B, H, L, S and 1), None where only the documents' code takes that shape."""

    form: str
    same_as: tuple[str, ...]
    axes: str | None
    array: Array


@dataclass(frozen=True)
class Expected:
    """One expected result and how far a result may be from it."""

    array: Array
    _allowed: Mapping[str, list[float]]

    def allowed(self, dtype: str, precision: str = "eager") -> tuple[float, ...]:
        """Return the largest error of each element in a dtype under a precision profile.

        A profile that is not listed rounds as `eager` does in that dtype. Raises KeyError for a dtype in which the
        vector does not hold.
        """
        return tuple(self._allowed.get(f"{dtype} {precision}", self._allowed[f"{dtype} eager"]))


@dataclass(frozen=True)
class Golden:
    """One vector.

    `agreement` is `must agree` (whoever has its `conventions` gives these numbers) or `may differ` (so answers the
    document's code, and sound code may answer otherwise). `quirks` are the ids of `reference.quirks` that it shows.
    """

    id: str
    title: str
    reference: str
    agreement: str
    conventions: Mapping[str, Any]
    quirks: tuple[str, ...]
    dtypes: tuple[str, ...]
    heads: int
    file: str
    _document: Mapping[str, Any]

    @cached_property
    def inputs(self) -> Mapping[str, Array]:
        """Query, key and value."""
        return {name: _array(part) for name, part in self._document["inputs"].items()}

    @cached_property
    def parameters(self) -> Mapping[str, Array]:
        """A module's `query.weight`, `query.bias` and so on; empty for a function."""
        return {name: _array(part) for name, part in self._document["parameters"].items()}

    @cached_property
    def mask(self) -> Mask | None:
        """The mask, None where there is none."""
        part = self._document["mask"]
        if part is None:
            return None
        return Mask(part["form"], tuple(part["same_as"]), part["axes"], _array(part))

    @cached_property
    def upstream(self) -> Array:
        """What the output is multiplied with before it is summed and differentiated."""
        return _array(self._document["upstream"])

    @cached_property
    def expected(self) -> Mapping[str, Expected]:
        """`output`, and `weights` where the reference returns them."""
        return {name: _expected(part) for name, part in self._document["expected"].items()}

    @cached_property
    def gradients(self) -> Mapping[str, Expected]:
        """The gradients of sum(output * upstream) by the name of what they belong to."""
        return {name: _expected(part) for name, part in self._document["gradients"].items()}


def number(written: float | str) -> float:
    """Return the float64 that a file holds: an exact JSON number, a hexadecimal float, `nan`, `inf` or `-inf`."""
    return float.fromhex(written) if isinstance(written, str) else float(written)


def _array(part: Mapping[str, Any]) -> Array:
    return Array(tuple(part["shape"]), tuple(map(number, part["values"])))


def _expected(part: Mapping[str, Any]) -> Expected:
    return Expected(_array(part), part["allowed"])


@lru_cache(maxsize=1)
def index() -> tuple[Mapping[str, Any], ...]:
    """Return the entries of the index: id, reference, agreement, title, file and checksum of every vector."""
    document = _parsed("index.json", _bytes("index.json"))
    entries: list[Mapping[str, Any]] = document["vectors"]
    return tuple(entries)


@lru_cache(maxsize=8)
def read(reference: str | None = None) -> tuple[Golden, ...]:
    """Return the vectors of one reference, or all, in the order of the index; each file is read once.

    Raises InvalidGolden where a file is missing or its checksum is not that of the index.
    """
    return tuple(_read(entry["id"]) for entry in index() if reference in (None, entry["reference"]))


def get(identifier: str) -> Golden:
    """Return one vector by its id. Raises InvalidGolden for an id that the index does not hold."""
    return _read(identifier)


@lru_cache(maxsize=1024)
def _read(identifier: str) -> Golden:
    entry = next((entry for entry in index() if entry["id"] == identifier), None)
    if entry is None:
        known = [entry["id"] for entry in index()]
        raise InvalidGolden(f"no golden vector is called {identifier!r}{nearest(identifier, known)}")
    content = _bytes(entry["file"])
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise InvalidGolden(
            f"{entry['file']} is not the file whose checksum the index holds. Golden vectors are read-only: "
            "install attention-conformance again."
        )
    document = _parsed(entry["file"], content)
    names = ("id", "title", "reference", "agreement", "conventions", "heads")
    fields: dict[str, Any] = {name: document[name] for name in names}
    fields |= {name: tuple(document[name]) for name in ("quirks", "dtypes")}
    return Golden(**fields, file=entry["file"], _document=document)


def check() -> list[str]:
    """Return a sentence for each file that is missing, changed or unknown; empty if all is well."""
    problems = []
    for entry in index():
        try:
            _read(entry["id"])
        except InvalidGolden as problem:
            problems.append(str(problem))
    known = {entry["file"] for entry in index()}
    folders = {name.split("/")[0] for name in known}
    for folder in sorted(folders):
        for path in files(PACKAGE).joinpath(folder).iterdir():
            if path.name.endswith(".json") and f"{folder}/{path.name}" not in known:
                problems.append(f"{folder}/{path.name} is not in the index")
    return problems


def _bytes(place: str) -> bytes:
    try:
        return files(PACKAGE).joinpath(*place.split("/")).read_bytes()
    except OSError as problem:
        raise InvalidGolden(f"the golden vectors lack {place}: install attention-conformance again") from problem


def _parsed(place: str, content: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(content)
    if document["format"] != FORMAT:
        raise InvalidGolden(f"{place} has format {document['format']}, and this version knows {FORMAT} only")
    return document
