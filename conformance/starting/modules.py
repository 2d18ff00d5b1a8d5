"""Classes that are attention modules by the arguments of their call and of their constructor.

Bases are followed through the whole repository by name: a call or a constructor is often inherited.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .arguments import (
    Arguments,
    Definition,
    built_arguments,
    foreign_names,
    forward_arguments,
    kernel_inputs,
    listed,
    module_inputs,
)
from .findings import Judged
from .scan import ATTENTION, Source

_WORDS = ("softmax", "scaled_dot_product", "flash_attn", "memory_efficient_attention")
"""What the body of such a class speaks of, whatever its name."""

_OTHER_MODULES = frozenset(("jax", "flax", "haiku", "equinox"))
"""Frameworks whose modules end in Module as well."""

_PLAIN = frozenset(("heads", "head_width", "width", "kv_heads", "other_width", "batch_first", "length", "dropout"))
"""Roles of constructor arguments for which a number is known."""

_AS_KERNEL = "if its instances are kernels, register one: register({name}(...))"
_BY_FUNCTION = 'write a function that builds it from a width and a number of heads: register(build, reference="MultiHeadAttention")'


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` of an expression, of a call or a subscript what is called or subscripted; "" for anything else."""
    names: list[str] = []
    while isinstance(node, (ast.Attribute, ast.Call, ast.Subscript)):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        node = node.func if isinstance(node, ast.Call) else node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


class Modules:
    """All classes of a repository."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._classes: dict[str, list[tuple[Source, ast.ClassDef]]] = {}
        for source in sources:
            for node in source.definitions:
                if isinstance(node, ast.ClassDef):
                    self._classes.setdefault(node.name, []).append((source, node))

    def judge(self, source: Source, node: ast.ClassDef) -> Judged | None:
        """Judge a class by its arguments; None if it is no attention."""
        line = tuple(self._line(source, node))
        forward = _method(line, "forward") or _method(line, "__call__")
        if forward is None or not (forward.args.posonlyargs or forward.args.args):
            return None
        arguments = forward_arguments(forward)
        takes = module_inputs(arguments)
        is_module = any(base.endswith("Module") for each in line for base in _bases(each))
        if takes is None or not (len(takes) == 3 or (is_module and _speaks_of_attention(node))):
            return None
        problem = _class_problem(source, line, forward, is_module) or _foreign(arguments, takes)
        if problem:
            return Judged("module", takes, problem)
        return _judge_constructor(node, line, takes, kernel_inputs(arguments) is not None)

    def _line(self, source: Source, node: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """Yield a class and its bases, as far as the repository holds them, the nearest first."""
        waiting, seen = [(source, node)], {id(node)}
        while waiting:
            source, node = waiting.pop(0)
            yield node
            for base in _bases(node):
                known = self._classes.get(base.rpartition(".")[2], ())
                # Of several with that name, the one in the same file is meant.
                for found in sorted(known, key=lambda each: each[0] is not source)[:1]:
                    if id(found[1]) not in seen:
                        seen.add(id(found[1]))
                        waiting.append(found)


def _bases(node: ast.ClassDef) -> list[str]:
    return [dotted(base) for base in node.bases]


def _method(line: Sequence[ast.ClassDef], name: str) -> Definition | None:
    methods = (each for node in line for each in node.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return next((each for each in methods if each.name == name), None)


def _speaks_of_attention(node: ast.ClassDef) -> bool:
    """Say whether the name or the body of a class does: blocks and whole models have a width and heads as well."""
    if any(word in node.name.lower() for word in ATTENTION):
        return True
    named = [each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)]
    named += [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    return any(word in name.lower() for name in named for word in _WORDS)


def _class_problem(source: Source, line: Sequence[ast.ClassDef], forward: Definition, is_module: bool) -> str:
    """Say why a class is no torch module that can be built."""
    node = line[0]
    if any(base.endswith("autograd.Function") or base == "Function" for base in _bases(node)):
        return "it is an autograd function; register the function that calls its apply"
    if not is_module:
        return f"no base of it is a torch module; {_AS_KERNEL.format(name=node.name)}"
    if source.imported & _OTHER_MODULES and "torch" not in source.imported:
        return (
            "it is a module of another framework; register a function of its parameters: register(projected(function))"
        )
    if _is_abstract(node, forward):
        return "it is abstract; register what derives from it"
    return ""


def _is_abstract(node: ast.ClassDef, forward: Definition) -> bool:
    marks = [dotted(each) for part in node.body if isinstance(part, ast.FunctionDef) for each in part.decorator_list]
    last = forward.body[-1]
    raises = isinstance(last, ast.Raise) and last.exc is not None and dotted(last.exc) == "NotImplementedError"
    return raises or any(mark.rpartition(".")[2] == "abstractmethod" for mark in marks)


def _foreign(arguments: Arguments, takes: Sequence[str]) -> str:
    foreign = foreign_names(arguments, takes)
    return f"nothing says what to pass for {listed(foreign)} in its call; register it with call=" if foreign else ""


def _judge_constructor(
    node: ast.ClassDef, line: Sequence[ast.ClassDef], takes: tuple[str, ...], kernel: bool
) -> Judged:
    """Judge how a module is built: from a width and a number of heads, or else as a kernel without parameters."""
    constructor = _method(line, "__init__")
    if constructor is None:
        bases = {base.rpartition(".")[2] for each in line for base in _bases(each)}
        if kernel and bases <= {"Module", *(each.name for each in line)}:
            return Judged("module", takes, built="")
        return Judged("module", takes, f"its constructor is not in this folder; {_BY_FUNCTION}")
    built = built_arguments(constructor)
    sized = {one.role for one in built.each if one.role != "width" or one.required or one.has_number}
    unknown = built.unknown(_PLAIN)
    if built.takes_any or ("width" in sized and sized & {"heads", "head_width"} and not unknown):
        return Judged("module", takes)
    if kernel and not built.unknown(("dropout",)):
        return Judged("module", takes, built=_without_dropout(built))
    return Judged("module", takes, _constructor_problem(node, built, unknown, kernel))


def _without_dropout(built: Arguments) -> str:
    rates = (one for one in built.each if one.role == "dropout" and (one.required or one.has_number))
    return ", ".join(f"{one.name}=0.0" for one in rates)


def _constructor_problem(node: ast.ClassDef, built: Arguments, unknown: Sequence[str], kernel: bool) -> str:
    if any(one.role == "config" for one in built.required):
        return f"its constructor takes a configuration; {_BY_FUNCTION}"
    if kernel and not built.roles & {"width", "heads"}:
        needed = listed([one.name for one in built.required])
        return f"its constructor takes {needed} and no width or heads; {_AS_KERNEL.format(name=node.name)}"
    if unknown:
        return f"nothing says what its constructor gets for {listed(unknown)}; {_BY_FUNCTION}"
    return f"it is built without a number of heads; {_BY_FUNCTION}"
