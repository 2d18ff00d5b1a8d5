"""The text of a failure: the rule's sentence, the case, the numbers, what would fit, and a reproduction."""

from __future__ import annotations

from ..cases.case import FOUND, source_of
from ..cases.inputs import Inputs
from ..foreign.edge import FOREIGN
from ..oracle.comparing import Departure
from ..rulebook import Rule
from ..trials.subject import has_two_modes
from ..trials.trial import Trial
from . import reproduction


def of_departure(
    rule: Rule,
    trial: Trial,
    departure: Departure,
    diagnosis: tuple[str, ...] = (),
    needed: tuple[str, ...] = (),
) -> str:
    """Return the story of a rule that does not hold; `diagnosis` names known faults, best first, `needed` what the case
    has without which the rule holds."""
    lines = [
        rule.sentence,
        f"  case      {trial.case.describe()}, {trial.dtype}, {_mode(rule, trial)}",
        *_as_data(trial),
        f"  seen      {departure.text}",
    ]
    if needed:
        lines.append(f"  only with {', '.join(needed)}")
    return "\n".join([*lines, *_likely(diagnosis), *_reproduction(trial, departure.inputs)])


def _as_data(trial: Trial) -> list[str]:
    """Return the line that makes a case which a search found; the others stand in their rules."""
    return [f"  as data   {source_of(trial.case)}"] if trial.case.name == FOUND else []


def _mode(rule: Rule, trial: Trial) -> str:
    first = trial.mode == rule.modes[0] or not has_two_modes(trial.subject.implementation)
    return trial.mode if first else f"{trial.mode} (it holds in train)"


def _likely(diagnosis: tuple[str, ...]) -> list[str]:
    """Return a line for each fault that explains the failure; what could be declared comes as it is written."""
    lines = []
    for text in diagnosis:
        declared = text.startswith("declare ")
        lines.append(f"  declare   {text.removeprefix('declare ')}" if declared else f"  likely    {text}")
    return lines


def of_error(rule: Rule, trial: Trial, error: Exception, diagnosis: tuple[str, ...] = ()) -> str:
    """Return the story of an implementation that raised."""
    lines = [
        rule.sentence,
        f"  case      {trial.case.describe()}, {trial.dtype}, {trial.mode}",
        *_as_data(trial),
        f"  seen      {error}",
    ]
    return "\n".join([*lines, *_likely(diagnosis), *_reproduction(trial, None)])


def _reproduction(trial: Trial, inputs: Inputs | None) -> list[str]:
    """Return the script that shows the failure, where one can be written; a story without it is better than none."""
    try:
        lines = reproduction.script(trial, inputs or trial.inputs)
    except (*FOREIGN, LookupError, AttributeError):
        lines = None
    return [] if lines is None else ["  to reproduce, paste:", *(f"    {line}" for line in lines)]
