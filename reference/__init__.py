"""The two documents' listings, verbatim, and everything about them that a reader would not expect.

`MultiHeadAttention` is document 1's module and `SelfAttention` document 2's; both are imported on first
use, so that importing this package imports no torch.

Document 1's function has the name of the module that holds it. Exported here, `reference.attention` would
be the function or the module depending on what was imported before. So it is always the module, and the
function is

    from attention_conformance.reference.attention import attention
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__all__ = ["MultiHeadAttention", "SelfAttention"]

_CLASSES = {"MultiHeadAttention": ".attention", "SelfAttention": ".self_attention"}
_MODULES = ("attention", "quirks", "self_attention")

if TYPE_CHECKING:
    from attention_conformance.reference import attention as attention
    from attention_conformance.reference import quirks as quirks
    from attention_conformance.reference import self_attention as self_attention
    from attention_conformance.reference.attention import MultiHeadAttention as MultiHeadAttention
    from attention_conformance.reference.self_attention import SelfAttention as SelfAttention
else:
    # Out of a type checker's sight: to it, a module with __getattr__ has every attribute.
    def __getattr__(name: str) -> object:
        """Import the listing that defines `name`, or the submodule called `name` (PEP 562)."""
        if name in _CLASSES:
            return getattr(import_module(_CLASSES[name], __name__), name)
        if name in _MODULES:
            return import_module(f".{name}", __name__)
        raise AttributeError(
            f"{__name__} has no attribute {name!r}: it holds the classes {', '.join(_CLASSES)} "
            f"and the modules {', '.join(_MODULES)}; take one of these."
        )


def __dir__() -> list[str]:
    return sorted({*globals(), *_CLASSES, *_MODULES})
