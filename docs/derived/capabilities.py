"""What `register` takes: the fields of `Capabilities`, their docstrings, defaults and vocabularies."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from itertools import pairwise

from attention_conformance import Capabilities
from attention_conformance.capabilities import FIELDS, SETS, VOCABULARY
from tests.survey.markdown import code, table


def page(source: type = Capabilities) -> str:
    """Return a table with a line for each field."""
    told = dict(docstrings(source))
    rows = [(code(name), values(name), code(repr(getattr(Capabilities(), name))), told[name]) for name in FIELDS]
    return table(("capability", "values", "default", "meaning and consequence"), rows)


def docstrings(source: type) -> Iterator[tuple[str, str]]:
    """Yield each field of a class with the string below it."""
    [found] = ast.parse(inspect.cleandoc(inspect.getsource(source))).body
    assert isinstance(found, ast.ClassDef)
    for field, text in pairwise(found.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(text, ast.Expr):
            assert isinstance(text.value, ast.Constant)
            yield field.target.id, str(text.value.value)


def values(name: str) -> str:
    """Return the closed vocabulary of a field, where it has one."""
    words = VOCABULARY.get(name) or SETS.get(name) or ()
    return ("any of " if name in SETS else "") + ", ".join(code(repr(word)) for word in words)
