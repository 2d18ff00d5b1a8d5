"""What a rule is, and the catalogue of all rules.

A rule is one function. Its docstring begins with the sentence that users read; what follows says why it matters.
Everything else - catalogue, ids, documentation, selection, reports - is derived from the decorated function.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .cases.case import Case
from .errors import UnknownRule, nearest

if TYPE_CHECKING:
    from .trials.trial import Trial

RETIRED: frozenset[str] = frozenset()
"""Ids that were in a release once and are never given again."""

Function = Callable[["Trial"], None]


@dataclass(frozen=True)
class Rule:
    """One sentence that holds for every conforming implementation.

    `dtypes`: `all` declared ones; `exact` only fp64 and fp32 where declared, because the rule needs more than 16 bits
    to see anything; `wide` all but fp16, whose range is too small; `first` only the first declared; `once` in one dtype, with a record whose dtype is None. `modes` are those in which it runs.
    `needs` maps capabilities, and `framework`, to the values for which the rule applies. `convention` is the capability that it judges,
    `depends` are the conventions whose failure leaves it `not-run`. `smoke` rules come first.
    """

    id: str
    sentence: str
    reason: str
    source: str
    cases: tuple[Case, ...]
    function: Function
    dtypes: str
    modes: tuple[str, ...]
    needs: Mapping[str, tuple[Any, ...]]
    kinds: tuple[str, ...]
    convention: str | None
    depends: tuple[str, ...]
    smoke: bool
    thorough: bool

    @property
    def family(self) -> str:
        """The part of the id before the dash."""
        return self.id.split("-")[0]


def rule(
    identity: str,
    *,
    source: str,
    cases: Iterable[Case],
    dtypes: str = "all",
    modes: tuple[str, ...] = ("train", "eval"),
    needs: Mapping[str, Any] | None = None,
    kinds: tuple[str, ...] = ("kernel", "module"),
    convention: str | None = None,
    depends: tuple[str, ...] | None = None,
    smoke: bool = False,
    thorough: bool = False,
) -> Callable[[Function], Function]:
    """Make a rule of a function. `depends` defaults to the conventions that its cases touch."""

    def mark(function: Function) -> Function:
        sentence, _, reason = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
        listed = tuple(cases)
        wanted = {name: value if isinstance(value, tuple) else (value,) for name, value in (needs or {}).items()}
        touched = conventions_of(listed) if depends is None else depends
        made = Rule(
            identity, " ".join(sentence.split()), " ".join(reason.split()), source, listed, function, dtypes, modes,
            wanted, kinds, convention, tuple(name for name in touched if name != convention), smoke, thorough,
        )  # fmt: skip
        function.rule = made  # type: ignore[attr-defined]
        return function

    return mark


def conventions_of(cases: Iterable[Case]) -> tuple[str, ...]:
    """Return the conventions on which the expectation of the cases depends."""
    touched = {"layout": True, "scale": True, "causal": True}
    for case in cases:
        if case.mask is not None:
            touched["mask_means"] = True
        if case.may_have_empty_rows:
            touched["empty_row"] = True
        if case.keys == 0:
            touched["no_keys"] = True
        if case.mask is not None and case.causal:
            touched["causal_with_mask"] = True
    return tuple(touched)


@lru_cache(maxsize=1)
def catalogue() -> Mapping[str, Rule]:
    """Return every rule by id: smoke rules first, then conventions after those they depend on, then the rest."""
    from . import rules

    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules(rules.__path__):
        module = importlib.import_module(f"{rules.__name__}.{info.name}")
        for value in vars(module).values():
            made = getattr(value, "rule", None)
            if isinstance(made, Rule) and value.__module__ == module.__name__:
                if made.id in found or made.id in RETIRED:
                    raise UnknownRule(f"the id {made.id} is given twice or retired; give {value.__name__} a new one")
                found[made.id] = made
    ordered = sorted(
        found.values(),
        key=lambda made: (
            not made.smoke,
            made.convention is None,
            len(made.depends) if made.convention else 0,
            made.id,
        ),
    )
    return {made.id: made for made in ordered}


def get_rule(name: str) -> Rule:
    """Return one rule by its id. Raises UnknownRule."""
    rules = catalogue()
    if name not in rules:
        raise UnknownRule(f"no rule {name!r}{nearest(name, rules)} List them with: attention-conformance rules")
    return rules[name]


@lru_cache(maxsize=1024)
def run_first(identity: str, depends: tuple[str, ...]) -> tuple[Rule, ...]:
    """Return the rules that are run before the rule of this id: smoke rules, and those of the conventions it depends on."""
    before = itertools.takewhile(lambda other: other.id != identity, catalogue().values())
    return tuple(other for other in before if other.smoke or other.convention in depends)


def families() -> tuple[str, ...]:
    """Return the families of the catalogue, sorted."""
    return tuple(sorted({made.family for made in catalogue().values()}))
