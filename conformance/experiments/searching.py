"""Search beyond the fixed cases: hypothesis generates them and shrinks the first that fails.

A find is told as data, `Case(name="found", ...)` with what differs from the defaults, and can be pasted.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeVar

import torch

from ..cases.case import FOUND, Case, Mask, source_of
from ..cases.values import EXACT_SCORES
from ..errors import ConformanceError
from ..fitting import Excluded, fit
from ..foreign.edge import Raised, WrongResult
from ..implementation import Implementation
from ..oracle.comparing import NotApplicable
from ..oracle.expectations import allowed_of
from ..rulebook import catalogue, conventions_of
from ..trials.trial import Trial

T = TypeVar("T")
Flip = Callable[[], bool]
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


SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 33, 40)
WIDTHS = (4, 1, 2, 3, 5, 7, 8, 9, 12, 16, 17, 32)
HEADS = ((1, None), (2, None), (3, None), (4, None), (2, 1), (4, 2), (6, 3), (6, 2))
FAMILIES = (
    "signed", "zero query", "flat", "constant value", "sharp", "tiny", "shifted keys", "shifted values",
    "large values", "huge scores", "equal keys", "ramp", "duplicate keys", "identity value",
    "scores -20", "scores -64", "scores 120", "two keys",
)  # fmt: skip
"""Families of values that fit any sizes and stay in the range of every dtype."""

CONTENTS = (
    "all", "random", "padding", "single", "tail hidden", "left padding", "causal", "last key only", "last three",
    "islands", "empty row", "empty everywhere",
)  # fmt: skip
UNDER_A_TRIANGLE = ("all", "padding", "tail hidden", "causal", "random")
"""Contents that seldom leave a row of a causal call without a key."""

AXES = ("LS", "B11S", "1HLS", "BHLS", "11LS", "111S", "B1LS", "BH1S", "HLS")
OPTIONS: Mapping[str, tuple[Any, ...]] = {
    "scale": (1.0, 0.5, 0.1),
    "window": (1, 2, 3, 5, 17),
    "softcap": (1.0, 5.0, 30.0),
    "bias": ("LS", "1HLS", "BHLS", "B11S", "11LS", "B1LS"),
    "dropout": (0.0,),
}


@dataclass
class Generator:
    """Builds a case for one implementation from coin flips.

    Flips alone decide: hypothesis draws numbers also from the constants that it reads out of the source files in
    reach, so that drawn numbers differ between repositories (and reading them takes time and leaves a cache).
    """

    flip: Flip
    implementation: Implementation
    dtype: str
    gradients: bool = False
    built: dict[str, Any] = field(default_factory=dict)

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options; no flip that comes up gives the first."""
        place = 0
        for _ in range((len(options) - 1).bit_length()):
            place = 2 * place + self.flip()
        return options[place % len(options)]

    def seldom(self) -> bool:
        """Return True once in four times."""
        return self.flip() and self.flip()

    def case(self, before: Case | None = None) -> Case:
        """Return a case; one that follows another differs from it in some parts only."""
        parts = (self._sizes, self._leading, self._values, self._options, self._mask, self._memory)
        self.built = {} if before is None else {name: getattr(before, name) for name in _NAMES}
        for part in parts:
            if before is None or self.flip():
                self.built |= part()
        self.built |= self._repairs()
        return Case(FOUND, **self.built, seed=sum(2**place * self.flip() for place in range(8)))

    def _sizes(self) -> dict[str, Any]:
        own, module = self.implementation.capabilities, self.implementation.is_module
        heads, shared = self.pick(HEADS if own.heads == "grouped" and not module else HEADS[:4])
        queries = self.pick(SIZES)
        keys = queries if self.flip() else self.pick(SIZES)
        accepted = own.widths if isinstance(own.widths, tuple) else (4, 3, 8, 16) if module else WIDTHS
        width = self.pick([width for width in accepted if width <= 64] or accepted[:1])
        return {
            "batch": self.pick((1, 2, 3)), "heads": heads, "kv_heads": shared, "queries": queries, "keys": keys,
            "width": width, "value_width": width if self.flip() else self.pick(WIDTHS),
        }  # fmt: skip

    def _leading(self) -> dict[str, Any]:
        leading = "BH"
        broadcast: tuple[str, ...] = ()
        if self.implementation.capabilities.layout == "...LD" and not self.implementation.is_module:
            if self.seldom():
                leading = self.pick(("", "B", "GBH"))
            elif self._broadcasts() and self.seldom():
                broadcast = self.pick((("key", "value"), ("query",), ("value",)))
        return {"leading": leading, "broadcast": broadcast}

    def _broadcasts(self) -> bool:
        """Say whether a tensor may have one head where others have several; grouped heads have a meaning for it."""
        own = self.implementation.capabilities
        return own.leading == "broadcast" and own.heads == "equal"

    def _values(self) -> dict[str, Any]:
        return {"values": self.pick(FAMILIES) if self.flip() else "signed"}

    def _options(self) -> dict[str, Any]:
        own = self.implementation.capabilities
        chosen: dict[str, Any] = {"causal": own.causal in ("top-left", "bottom-right") and self.flip()}
        for name, choices in OPTIONS.items():
            chosen[name] = self.pick(choices) if name in own.options and self.seldom() else None
        return chosen

    def _mask(self) -> dict[str, Any]:
        own = self.implementation.capabilities
        causal = self.built["causal"] or (own.causal or "").startswith("always")
        forms = own.mask if not causal or own.causal_with_mask == "and" else ()
        return {"mask": self._a_mask(self.pick(forms), causal) if forms and self.flip() else None}

    def _a_mask(self, form: str, causal: bool) -> Mask:
        if form == "lengths":
            return Mask("padding", "B11S", (form,))
        judged = ("uniform", "zeros") if self.gradients else ("uniform", "zeros", "nan")
        empty_rows = self.implementation.capabilities.empty_row in judged
        content = self.pick(UNDER_A_TRIANGLE if causal else CONTENTS if empty_rows else CONTENTS[:-2])
        numbers = self.pick(("int", "float", "odd", "fractions")) if form == "number" else "int"
        memory = self.pick(("transposed", "sliced", "offset", "expanded")) if self.seldom() else "contiguous"
        axes = self.pick([axes for axes in AXES if content != "causal" or "L" in axes])
        return Mask(content, axes, (form,), numbers, form == "additive" and self.flip(), memory)

    def _memory(self) -> dict[str, Any]:
        memory = "contiguous"
        strided: tuple[str, ...] = ("query", "key", "value")
        if self.seldom():
            memory = self.pick(("transposed", "heads swapped", "sliced", "offset", "rows apart"))
            strided = self.pick((strided, ("query",), ("key",), ("value",)))
        return {"memory": memory, "strided": strided, "shared": self.pick(("kv", "qkv")) if self.seldom() else ""}

    def _repairs(self) -> dict[str, Any]:
        """Return what has to give way where two parts of a case do not go together."""
        built, own = self.built, self.implementation.capabilities
        repaired: dict[str, Any] = {}
        if built["kv_heads"] is not None:
            repaired |= {"leading": "BH", "broadcast": (), "shared": ""}
        if built["broadcast"] or own.inputs == "self":
            repaired |= {"shared": ""}
        shared = repaired.get("shared", built["shared"])
        if shared:
            repaired |= {"value_width": built["width"]}
        if shared == "qkv" or own.inputs == "self":
            repaired |= {"keys": built["queries"]}
        if repaired.get("leading", built["leading"]) != "BH":
            mask = built["mask"]
            repaired |= {"bias": None, "mask": None if mask is None else replace(mask, axes="LS")}
        return repaired | self._repaired_values()

    def _repaired_values(self) -> dict[str, Any]:
        """Return other values for those that would leave the range of the dtype or make no exact scores."""
        built, own = self.built, self.implementation.capabilities
        exact = built["values"] in EXACT_SCORES and built["values"] != "zero query"
        # sqrt(D) and its root are powers of two then, so that a scale can be split without rounding.
        can_be_exact = built["width"] == 16 and own.scale == "1/sqrt(D)"
        options_round = built["scale"] is not None or built["softcap"] is not None
        overflows = self.gradients and self.dtype == "fp16" and built["values"] == "large values"
        return {"values": "signed"} if overflows or (exact and (not can_be_exact or options_round)) else {}


_NAMES = tuple(entry.name for entry in fields(Case) if entry.name not in ("name", "seed", "draw"))


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
    scores = trial.expectation()._forward.scores
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
        self.trial._note(max(ratios))
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
