"""Where the figures of a benchmark go: the terminal, a file, a plot."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from typing import IO

from ..report.terminal import make_console, saying
from ..writable import opened
from . import plot, table
from .benchfile import write
from .listening import Hear
from .measure import Failure, Measurement
from .series import sections


class Outputs:
    """Takes results as they come, and shows them when all are there. What could not be written in the end is refused
    at the start: raises NotWritable or NoPlot."""

    def __init__(self, file: str | None, picture: str | None) -> None:
        self._path, self._picture = file, picture
        self._open: IO[str] | None = None
        self._stack = ExitStack()
        self._hear: Hear = lambda text: None
        self.measured: list[Measurement] = []
        self.failures: list[Failure] = []

    def __enter__(self) -> Outputs:
        if self._picture is not None:
            plot.check(self._picture)
        if self._path is not None:
            self._open = self._stack.enter_context(opened("--json", self._path))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def hear(self, text: str) -> None:
        """Say what is measured now, while results are taken."""
        self._hear(text)

    def take(self, results: Iterable[Measurement | Failure]) -> None:
        """Gather all results, then print, write and draw them."""
        with saying(make_console(stderr=True)) as hear:
            self._hear = hear
            for result in results:
                if isinstance(result, Measurement):
                    self.measured.append(result)
                else:
                    self.failures.append(result)
        found = sections(self.measured)
        table.report(make_console(), found, self.failures)
        if self._open is not None:
            write(self._open, found)
        if self._picture is not None and found:
            plot.save(self._picture, found)
