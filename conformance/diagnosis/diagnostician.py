"""Which known faults explain a failure. At most three are named, best first, or honestly none.

The failing call is made again. What comes back is compared, within the bound, with what attention computes that has a
known fault (`faults`), one at a time and then in pairs; what no fault explains is measured (`measuring`).
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from ..cases.case import Case, vary
from ..cases.inputs import Inputs
from ..conventions.table import second_near
from ..foreign.edge import FOREIGN
from ..oracle.comparing import Departure, NotApplicable
from ..oracle.expectations import Expectation, Near
from ..rulebook import Rule
from ..trials.subject import Result
from ..trials.trial import INPUT_NAMES, Trial
from . import measuring, narrowing
from .faults import BACKWARD, FORWARD, HINTS, RAISED, SECOND, TOLD, Fault, Told
from .matching import Make, Observed, gradients, match, outputs, second_results
from .stages import Call, Stages

MOST = 3
"""How many faults are named."""

SEARCHES = 6
"""How many searches of one examination may end without a find; after that only what was found before is tried."""

_PAIRED = (
    "scale_by_model_dim", "scale_missing", "scale_by_width_without_root", "bool_mask_inverted", "mask_ignored",
    "mask_after_softmax", "masked_score_zero", "softmax_over_queries", "heads_merged_by_view", "heads_split_by_view",
    "heads_interleaved", "last_key_dropped", "causal_ignored", "causal_sees_next_token", "causal_aligned_otherwise",
    "output_bias_missing", "query_bias_missing", "value_bias_missing", "output_projection_missing", "gqa_tiled",
    "key_and_value_weights_exchanged", "query_and_key_weights_exchanged", "window_off_by_one", "softcap_ignored",
    "softcap_after_mask", "bias_ignored", "scale_also_on_bias", "scale_argument_ignored", "softmax_with_a_sink",
)  # fmt: skip
"""Faults that are tried two at a time."""

_UNEXPLAINED = (*FOREIGN, Departure, NotApplicable)
"""What may end an attempt to make a call again."""


@dataclass(frozen=True)
class Search:
    """What was seen of a failing call and the faults that may explain it."""

    observed: Observed
    table: tuple[Fault, ...]

    @cached_property
    def blank(self) -> Call:
        """The call without any fault, of which faults ask what it has."""
        return self.observed.make({})

    def share(self, fault: Fault) -> float:
        """Return the best share of rows that a version of the fault explains."""
        if not fault.when(self.blank):
            return 0.0
        best = 0.0
        for stages in fault.variants(self.blank):
            best = max(best, match(self.observed, stages))
            if best == 1.0:
                break
        return best

    def silent(self, fault: Fault) -> bool:
        """Say whether a call that does not depart is what the fault lets one expect."""
        return not fault.when(self.blank) or self.share(fault) == 1.0


class Diagnostician:
    """Names the faults of one implementation. What explained one failure is tried first on the next."""

    def __init__(self) -> None:
        self._votes: Counter[Fault] = Counter()
        self._narrowed = 0
        self._fruitless: set[tuple[str, tuple[str, ...]]] = set()

    def of_departure(self, rule: Rule, trial: Trial, departure: Departure) -> tuple[str, ...]:
        """Return what explains a departure, best first."""
        told = [f"declare {departure.declare}"] if departure.declare else []
        told += _told(TOLD, rule, departure.text)
        if len(told) > bool(departure.declare):
            return tuple(told[:MOST])
        # Where the call cannot be made again outside its rule, only the rule speaks.
        with contextlib.suppress(*_UNEXPLAINED):
            told += self.explanations(trial, departure.inputs or trial.inputs)
        told += [] if told else _told(HINTS, rule, departure.text)
        # A declaration that makes everything agree explains it; one name beside it says what it is.
        return tuple(dict.fromkeys(told))[: 2 if departure.declare else MOST]

    def narrowed(self, rule: Rule, trial: Trial) -> tuple[str, ...]:
        """Return what a case needs for an unexplained failure to show; a few times in one examination."""
        self._narrowed += 1
        if self._narrowed > SEARCHES:
            return ()
        return narrowing.needed(rule, trial)

    def of_error(self, rule: Rule, error: Exception) -> tuple[str, ...]:
        """Return what explains an error that was raised."""
        return tuple(_told(RAISED, rule, str(error)))[:MOST]

    def explanations(self, trial: Trial, inputs: Inputs) -> list[str]:
        """Make the call again and return the faults that explain it, best first; nothing where nothing departs."""
        search = _departing(trial, inputs)
        if search is None:
            return []
        table = search.table
        known = [fault for fault in self._votes if fault in table and search.share(fault) > 0.0]
        self._votes.subtract(fault for fault in self._votes if fault in table and fault not in known)
        if known:
            self._votes.update(known)
            most = max(self._votes[fault] for fault in known)
            return [fault.text for fault in known if self._votes[fault] == most]
        here = (inputs.case.name, search.observed.names)
        if here in self._fruitless or len(self._fruitless) >= SEARCHES:
            return []
        texts = self._searched(trial, inputs, search)
        if not texts:
            # The same case in another dtype would be searched in vain as well.
            self._fruitless.add(here)
        return texts

    def _searched(self, trial: Trial, inputs: Inputs, search: Search) -> list[str]:
        stagnated = measuring.stagnation(search.observed)
        if stagnated is not None:
            return [stagnated]
        found, first = _best(search, search.table), search
        for other in _again(trial, inputs, search):
            if other.observed.any_departs:
                first = other if first is search else first
                found = [fault for fault in found if other.share(fault) > 0.0]
            else:
                # What would show here and does not is the less likely explanation.
                found = [fault for fault in found if other.silent(fault)] or found
        if not found and first is not search:
            found = _best(first, first.table)
        if found:
            self._votes.update(found[:MOST])
            return [fault.text for fault in found]
        return measuring.named(first.observed, trial) or _pairs(first, list(self._votes))


def _told(table: Iterable[Told], rule: Rule, seen: str) -> list[str]:
    """Return the faults that the failing rule itself shows."""
    found = []
    for entry in table:
        hit = re.search(entry.seen, seen) if re.fullmatch(entry.rule, rule.id) else None
        if hit is not None:
            groups = [group.replace(" ", "_") for group in hit.groups("")]
            name = entry.name.format(*groups)
            found.append(f"{name}: {entry.sentence.format(*hit.groups(''))} {entry.repair}")
    return found


def _best(search: Search, table: Iterable[Fault]) -> list[Fault]:
    """Return the faults that explain most, those that explain every row alone where there are any."""
    shares = {fault: share for fault in table if (share := search.share(fault)) > 0.0}
    top = max(shares.values(), default=0.0)
    return [fault for fault, share in shares.items() if share >= top - 1e-9]


def _departing(trial: Trial, inputs: Inputs) -> Search | None:
    """Make the call again and return what there is to be explained."""
    return next((search for search in _searches(trial, inputs) if search.observed.any_departs), None)


def _again(trial: Trial, inputs: Inputs, search: Search) -> Iterator[Search]:
    """Yield what is seen at other sizes, with ordinary values and with one thing less, where few faults look alike."""
    for case in _others(inputs.case):
        try:
            other = trial.at(case)
            seen = [more for more in _searches(other, other.inputs) if more.observed.names == search.observed.names]
        except _UNEXPLAINED:
            continue
        yield from seen[:1]


def _others(case: Case) -> Iterator[Case]:
    more = 3 if case.queries == case.keys else 5
    heads = {} if case.kv_heads is not None else {"heads": case.heads + 1}
    sizes = {"queries": case.queries + 3, "keys": case.keys + more, "value_width": case.value_width + 1}
    yield vary(case, f"{case.name}, again", seed=case.seed + 1, values="signed", batch=max(case.batch, 3), **sizes)
    yield vary(case, f"{case.name}, wider", seed=case.seed + 2, values="signed", width=case.width + 3, **heads, **sizes)
    if case.mask is not None and (case.causal or case.window is not None or case.bias is not None):
        yield vary(case, f"{case.name}, without the mask", mask=None)
        yield vary(case, f"{case.name}, with the mask alone", causal=False, window=None, bias=None)


def _pairs(search: Search, found: list[Fault]) -> list[str]:
    """Return the first two faults that together explain every row."""
    paired = [fault for fault in search.table if fault.name in _PAIRED or fault in found]
    blank = search.blank
    first = [(fault, next(iter(fault.variants(blank)))) for fault in paired if fault.when(blank)]
    for (one, stages), (other, more) in itertools.combinations(first, 2):
        if not set(stages) & set(more) and match(search.observed, {**stages, **more}) == 1.0:
            return [one.text, other.text]
    return []


# What is seen of a call


def _searches(trial: Trial, inputs: Inputs) -> Iterator[Search]:
    """Make the call again and yield what there is to be explained: output, second result, gradients."""
    result = trial.run(inputs)
    expectation = trial.expectation(inputs)
    delivered = trial.subject.canonically(result.delivered)

    def make(stages: Stages) -> Call:
        return Call(inputs, expectation.setting, delivered, stages, trial.capabilities.second)

    actual = {"output": result.output.detach().double().cpu()}
    yield Search(Observed(trial.dtype, actual, {"output": expectation.output}, make, outputs), FORWARD)
    if trial.capabilities.second is not None and result.second is not None:
        near = second_near(trial.capabilities.second, expectation)
        actual = {"second": result.second.detach().double().cpu()}
        yield Search(Observed(trial.dtype, actual, {"second": near}, make, second_results), (*SECOND, *FORWARD))
    if trial.mode == "train" and trial.capabilities.gradient != "none" and not inputs.case.shared:
        yield from _gradient_searches(trial, inputs, result, expectation, make)


def _gradient_searches(
    trial: Trial, inputs: Inputs, result: Result, expectation: Expectation, make: Make
) -> Iterator[Search]:
    if trial.capabilities.inputs == "self":
        return
    for through in ("output", "weights"):
        if through == "weights" and (result.second is None or expectation.setting.module):
            continue
        try:
            found = trial.input_gradients(result, inputs, through)
        except (NotApplicable, Departure):
            continue
        expected = trial.expected_gradients(inputs, through)
        names = tuple(name for name in (*INPUT_NAMES, "bias") if name in found and name in expected)
        actual: dict[str, Tensor] = {name: found[name].detach().double().cpu() for name in names}
        wanted: dict[str, Near] = {name: expected[name] for name in names}
        predict = gradients(names, through)
        yield Search(Observed(trial.dtype, actual, wanted, make, predict), (*BACKWARD, *FORWARD))
