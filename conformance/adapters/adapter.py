"""What an entry of the table of adapters holds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..deviations import Deviation
from ..implementation import Implementation, describe


@dataclass(frozen=True)
class Adapter:
    """One way to call one target.

    `target` is where the target lives, as `module:name`; `variant` tells several ways to call it apart, None is the
    usual one. `call` is the one of `register`; `build` replaces a class by a factory `(d_model, heads)`, None keeps
    it; `capabilities` and `deviations` are what it does; `remark` says in one sentence which path this is.
    """

    target: str
    remark: str
    call: Callable[..., Any]
    capabilities: Mapping[str, Any]
    variant: str | None = None
    build: Callable[..., Any] | None = None
    reference: str | None = None
    deviations: tuple[Deviation, ...] = field(default=())

    @property
    def text(self) -> str:
        """The target as an auditor types it."""
        return self.target if self.variant is None else f"{self.target}[{self.variant}]"

    def object(self) -> Any:
        """Return the target itself if its module is imported already, else None: recognising imports nothing."""
        module, _, name = self.target.partition(":")
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        return found

    def describe(self, settings: Mapping[str, Any]) -> Implementation:
        """Return the implementation, with `settings` put over the capabilities."""
        keywords: dict[str, Any] = {
            "reference": self.reference, "call": self.call, "name": self.text, "deviations": self.deviations,
            **self.capabilities, **settings,
        }  # fmt: skip
        return describe(self.build or self.object(), **keywords)
