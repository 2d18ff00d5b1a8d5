"""Named errors. Each says what happened, why, and what to do next."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConformanceError(Exception):
    """Base of every error that this package raises on purpose."""


class UnknownCapability(ConformanceError, TypeError):
    """A keyword of `register` that names no capability."""


class InvalidCapability(ConformanceError, ValueError):
    """A capability holds a value outside its vocabulary."""


class InvalidDeviation(ConformanceError, ValueError):
    """A deviation without a rule, without a reason, or wider than one rule."""


class InvalidTarget(ConformanceError, TypeError):
    """What was registered can be neither called nor built."""


class FrameworkMissing(ConformanceError, ImportError):
    """The framework of a kernel, or a package that its bridge needs, cannot be imported."""


class UnknownReference(ConformanceError, ValueError):
    """`reference=` names none of the documents' three objects."""


class UnknownCall(ConformanceError, TypeError):
    """How an implementation is called or built was not recognised, or it has no place for what is to be passed.

    `declare` is the declaration that would fit, where one is known."""

    def __init__(self, text: str, declare: str | None = None) -> None:
        super().__init__(text)
        self.declare = declare


class UnknownParameters(ConformanceError, LookupError):
    """The projections of a module were not recognised by name and shape."""


class OtherParameters(UnknownParameters):
    """Parameters besides the projections change what a module returns."""


class UnknownRule(ConformanceError, LookupError):
    """A rule id that the catalogue does not hold."""


class TargetNotLoaded(ConformanceError, ImportError):
    """A target given as text could not be imported, found or built."""


class InvalidResultFile(ConformanceError, ValueError):
    """A result file is torn, of another schema, or holds a record twice."""


class WorkerFailed(ConformanceError, RuntimeError):
    """A worker process did not start: nothing can be judged."""


class NotWritable(ConformanceError, OSError):
    """A file that was asked for cannot be written."""


class UnknownShard(ConformanceError, ValueError):
    """A part of a run was not given as I/N."""


class IncomparableResults(ConformanceError, ValueError):
    """Result files asked different questions, or hold the same record."""


def nearest(word: object, words: Iterable[str]) -> str:
    """Return the end of a sentence: ", did you mean 'x'?" for the most similar of `words`, "." where none is similar."""
    found = difflib.get_close_matches(str(word), list(words), n=1, cutoff=0.5)
    return f", did you mean {found[0]!r}?" if found else "."
