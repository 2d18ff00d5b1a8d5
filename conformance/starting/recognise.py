"""Functions and modules that are attention by their arguments, and what is near and left out, with the reason."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .arguments import Definition, call_arguments, foreign_names, kernel_inputs, listed
from .findings import Findings, Found, Judged, LeftOut, Place
from .modules import Modules, dotted
from .scan import Source

FRAMEWORKS = ("torch", "jax", "numpy")
"""Frameworks with a bridge, in the order in which an import decides: code for JAX often imports numpy beside it."""

NEAR = 3
"""With more arguments that nobody knows, a backward pass say, a function is not told of."""

_OTHERS = frozenset(("tensorflow", "keras", "mlx", "paddle", "tinygrad", "mindspore"))
"""Frameworks without one."""


def recognise(sources: Sequence[Source]) -> Findings:
    """Look at every function and every class, in order."""
    modules, result = Modules(sources), Findings()
    for source in sources:
        for node, judged in _judged(modules, source):
            place = Place(source.path, node.lineno, node.name)
            problem = judged.problem or _unusable(source, node.name)
            if problem:
                result.left_out.append(LeftOut(place, problem))
            else:
                result.found.append(Found(place, source.module or "", judged, framework_of(source)))
    return result


def framework_of(source: Source) -> str:
    """Return the framework whose arrays a file works on, by what it imports."""
    return next((each for each in FRAMEWORKS if each in source.imported), FRAMEWORKS[0])


def _judged(modules: Modules, source: Source) -> Iterator[tuple[Definition | ast.ClassDef, Judged]]:
    seen: set[str] = set()
    for node in source.definitions:
        judged = modules.judge(source, node) if isinstance(node, ast.ClassDef) else judge_function(node)
        if judged is not None and node.name not in seen:
            seen.add(node.name)
            yield node, judged
        if not isinstance(node, ast.ClassDef):
            yield from _nested(node)


def _nested(outer: Definition) -> Iterator[tuple[Definition, Judged]]:
    for node in ast.walk(outer):
        if isinstance(node, ast.FunctionDef) and node is not outer:
            takes = kernel_inputs(call_arguments(node))
            if takes is not None:
                yield node, Judged("function", takes, f"it is defined inside {outer.name}; move it out to register it")


def judge_function(node: Definition) -> Judged | None:
    """Judge a function by its arguments; None if it is no attention."""
    arguments = call_arguments(node)
    takes = kernel_inputs(arguments)
    foreign = foreign_names(arguments, takes or ())
    decorators = {dotted(each).rpartition(".")[2] for each in node.decorator_list}
    if takes is None or len(foreign) > NEAR or "overload" in decorators:
        return None
    return Judged("function", takes, _function_problem(node, foreign))


def _function_problem(node: Definition, foreign: Sequence[str]) -> str:
    if any(dotted(each).startswith("triton.") for each in node.decorator_list):
        return "it is a Triton kernel; register the function that launches it"
    if isinstance(node, ast.AsyncFunctionDef):
        return "it is asynchronous; register a function that waits for it"
    if foreign:
        return f"nothing says what to pass for {listed(foreign)}; register it with call="
    return ""


def _unusable(source: Source, name: str) -> str:
    """Say what keeps a definition from being imported or judged, whatever it is."""
    if name.startswith("_"):
        return "its name is private"
    if source.module is None:
        return "its path is no name that Python can import"
    others = sorted(source.imported & _OTHERS)
    if others and "torch" not in source.imported:
        return (
            f"it works on arrays of {others[0]}, for which there is no bridge; register a function that converts them"
        )
    return ""
