"""The text of a failure: the rule's sentence, the case, the numbers, what would fit, and a reproduction."""

from __future__ import annotations

from . import reproduction
from .comparing import Departure
from .edge import Raised, WrongResult
from .errors import UnknownParameters
from .inputs import Inputs
from .records import Record
from .rulebook import Rule
from .trial import Trial

FOREIGN = (Raised, WrongResult, UnknownParameters)
"""What foreign code, and looking into it, can raise."""


def of_departure(rule: Rule, trial: Trial, departure: Departure) -> str:
    """Return the story of a rule that does not hold."""
    lines = [
        rule.sentence,
        f"  case      {trial.case.describe()}, {trial.dtype}, {trial.mode}",
        f"  seen      {departure.text}",
    ]
    if departure.declare:
        lines.append(f"  declare   {departure.declare}")
    return "\n".join(lines + _reproduction(trial, departure.inputs))


def of_error(rule: Rule, trial: Trial, error: Exception) -> str:
    """Return the story of an implementation that raised."""
    lines = [rule.sentence, f"  case      {trial.case.describe()}, {trial.dtype}, {trial.mode}", f"  seen      {error}"]
    return "\n".join(lines + _reproduction(trial, None))


def _reproduction(trial: Trial, inputs: Inputs | None) -> list[str]:
    """Return the script that shows the failure, where one can be written; a story without it is better than none."""
    try:
        lines = reproduction.script(trial, inputs or trial.inputs)
    except (*FOREIGN, LookupError, AttributeError):
        lines = None
    return [] if lines is None else ["  to reproduce, paste:", *(f"    {line}" for line in lines)]


def first_line(record: Record) -> str:
    """Return what was seen, in one line."""
    for line in record.message.splitlines():
        if line.startswith("  seen"):
            return line[len("  seen") :].strip()
    return record.message.splitlines()[0] if record.message else str(record.outcome)
