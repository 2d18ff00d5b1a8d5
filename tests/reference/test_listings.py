"""The listings are the documents' bytes, their stubs describe them, and the package hands them out lazily."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from importlib.resources import files

import pytest

from tests.reference.listings import listing_bytes

# Of the code as the documents print it, trailing blanks included, and one newline at the end.
DIGESTS = {
    "attention": "fc77183c1bda44d396e26582cb156b01ab654da56c6ba1617e0d82441140f5d7",
    "self_attention": "80ba8375c205edf9f66a022c04f24640153ecbee56df6edfef610ede6db379b1",
}

LAZY = """
import sys
import attention_conformance.reference as reference
import attention_conformance.reference.quirks
assert "torch" not in sys.modules, "importing the package imported torch"
assert {"MultiHeadAttention", "SelfAttention", "attention", "self_attention", "quirks"} <= set(dir(reference))
"""
CLASS_FIRST = """
import attention_conformance.reference as reference
assert reference.MultiHeadAttention(8, 2).d_k == 4 and reference.SelfAttention(8, 2).head_dim == 4
"""
FUNCTION_FIRST = """
from attention_conformance.reference.attention import attention
import attention_conformance.reference as reference
assert callable(attention)
"""
ATTRIBUTE_FIRST = """
import attention_conformance.reference as reference
"""
ALWAYS_THE_MODULE = """
import types
assert isinstance(reference.attention, types.ModuleType)
assert callable(reference.attention.attention)
from attention_conformance.reference import attention as imported
assert imported is reference.attention
"""


@pytest.mark.parametrize("name", DIGESTS)
def test_listing_is_the_documents_own(name: str) -> None:
    assert hashlib.sha256(listing_bytes(name)).hexdigest() == DIGESTS[name]


def _signatures(source: str) -> dict[str, list[tuple[str, bool]]]:
    """Map each function of `source` to its parameters, each with whether it has a default."""
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            names = [argument.arg for argument in node.args.args]
            required = len(names) - len(node.args.defaults)
            found[node.name] = [(name, index >= required) for index, name in enumerate(names)]
    return found


def _attributes(source: str) -> set[str]:
    """Return the names set on `self`, or declared in a class body."""
    nodes = list(ast.walk(ast.parse(source)))
    stored = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)}
    declared = {n.target.id for n in nodes if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)}
    return stored | declared


@pytest.mark.parametrize("name", DIGESTS)
def test_stub_describes_its_listing(name: str) -> None:
    stub = (files("attention_conformance.reference") / f"{name}.pyi").read_text(encoding="utf-8")
    listing = listing_bytes(name).decode()
    described = _signatures(stub)
    assert described.pop("__call__") == described["forward"]
    assert described == _signatures(listing)
    assert _attributes(stub) == _attributes(listing)


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(LAZY, id="torch is not imported"),
        pytest.param(CLASS_FIRST + ALWAYS_THE_MODULE, id="after a class"),
        pytest.param(FUNCTION_FIRST + ALWAYS_THE_MODULE, id="after the function"),
        pytest.param(ATTRIBUTE_FIRST + ALWAYS_THE_MODULE, id="at once"),
    ],
)
def test_package_is_lazy_and_its_attention_is_the_module(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_name_that_the_package_lacks_is_refused_with_those_it_has() -> None:
    import attention_conformance.reference as reference

    with pytest.raises(AttributeError, match=r"'MultiheadAttention'.*MultiHeadAttention, SelfAttention"):
        _ = reference.MultiheadAttention  # type: ignore[attr-defined]
