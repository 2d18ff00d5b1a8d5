"""One implementation of the survey, and what was confirmed of it by reading its code and by experiment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from typing import Any

from attention_conformance.loading import parse_settings
from attention_conformance.records import Verdict

BAD = (Verdict.DEPARTS, Verdict.BROKEN)


class InvalidEntry(ValueError):
    """An entry that cannot be meant."""


@dataclass(frozen=True)
class Entry:
    """One implementation: what is typed for `audit`, where it is from, and the verdict that is right.

    `target` is a target as for `audit`: an adapter's, or `tests/survey/recipes/FILE.py:NAME` for a recipe that calls
    `register`. `package` is the distribution that holds it, under its name in the registry. `verdict` was confirmed in
    its code; where it is `departs` or `broken`, `why` says in one neutral sentence what differs and where, and `rules`
    lists every rule that fails (a broken one may leave them out). `settings` are declared as by `--set`, a text as it is typed there.
    """

    target: str
    package: str
    verdict: str
    framework: str = "torch"
    why: str = ""
    rules: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def departs(self) -> bool:
        """Whether the right verdict speaks against it."""
        return self.verdict in BAD

    @property
    def version(self) -> str | None:
        """Version of the package in this environment, None where it is not installed."""
        return _version(self.package)

    def keywords(self) -> dict[str, Any]:
        """Return the settings as keywords of `register`."""
        typed = [f"{name}={value}" for name, value in self.settings.items() if isinstance(value, str)]
        return {**self.settings, **parse_settings(typed)}


@cache
def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check(entries: tuple[Entry, ...]) -> None:
    """Raise InvalidEntry for an entry that is not well-formed, or a target that occurs twice."""
    seen: set[str] = set()
    for entry in entries:
        problem = "its target occurs twice" if entry.target in seen else _problem(entry)
        seen.add(entry.target)
        if problem:
            raise InvalidEntry(f"{entry.target}: {problem}")


def _problem(entry: Entry) -> str:
    """Return what is wrong with an entry, nothing for one that is well-formed."""
    if entry.verdict not in list(Verdict):
        return f"the verdict {entry.verdict!r} is none of {', '.join(Verdict)}"
    if entry.departs and not entry.why.strip():
        return f"it {entry.verdict}, and `why` does not say from what"
    if entry.verdict == Verdict.DEPARTS and not entry.rules:
        return "it departs, and `rules` names no rule"
    if entry.rules and not entry.departs:
        return f"the verdict is {entry.verdict!r}, and `rules` names some that fail"
    return ""
