"""Search: what holds for the fixed cases holds for others as well, drawn by hypothesis from all that is declared."""

from __future__ import annotations

from ..cases.case import SMALL
from ..conventions.table import second_near
from ..experiments.searching import search
from ..rulebook import rule
from ..trials.subject import Result
from ..trials.trial import Trial

_SOURCE = "Faults that need two things at once (pytorch/pytorch#195320); generated cases, smallest find"


@rule("SEARCH-001", source=_SOURCE, cases=(SMALL,), modes=("eval",), thorough=True)
def output_agrees_for_generated_cases(trial: Trial) -> None:
    """Output and second result agree for generated sizes, values, masks, options and memory.

    A fault that needs two things at once, such as a mask per head and an odd length, hides between fixed cases.
    """
    search(trial, _agrees)


def _agrees(trial: Trial) -> None:
    result = trial.run()
    trial.agrees(result)
    _second_agrees(trial, result)


def _second_agrees(trial: Trial, result: Result) -> None:
    """Compare a second result that was returned; what an empty row puts there is judged by rules of its own."""
    declared = trial.capabilities.second
    if declared is None or result.second is None or trial.case.may_have_empty_rows:
        return
    near = second_near(declared, trial.expectation())
    trial.near(f"second result ({declared})", result.second, near)


@rule(
    "SEARCH-002",
    source=_SOURCE,
    cases=(SMALL,),
    modes=("train",),
    needs={"gradient": ("once", "twice")},
    thorough=True,
)
def gradients_agree_for_generated_cases(trial: Trial) -> None:
    """Output and gradients agree for generated sizes, values, masks, options and memory."""
    search(trial, _gradients_agree, gradients=True)


def _gradients_agree(trial: Trial) -> None:
    result = trial.run()
    trial.agrees(result)
    trial.gradients_agree(result)


@rule(
    "SEARCH-003",
    source="A mask, length or option that is kept from an earlier call; generated sequences",
    cases=(SMALL,),
    modes=("eval",),
    thorough=True,
)
def generated_calls_leave_no_trace_in_later_ones(trial: Trial) -> None:
    """Of two generated calls in a row each returns what it returns alone."""
    search(trial, _agrees, calls=2)
