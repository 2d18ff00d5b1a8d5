"""What a probe found out: an answer for each capability, and what was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..capabilities import FIELDS
from ..implementation import Implementation


@dataclass(frozen=True)
class Finding:
    """One answer. `evidence` says in one line what was seen; where nothing explains what was seen, `settled` is False
    and `answer` is the one that the rules judge all the same, so that a fault is not taken for a convention."""

    capability: str
    answer: Any
    evidence: str
    settled: bool = True


@dataclass(frozen=True)
class Profile:
    """Everything that a probe found out about one implementation, in the order of `Capabilities`. `remarks` tell what
    no capability holds."""

    implementation: Implementation
    findings: tuple[Finding, ...]
    remarks: tuple[str, ...] = ()

    @property
    def answers(self) -> Mapping[str, Any]:
        """The answers by capability."""
        return {finding.capability: finding.answer for finding in self.findings}

    @property
    def differing(self) -> Mapping[str, Any]:
        """The answers that differ from those of the reference."""
        standard = self.implementation.standard
        usual: dict[str, tuple[Any, ...]] = {name: (getattr(standard, name),) for name in self.answers}
        if standard.second == "optional weights":
            usual["second"] = ("optional weights", "weights")
        return {name: answer for name, answer in self.answers.items() if answer not in usual[name]}

    @property
    def open(self) -> tuple[Finding, ...]:
        """What could not be found out."""
        return tuple(finding for finding in self.findings if not finding.settled)


def in_order(findings: Mapping[str, Finding]) -> tuple[Finding, ...]:
    """Return findings in the order of the fields of `Capabilities`."""
    return tuple(findings[name] for name in FIELDS if name in findings)
