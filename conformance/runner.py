"""One runner for every front door: `plan`, `run_one`, `check`. It knows nothing of pytest."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import torch

from .cases.case import Case
from .deviations import Deviation
from .diagnosis import Diagnostician
from .foreign.edge import FOREIGN, Unreadable, is_interrupt, spared, telling_interrupts_apart
from .foreign.process_state import process_state_kept
from .implementation import Implementation, describe
from .oracle.comparing import Departure, NotApplicable
from .records import Key, Outcome, Picture, Record
from .rulebook import Rule, get_rule, run_first
from .selection import fitted_cases, plan, ruled_out
from .story import failure as story
from .story.reaching import of_masks
from .trials.subject import Subject, has_two_modes
from .trials.trial import Trial

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keywords import Declared


class Examination:
    """The records of one implementation, each made once. Smoke and convention rules are run before what needs them.

    `seed` changes what every case draws; verdicts do not depend on it.
    """

    def __init__(
        self, implementation: Implementation, *, name: str | None = None, gated: bool = True, seed: int = 0
    ) -> None:
        self.implementation = implementation
        self.name = name or implementation.label
        self.gated = gated
        self.seed = seed
        self._records: dict[Key, Record] = {}
        self._blocking: dict[Key, str] = {}
        self._cases: dict[str, tuple[list[Case], str | None]] = {}
        self._subjects: dict[str, Subject] = {}
        self._diagnostician = Diagnostician()

    def run_one(self, rule: Rule, dtype: str | None) -> Record:
        """Return the record of a rule in a dtype."""
        key = Key(rule.id, dtype)
        if key not in self._records:
            started = time.perf_counter()
            record = self._judge(rule, dtype)
            self._records[key] = self._deviating(record, time.perf_counter() - started)
        return self._records[key]

    def _record(self, rule: Rule, dtype: str | None, outcome: Outcome, message: str, **more: Any) -> Record:
        base = {"case": None, "ratio": None, "diagnosis": ()}
        return Record(self.name, rule.id, dtype, outcome=outcome, message=message, seconds=0.0, **{**base, **more})

    def _judge(self, rule: Rule, dtype: str | None) -> Record:
        reason = ruled_out(rule, self.implementation)
        cases, excluded = self._fitted_cases(rule)
        if reason is None and not cases:
            reason = excluded
        if reason is not None:
            return self._record(rule, dtype, Outcome.NOT_APPLICABLE, reason)
        working = dtype or self.implementation.capabilities.dtypes[0]
        blocked = self._blocked(rule, working) if self.gated else None
        if blocked is not None:
            return self._record(rule, dtype, Outcome.NOT_RUN, blocked)
        with telling_interrupts_apart(), process_state_kept():
            return self._guarded(rule, dtype, working, cases)

    def _fitted_cases(self, rule: Rule) -> tuple[list[Case], str | None]:
        """Return the cases of a rule, and what ruled out the others, found out once for all dtypes."""
        if rule.id not in self._cases:
            cases, excluded = fitted_cases(rule, self.implementation)
            self._cases[rule.id] = [replace(case, draw=self.seed) for case in cases] if self.seed else cases, excluded
        return self._cases[rule.id]

    def _guarded(self, rule: Rule, dtype: str | None, working: str, cases: list[Case]) -> Record:
        """Run the rule; whatever escapes from it, or from telling its story, is told as an error of the result."""
        try:
            return self._run(rule, dtype, working, cases)
        except BaseException as error:  # what came back may raise anything when it is looked at
            if is_interrupt(error):
                raise
            text = f"{rule.sentence}\n  seen      {Unreadable(error)}"
            return self._record(rule, dtype, Outcome.ERROR, text)

    def _blocked(self, rule: Rule, dtype: str) -> str | None:
        """Return why a rule cannot say anything: a smoke rule or a convention that it depends on failed."""
        for other in run_first(rule.id, rule.depends):
            if self.implementation.reference.kind not in other.kinds:
                continue
            record = self.run_one(other, dtype)
            if other.smoke and record.failing:
                return f"{other.id} failed: {record.seen}"
            if record.outcome is Outcome.FAILED and record.key in self._blocking:
                return f"{other.id} failed: {other.convention} is not as declared{self._blocking[record.key]}"
        return None

    def _subject(self, dtype: str, mode: str) -> Subject:
        if dtype not in self._subjects:
            self._subjects[dtype] = Subject(self.implementation, dtype)
        subject = self._subjects[dtype]
        return subject if mode == "train" else subject.in_mode(mode)

    def _run(self, rule: Rule, dtype: str | None, working: str, cases: list[Case]) -> Record:
        modes = rule.modes if has_two_modes(self.implementation) else rule.modes[-1:]
        passed: list[tuple[float | None, str]] = []
        skipped: list[str] = []
        for case, mode in itertools.product(cases, modes):
            trial = Trial(self._subject(working, mode), case)
            try:
                departs = self._tried(rule, dtype, trial)
            except NotApplicable as reason:
                skipped.append(str(reason))
                continue
            if departs is not None:
                return departs
            passed.append((trial.ratio, trial.remark))
        if not passed:
            return self._record(rule, dtype, Outcome.NOT_APPLICABLE, skipped[0])
        ratios = [ratio for ratio, _ in passed if ratio is not None]
        remark = next((told for _, told in reversed(passed) if told), "")
        return self._record(rule, dtype, Outcome.PASSED, remark, ratio=max(ratios, default=None))

    def _tried(self, rule: Rule, dtype: str | None, trial: Trial) -> Record | None:
        """Try a rule on one case in one mode. Return the record where it does not hold. Raises NotApplicable."""
        try:
            rule.function(trial)
        except NotApplicable:
            raise
        except Departure as departure:
            return self._failed(rule, dtype, trial, departure)
        except FOREIGN as error:
            diagnosis = self._diagnostician.of_error(rule, error)
            return self._erred(rule, dtype, trial, error, diagnosis)
        except BaseException as error:  # what came back may raise anything when it is looked at
            if is_interrupt(error):
                raise
            return self._erred(rule, dtype, trial, Unreadable(error))
        return None

    def _erred(
        self, rule: Rule, dtype: str | None, trial: Trial, error: Exception, diagnosis: tuple[str, ...] = ()
    ) -> Record:  # fmt: skip
        text = story.of_error(rule, trial, error, diagnosis)
        return self._record(rule, dtype, Outcome.ERROR, text, case=trial.case.name, diagnosis=diagnosis)

    def _failed(self, rule: Rule, dtype: str | None, trial: Trial, departure: Departure) -> Record:
        if departure.blocks:
            advice = f"; declare {departure.declare}" if departure.declare else ""
            self._blocking[Key(rule.id, dtype)] = advice
        diagnosis, needed = self._diagnosed(rule, trial, departure)
        text = story.of_departure(rule, trial, departure, diagnosis, needed)
        return self._record(
            rule, dtype, Outcome.FAILED, text, case=trial.case.name, ratio=departure.ratio, diagnosis=diagnosis,
            pictures=self._pictures(trial, departure),
        )  # fmt: skip

    def _pictures(self, trial: Trial, departure: Departure) -> tuple[Picture, ...]:
        """Return what there is to look at: the errors, and where a mask hides keys, those that are really seen."""
        asked = departure.inputs or trial.inputs
        return spared(lambda: departure.pictures + of_masks(trial, asked), departure.pictures)

    def _diagnosed(self, rule: Rule, trial: Trial, departure: Departure) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return which known faults explain a departure and, where none does, what it needs to show."""

        def diagnosed() -> tuple[tuple[str, ...], tuple[str, ...]]:
            diagnosis = self._diagnostician.of_departure(rule, trial, departure)
            return diagnosis, () if diagnosis else self._diagnostician.narrowed(rule, trial)

        nothing: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
        return spared(diagnosed, nothing)

    def _deviating(self, record: Record, seconds: float) -> Record:
        outcome, message = record.outcome, record.message
        if record.failing:
            entry = self.deviation_for(record.key)
            if entry is not None:
                outcome, message = Outcome.DEVIATION, f"{entry.told}\n{message}"
        return replace(record, outcome=outcome, message=message, seconds=seconds)

    def deviation_for(self, key: Key) -> Deviation | None:
        """Return the declared deviation that covers a key, or None."""
        for entry in self.implementation.deviations:
            if entry.rule == key.rule and entry.applies(key.dtype, self.implementation.device, torch.__version__):
                return entry
        return None


@lru_cache(maxsize=32)
def examination(implementation: Implementation, name: str | None = None) -> Examination:
    """Return the examination of an implementation in this process."""
    return Examination(implementation, name=name)


def run_one(implementation: Implementation, rule: str, dtype: str | None, *, name: str | None = None) -> Record:
    """Return the record of one rule, running smoke and convention rules first where they have not been.

    Raises UnknownRule.
    """
    return examination(implementation, name).run_one(get_rule(rule), dtype)


def check(
    target: Callable[..., Any] | Implementation,
    *,
    tier: str = "default",
    select: Iterable[str] = (),
    seed: int = 0,
    name: str | None = None,
    **declared: Unpack[Declared],
) -> Iterator[Record]:
    """Judge one implementation in this process and yield its records as they come.

    `target` is what `register` returned, or anything that `register` takes, with its keywords. `tier` is `default` or
    `thorough`; `select` names rules, families or dtypes; another `seed` draws other values for every case.
    """
    implementation = target if isinstance(target, Implementation) else describe(target, **declared)
    examined = Examination(implementation, name=name, seed=seed)
    for key in plan(implementation, tier=tier, select=select):
        yield examined.run_one(get_rule(key.rule), key.dtype)
