"""Search beyond the fixed cases: hypothesis generates them and shrinks the first that fails.

A find is told as data, `Case(name="found", ...)` with what differs from the defaults, and can be pasted.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import torch

from ..cases.case import FOUND, Case, source_of
from ..errors import ConformanceError
from ..fitting import Excluded, fit
from ..foreign.edge import Raised, WrongResult
from ..oracle.comparing import NotApplicable
from ..oracle.expectations import allowed_of
from ..rulebook import catalogue, conventions_of
from ..trials.trial import Trial
from .generating import Generator

Judge = Callable[[Trial], None]


SEED = "ATTENTION_CONFORMANCE_SEED"
"""Environment variable: a whole number makes the search generate other cases. Without it each run repeats the last."""

EXAMPLES = 200
"""Examples that one search judges, of one call or several each."""

SHRINKING = 300
"""Calls for making a find smaller; what is smallest by then is told."""

LARGEST_SCORE_ERROR = 0.25
"""Cases whose scores may be off by more are passed over: the bound is of first order and would have no power."""


class InvalidSeed(ConformanceError, ValueError):
    """The seed in the environment is no whole number."""


def seed_of_search(trial: Trial) -> int:
    """Return the seed that the environment gives, else that of the run. Raises InvalidSeed."""
    given = os.environ.get(SEED, "").strip()
    if not given:
        return trial.case.draw
    try:
        return int(given)
    except ValueError:
        raise InvalidSeed(f"{SEED}={given!r} is no whole number; set it to one, such as 7, or unset it") from None


# What may be generated


def combined(case: Case) -> bool:
    """Say whether a case asks for several options at once; nobody has promised to offer them together."""
    asked = [name for name in case.options() if name not in ("scale", "dropout")]
    return len(asked) + (case.mask is not None) + (case.kv_heads is not None) > 1


def worth_judging(trial: Trial) -> bool:
    """Say whether the contract fixes the result of a case and the bound is sharp.

    Rows that a mask leaves empty are judged; rows that triangle, window and mask leave empty together are not.
    """
    case = trial.case
    allowed = allowed_of(trial.inputs, trial.subject.setting_for(trial.inputs))
    if allowed is not None and not case.may_have_empty_rows and not bool(allowed.any(-1).all()):
        return False
    if case.may_have_empty_rows and case.options().keys() & {"causal", "window"}:
        return False
    scores = trial.expectation().forward.scores
    return bool((scores <= LARGEST_SCORE_ERROR).all())


def excused_conventions(trial: Trial) -> frozenset[str]:
    """Return the conventions that the implementation knowingly does not keep: its deviations cover their rules."""
    implementation = trial.subject.implementation
    rules = catalogue()
    return frozenset(
        rules[entry.rule].convention or ""
        for entry in implementation.deviations
        if entry.rule in rules and entry.applies(trial.dtype, implementation.device, torch.__version__)
    )


# The search


@dataclass(frozen=True)
class Find:
    """What failed: the cases in the order of their calls, the trial of the last, and what was raised."""

    cases: tuple[Case, ...]
    error: Exception


def search(trial: Trial, judge: Judge, *, calls: int = 1, gradients: bool = False) -> None:
    """Judge generated cases, and raise what the smallest that fails raised. `trial.case` is then that case.

    With several `calls` each example is a sequence of cases on one module, each judged. A case for which an option
    or a capability is missing is passed over, and so is a combination of options that is refused with an error.
    Raises NotApplicable where no generated case can be sent.
    """
    if trial.case.name.startswith(FOUND):
        # A find that is narrowed down: its own case is asked about.
        if not worth_judging(trial):
            raise NotApplicable("no convention fixes its result")
        judge(trial)
        return
    hunt = _Hunt(trial, judge)
    _explore(hunt, trial, calls, gradients)
    if hunt.find is not None:
        trial.case = hunt.find.cases[-1]
        raise _told(hunt.find)
    if not hunt.judged:
        raise NotApplicable(hunt.passed_over or "no generated case can be sent")


def _told(find: Find) -> Exception:
    error = find.error
    if len(find.cases) > 1 and hasattr(error, "text"):
        before = ", ".join(source_of(case) for case in find.cases[:-1])
        error.text = f"{error.text}; after calls with {before}"
    return error


class _Hunt:
    """Judges one example at a time and remembers the last that failed, which is the smallest once all is over."""

    def __init__(self, trial: Trial, judge: Judge) -> None:
        self.excused = excused_conventions(trial)
        self.trial, self.judge = trial, judge
        self.find: Find | None = None
        self.judged = 0
        self.shrunk = 0
        self.passed_over = ""

    def example(self, cases: Sequence[Case]) -> float | None:
        """Judge a sequence and return its largest ratio; None if it was passed over."""
        self.shrunk += len(cases) if self.find is not None else 0
        if self.shrunk > SHRINKING:
            return None
        if len(cases) > 1:
            self._call_in_between()
        ratios = []
        modules: dict[int, torch.nn.Module | None] = {}
        for position, case in enumerate(cases, 1):
            other = self._trial(case)
            if other is None:
                return None
            if len(cases) > 1:
                key = id(other.inputs.parameters)
                other.module = modules[key] = modules.get(key) or self._kept(other)
            if not self._passes(other, tuple(cases[:position])):
                return None
            ratios.append(other.ratio or 0.0)
        self.judged += 1
        self.trial.note(max(ratios))
        return max(ratios)

    def _call_in_between(self) -> None:
        """Make one small call, so that what an implementation keeps of its last call is not that of another example."""
        other = self._trial(Case(FOUND, batch=1, heads=1, queries=1, keys=1, width=4, value_width=4))
        if other is not None:
            with suppress(Raised, WrongResult):
                other.run()

    def _kept(self, other: Trial) -> torch.nn.Module | None:
        other.keep_module()
        return other.module

    def _trial(self, case: Case) -> Trial | None:
        fitted = fit(replace(case, draw=self.trial.case.draw), self.trial.subject.implementation)
        if isinstance(fitted, Excluded):
            self.passed_over = fitted.capability
            return None
        if self.excused & set(conventions_of((fitted,))):
            return None
        other = Trial(self.trial.subject, fitted)
        return other if worth_judging(other) else None

    def _passes(self, other: Trial, cases: tuple[Case, ...]) -> bool:
        try:
            self.judge(other)
        except NotApplicable as reason:
            self.passed_over = str(reason)
            return False
        except Exception as error:
            if isinstance(error, Raised) and combined(other.case):
                return False
            self.find = Find((*cases[:-1], other.case), error)
            raise
        return True


def _explore(hunt: _Hunt, trial: Trial, calls: int, gradients: bool) -> None:
    """Let hypothesis generate, aim at large ratios, and shrink."""
    import hypothesis
    from hypothesis import strategies

    def sequences(draw: Callable[[Any], bool]) -> list[Case]:
        made = Generator(lambda: draw(strategies.booleans()), trial.subject.implementation, trial.dtype, gradients)
        cases = [made.case()]
        while len(cases) < calls:
            cases.append(made.case(cases[-1]))
        return cases

    @hypothesis.seed(seed_of_search(trial))
    @_settings(EXAMPLES)  # type: ignore[untyped-decorator]
    @hypothesis.given(strategies.composite(sequences)())
    def explored(cases: list[Case]) -> None:
        ratio = hunt.example(cases)
        if ratio is None:
            hypothesis.reject()
        else:
            hypothesis.target(min(ratio, 1.0))

    with _storage_elsewhere():
        try:
            explored()
        except hypothesis.errors.Unsatisfiable:
            return
        except Exception:
            # What failed and does so no more, or no longer is tried, is told as it was seen.
            if hunt.find is None:
                raise


def _settings(examples: int) -> Any:
    """Return settings that do not depend on the profile of the session around."""
    from hypothesis import HealthCheck, Phase, Verbosity, settings

    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.target, Phase.shrink),
        report_multiple_bugs=False,
        print_blob=False,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )


@contextmanager
def _storage_elsewhere() -> Iterator[None]:
    """Keep hypothesis from writing into the current folder."""
    from hypothesis import configuration

    before = vars(configuration).get("__hypothesis_home_directory")
    with tempfile.TemporaryDirectory(prefix="attention-conformance-") as folder:
        configuration.set_hypothesis_home_dir(folder)
        try:
            yield
        finally:
            configuration.set_hypothesis_home_dir(before)
