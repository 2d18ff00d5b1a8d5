"""Lines of a pasted script that load the implementation."""

from __future__ import annotations

import ast
import importlib.machinery
import inspect
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from ..adapters import Built
from ..bridges.modules import Projected
from ..implementation import Implementation


def load_lines(implementation: Implementation) -> list[str] | None:
    """Return lines that bind `attend`, and `call` where there is one."""
    target, call = implementation.target, implementation.call
    function = target.function if isinstance(target, Projected) else target
    lines = _built(target) if isinstance(target, Built) else _bind("attend", function)
    if lines is None or call is None:
        return lines
    called = _shown("call", call) or _bind("call", call) or _source_of_lambda(call)
    return None if called is None else lines + called


def _built(factory: Built) -> list[str] | None:
    target, build = _bind("target", factory.target), _shown("build", factory.build)
    if target is None or build is None:
        return None
    return [*target, *build, "def attend(d_model, heads):", "    return build(target, d_model, heads)"]


def _shown(name: str, function: Callable[..., Any]) -> list[str] | None:
    """Return the source of an adapter's function, which is self-contained, under `name`; None for any other one."""
    inner = function.func if isinstance(function, partial) else function
    if not str(getattr(inner, "__module__", "")).startswith("attention_conformance.adapters."):
        return None
    lines = inspect.getsource(inner).splitlines()
    if isinstance(function, partial):
        given = "".join(f", {key}={value!r}" for key, value in function.keywords.items())
        return [*lines, "from functools import partial", f"{name} = partial({inner.__name__}{given})"]
    return lines if inner.__name__ == name else [*lines, f"{name} = {inner.__name__}"]


def _bind(name: str, thing: object) -> list[str] | None:
    module, qualified = getattr(thing, "__module__", None), getattr(thing, "__qualname__", "<")
    if module is None or "<" in qualified:
        return None
    if module in sys.modules and _importable(module):
        first = qualified.split(".")[0]
        return [f"from {module} import {first}", *([f"{name} = {qualified}"] if qualified != name else [])]
    try:
        path = inspect.getfile(thing)  # type: ignore[arg-type]
    except (TypeError, OSError):
        return None
    return [
        "import importlib.util",
        f"spec = importlib.util.spec_from_file_location({module.split('.')[-1]!r}, {path!r})",
        "loaded = importlib.util.module_from_spec(spec); spec.loader.exec_module(loaded)",
        f"{name} = loaded.{qualified}",
    ]


def _importable(module: str) -> bool:
    """Say whether another process finds the same module by its name, as opposed to one that pytest loaded."""
    loaded = getattr(sys.modules[module], "__file__", None)
    try:
        # Not importlib.util.find_spec, which answers for modules that were loaded under a name of their own.
        spec = importlib.machinery.PathFinder.find_spec(module.split(".")[0])
    except (ImportError, ValueError):
        return False
    if spec is None or loaded is None:
        return spec is not None and module != "__main__"
    places = [spec.origin or "", *(spec.submodule_search_locations or [])]
    return any(place and loaded.startswith(place.removesuffix("__init__.py")) for place in places)


def _source_of_lambda(call: object) -> list[str] | None:
    """Return `call = lambda ...` cut out of the line that holds it, if that line can be read alone."""
    try:
        text = inspect.getsource(call).strip()  # type: ignore[arg-type]
    except (TypeError, OSError):
        return None
    start = text.find("lambda")
    for end in range(len(text), start, -1):
        candidate = text[start:end].rstrip(" ,")
        try:
            tree = ast.parse(candidate, mode="eval")
        except SyntaxError:
            continue
        # What follows the lambda in its line would make a tuple of it.
        if isinstance(tree.body, ast.Lambda):
            return [f"call = {candidate}"]
    return None
