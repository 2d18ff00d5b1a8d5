"""The first test module: its text, and the names of the implementations in it."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import ConformanceError
from ..foreign.edge import safe
from .findings import Found
from .layout import HIDING


class ModuleExists(ConformanceError, FileExistsError):
    """The test module that is to be written is there already."""


WIDTH = 88
"""Columns of a line: what formatters leave alone."""

_HEAD = '''"""Attention, held to its plain definition: one test for each rule and dtype."""

from attention_conformance import register

'''


def module_text(found: Sequence[Found]) -> str:
    """Return the test module that registers what was found."""
    return f"{_HEAD}{imports(found)}\n{registrations(found)}"


def create(path: Path, found: Sequence[Found]) -> None:
    """Write the test module to a new file. Raises ModuleExists, or OSError for a place that cannot be written."""
    if os.path.lexists(path):
        raise ModuleExists(
            f"{safe(path.as_posix())} exists and is left as it is. Add to it what is new of the lines above, or name "
            "another file: --output FILE."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("x", encoding="utf-8", newline="\n") as file:
        file.write(module_text(found))


def imports(found: Sequence[Found]) -> str:
    """Return the lines that import what was found."""
    return "".join(f"import {module}\n" for module in sorted({each.module for each in found}, key=_import_order))


def registrations(found: Sequence[Found]) -> str:
    """Return the lines that register what was found."""
    return "".join(_registration(name, each) for name, each in variables(found).items())


def _import_order(module: str) -> list[str | int]:
    """Order as ruff and isort do: without regard to case, and numbers by their size."""
    return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", module.lower())]


def _registration(name: str, each: Found) -> str:
    arguments = each.registered
    if each.framework != "torch":
        arguments += f', framework="{each.framework}"'
    line = f"{name} = register({arguments})\n"
    return line if len(line) <= WIDTH + 1 else f"{name} = register(\n    {arguments}\n)\n"


def variables(found: Sequence[Found]) -> Mapping[str, Found]:
    """Return what was found under the names that test ids show: the target's own, with its module's where that is not enough."""
    plain = Counter(_snake(each.place.name) for each in found)
    taken = {HIDING, *(each.module.partition(".")[0] for each in found)}
    named: dict[str, Found] = {}
    for each in found:
        name = _snake(each.place.name)
        if plain[name] > 1:
            name = f"{_snake(each.module.rpartition('.')[2])}_{name}"
        if name in taken:
            name = f"{name}_{each.judged.kind}"
        named[_unused(name, taken | named.keys())] = each
    return named


def _unused(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


def _snake(name: str) -> str:
    """Return a name in lower case, its words apart: MultiHeadAttention as multi_head_attention."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return apart.lower().strip("_")
