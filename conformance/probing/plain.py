"""A profile as plain data, which crosses from the process that made it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..conventions.reading import declaration
from ..foreign.edge import safe
from ..implementation import target_name
from .finding import Finding, Profile


@dataclass(frozen=True)
class Told:
    """What there is to be told of one implementation: its findings, what is printed of them, the lines to paste."""

    name: str
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...]
    registration: str

    @property
    def open(self) -> tuple[Finding, ...]:
        """What could not be found out."""
        return tuple(finding for finding in self.findings if not finding.settled)


def plain(name: str, target: str, profile: Profile) -> dict[str, Any]:
    """Return a profile as JSON can hold it."""
    findings = [
        {"capability": each.capability, "answer": each.answer, "evidence": safe(each.evidence), "settled": each.settled}
        for each in profile.findings
    ]
    return {
        "name": name,
        "findings": findings,
        "remarks": [safe(text) for text in profile.remarks],
        "registration": registration(target, profile),
    }


def told(line: Mapping[str, Any]) -> Told:
    """Return what `plain` wrote."""
    findings = tuple(Finding(**{**each, "answer": _tuples(each["answer"])}) for each in line["findings"])
    return Told(line["name"], findings, tuple(line["remarks"]), line["registration"])


def _tuples(answer: Any) -> Any:
    return tuple(answer) if isinstance(answer, list) else answer


def registration(target: str, profile: Profile) -> str:
    """Return the lines that register the target with what was found."""
    implementation = profile.implementation
    # A module or a file alone registers it already; what is new are the answers.
    place, name = _import(target) if ":" in target else ("", target_name(implementation.target).rpartition(":")[2])
    more = [] if implementation.framework == "torch" else [f"framework={implementation.framework!r}"]
    if implementation.is_module and not isinstance(implementation.target, type):
        more.insert(0, f"reference={implementation.reference.name!r}")
    if implementation.call is not None:
        more.append("call=...")
    if implementation.parameters is not None:
        more.append(f"parameters={dict(implementation.parameters)!r}")
    answers = declaration(profile.differing)
    keywords = ", ".join([*more, *([answers] if answers else [])])
    return f"{place}register({name}{f', {keywords}' if keywords else ''})"


def _import(target: str) -> tuple[str, str]:
    """Return the import line of `module:name`, and the name by which it is registered."""
    found = re.fullmatch(r"(?P<module>[\w.]+):(?P<name>[\w.]+)(\[[\w-]+\])?", target)
    if found is None:
        return "", target.rpartition(":")[2].partition("[")[0] or target
    first = found["name"].split(".")[0]
    return f"from {found['module']} import {first}\n", found["name"]
