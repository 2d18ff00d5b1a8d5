"""The parent's side: one child from its start to its end, and what it says in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Any

from ..errors import WorkerFailed
from .child import Child, Death


class Talk:
    """What one child says: that it is ready, then what its work brings, then that it is done or leaves by itself.

    `done` and `left` tell which; neither holds where it died, or where nobody listened to the end.
    """

    def __init__(self, module: str, order: dict[str, Any], folder: str, timeout: float, **limits: Any) -> None:
        """Start a child that works by `serve` of `module`; `limits` are those of `Child`."""
        self._module, self._ready = module, False
        self._child = Child(module, order, folder, timeout, **limits)
        self._death: Death | None = None
        self.done = self.left = False

    def __enter__(self) -> Talk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:  # fmt: skip
        self._child.end()
        self._death = self._child.death()

    def events(self, stopped: threading.Event | None = None) -> Iterator[dict[str, Any]]:
        """Yield what its work brings, each with its `type`."""
        for event in self._child.events(stopped or threading.Event()):
            kind = event["type"]
            if kind == "ready":
                self._ready = True
            elif kind in ("done", "leave"):
                self.done, self.left = kind == "done", kind == "leave"
                return
            else:
                yield event

    @property
    def died(self) -> bool:
        """Whether it ended before it was done, and not by itself."""
        return not (self.done or self.left)

    def death(self) -> Death:
        """Say, afterwards, how it died. Raises WorkerFailed if it was never ready to work."""
        if self._death is None:
            raise RuntimeError("how a child died is known when it has ended: ask after the `with`")
        if not self._ready:
            raise WorkerFailed(
                f"a worker process did not start ({self._death.how}). It needs this Python, torch and this package: "
                f"try python -c 'import {self._module}'. It said:\n{self._death.said}"
            )
        return self._death
