"""What `register` takes: the fields of `Capabilities`, their docstrings, defaults and vocabularies."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise

from attention_conformance import Capabilities
from attention_conformance.capabilities import FIELDS, SETS, VOCABULARY
from tests.survey.markdown import code


def page(source: type = Capabilities) -> str:
    """Return a section for each field."""
    told = dict(docstrings(source))
    return "\n".join(f"### {code(name)}\n\n{told[name]}\n\n{choice(name)}\n" for name in FIELDS)


def docstrings(source: type) -> Iterator[tuple[str, str]]:
    """Yield each field of a class with the string below it."""
    [found] = ast.parse(inspect.cleandoc(inspect.getsource(source))).body
    assert isinstance(found, ast.ClassDef)
    for field, text in pairwise(found.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            assert isinstance(text.value, ast.Constant)
            yield field.target.id, str(text.value.value)


def choice(name: str) -> str:
    """Return the closed vocabulary of a field, where it has one, and its default."""
    words = ", ".join(code(repr(word)) for word in VOCABULARY.get(name) or SETS.get(name) or ())
    listed = f"- {'any of' if name in SETS else 'one of'}: {words}\n" if words else ""
    return f"{listed}- default: {code(repr(getattr(Capabilities(), name)))}"
