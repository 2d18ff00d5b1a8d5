"""What the search of a repository yields: targets to register, and what is near and left out."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath


@dataclass(frozen=True)
class Place:
    """A file, relative to the repository, and the line and the name of a definition in it (none: the file as a whole)."""

    path: PurePosixPath
    line: int = 0
    name: str = ""

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.name}" if self.name else str(self.path)


@dataclass(frozen=True)
class LeftOut:
    """What was looked at and is not registered, and why."""

    place: Place
    why: str


@dataclass(frozen=True)
class Judged:
    """One definition that is attention by its arguments.

    `kind` says what it is, `takes` names the arguments that carry its inputs, `problem` why it cannot be registered as it
    stands. `built` are the arguments of the instance that is registered; None where it is the definition itself."""

    kind: str
    takes: tuple[str, ...]
    problem: str = ""
    built: str | None = None


@dataclass(frozen=True)
class Found:
    """One target to register: its place, the module that holds it, what it is, and the framework of its arrays."""

    place: Place
    module: str
    judged: Judged
    framework: str = "torch"

    @property
    def registered(self) -> str:
        """What is passed to `register`."""
        name = f"{self.module}.{self.place.name}"
        return name if self.judged.built is None else f"{name}({self.judged.built})"


@dataclass
class Findings:
    """What was found, in order, and what was left out."""

    found: list[Found] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
