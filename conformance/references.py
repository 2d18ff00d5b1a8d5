"""The documents' three objects, what they answer, and where they knowingly depart from a rule."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .deviations import Deviation
from .errors import InvalidTarget, UnknownReference, nearest


@dataclass(frozen=True)
class Reference:
    """One of the documents' objects. `kind` is `kernel` or `module`; `defaults` are the capabilities in which it
    differs from the defaults of `Capabilities`; `arguments` is the order in which its call takes its tensors."""

    name: str
    kind: str
    location: str
    defaults: Mapping[str, Any]
    arguments: tuple[str, ...] = ("query", "key", "value")
    mask_required: bool = False
    deviations: tuple[Deviation, ...] = ()

    def load(self) -> Callable[..., Any]:
        """Import the listing and return its object."""
        target: Callable[..., Any] = getattr(importlib.import_module(self.location), self.name)
        return target


REFERENCES: Mapping[str, Reference] = {
    reference.name: reference
    for reference in (
        Reference("attention", "kernel", "attention_conformance.reference.attention", {}),
        Reference(
            "MultiHeadAttention",
            "module",
            "attention_conformance.reference.attention",
            {"layout": "BLE", "value_width": "same", "leading": "equal", "no_keys": "unspecified"},
            deviations=(
                Deviation(
                    "ERRORS-003", "Q1-key-batch-folded: the batch size is read from the query, other batches are folded"
                ),
                Deviation("ERRORS-006", "Q1-indivisible-width: d_model is not checked against n_heads"),
            ),
        ),
        Reference(
            "SelfAttention",
            "module",
            "attention_conformance.reference.self_attention",
            {"layout": "BLE", "value_width": "same", "leading": "equal", "scale": "1/sqrt(d_model)", "second": None},
            arguments=("value", "key", "query"),
            mask_required=True,
        ),
    )
}


def reference_for(target: Callable[..., Any], chosen: str | Callable[..., Any] | None) -> Reference:
    """Return the reference by name, by object, or by default: `attention` for callables, `MultiHeadAttention` for classes.

    Raises UnknownReference.
    """
    if chosen is None:
        for reference in REFERENCES.values():
            if getattr(target, "__module__", None) == reference.location and target is reference.load():
                return reference
        return REFERENCES["MultiHeadAttention" if inspect.isclass(target) else "attention"]
    name = chosen if isinstance(chosen, str) else getattr(chosen, "__name__", repr(chosen))
    if name not in REFERENCES:
        raise UnknownReference(
            f"reference={name!r} is none of {', '.join(map(repr, REFERENCES))}{nearest(name, REFERENCES)}"
        )
    if REFERENCES[name].kind == "kernel" and inspect.isclass(target):
        raise InvalidTarget(
            f"{name!r} is a function and {target!r} a class. Register an instance, or a function that builds and calls it."
        )
    return REFERENCES[name]
