"""What an entry of the table of adapters holds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from ..deviations import Deviation
from ..implementation import Implementation, describe, target_name

Answers = Mapping[str, Any]
"""Capabilities by name."""


@dataclass(frozen=True)
class Built:
    """A factory `(d_model, heads)` of modules: a recognised class, and what builds an object of it."""

    target: Callable[..., Any]
    build: Callable[..., Any]

    def __call__(self, d_model: int, heads: int) -> Any:
        """Return a module of this width with this number of heads."""
        return self.build(self.target, d_model, heads)


@dataclass(frozen=True)
class Adapter:
    """One way to call one target, or every target of a family.

    `target` is where the target lives, as `module:name`. With a `*` it is a pattern, to which the module and the
    qualified name of an object are held; so one entry serves every class of a family and functions that exist once per
    file. `variant` tells several ways to call a target apart, None is the usual one. `call` is the one of `register`;
    `build(target, d_model, heads)` makes a module where the class itself is not called with `(d_model, heads)`.
    `capabilities` say what the target does, or are a function of the recognised target that says so; `parameters` say
    where its projections are. `remark` tells in one sentence which path this is.

    `call` and `build` are self-contained: what they use besides torch they import inside. Reproductions show their source, so that
    nobody needs this package to run one. Of a `functools.partial`, the function and the keywords are shown.
    """

    target: str
    remark: str
    call: Callable[..., Any] | None
    capabilities: Answers | Callable[[Any], Answers]
    variant: str | None = None
    build: Callable[..., Any] | None = None
    reference: str | None = None
    deviations: tuple[Deviation, ...] = ()
    parameters: Mapping[str, str] | None = None

    @property
    def text(self) -> str:
        """The target as an auditor types it, or its pattern."""
        return _with_variant(self.target, self.variant)

    @property
    def is_pattern(self) -> bool:
        """Whether the target stands for every object of a form."""
        return "*" in self.target

    def object(self) -> Any:
        """Return the target itself if its module is imported already, else None: recognising imports nothing."""
        module, _, name = self.target.partition(":")
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        return found

    def recognises(self, target: Any) -> bool:
        """Say whether the entry is about this object."""
        if self.is_pattern:
            return fnmatchcase(_place(target), self.target)
        return target is not None and self.object() is target

    def describe(self, settings: Mapping[str, Any], target: Any = None) -> Implementation:
        """Return the implementation, with `settings` put over the capabilities. A pattern needs the `target`."""
        found = self.object() if target is None else target
        answers = self.capabilities(found) if callable(self.capabilities) else self.capabilities
        place = target_name(found) if self.is_pattern else self.target
        keywords: dict[str, Any] = {
            "reference": self.reference, "call": self.call, "parameters": self.parameters,
            "name": _with_variant(place, self.variant), "deviations": self.deviations, **answers, **settings,
        }  # fmt: skip
        return describe(found if self.build is None else Built(found, self.build), **keywords)


def _with_variant(place: str, variant: str | None) -> str:
    return place if variant is None else f"{place}[{variant}]"


def _place(target: object) -> str:
    """Return where an object says that it was defined; empty for one that does not say so."""
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)
    return f"{module}:{name}" if isinstance(module, str) and isinstance(name, str) else ""
