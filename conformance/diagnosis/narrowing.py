"""What a case needs for a failure to show: each trait is taken away on its own, and the rule is asked again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ..cases.case import Case, vary
from ..foreign.edge import FOREIGN
from ..oracle.comparing import Departure, NotApplicable
from ..rulebook import Rule
from ..trials.trial import Trial


def needed(rule: Rule, trial: Trial) -> tuple[str, ...]:
    """Return the traits of a case without which its rule holds, in words; empty where none is needed alone."""
    return tuple(words for words, case in _simpler(trial.case) if _holds(rule, trial, case))


def _holds(rule: Rule, trial: Trial, case: Case) -> bool:
    try:
        rule.function(trial.at(case))
    except (Departure, NotApplicable, *FOREIGN):
        return False
    return True


def _simpler(case: Case) -> Iterator[tuple[str, Case]]:
    """Yield the words for a trait and the case without it."""
    for words, changes in _traits(case):
        if any(getattr(case, name) != value for name, value in changes.items()):
            yield words, vary(case, f"{case.name}, not {words}", seed=case.seed, **changes)


def _traits(case: Case) -> Iterator[tuple[str, dict[str, Any]]]:
    yield f"{' and '.join(case.strided)} {case.memory} in memory", {"memory": "contiguous"}
    yield "a mask", {"mask": None}
    if case.mask is not None:
        yield f"a mask that is {case.mask.memory}", {"mask": _with(case, memory="contiguous")}
        yield f"a mask {case.mask.axes}", {"mask": _with(case, axes="LS")}
        yield f"the mask's content {case.mask.content!r}", {"mask": _with(case, content="random")}
        yield "finite values in the mask", {"mask": _with(case, finite=False)}
        yield f"the mask's numbers {case.mask.numbers!r}", {"mask": _with(case, numbers="int")}
    yield "causal", {"causal": False}
    yield from (
        (f"{name}={getattr(case, name)}", {name: None}) for name in ("scale", "window", "softcap", "bias", "dropout")
    )
    yield "fewer key heads than query heads", {"kv_heads": None}
    yield "broadcast leading axes", {"broadcast": ()}
    yield "one tensor for several inputs", {"shared": ""}
    yield f"values {case.values!r}", {"values": "signed"}
    yield "several batch elements", {"batch": min(case.batch, 1)}
    if case.kv_heads is None:
        yield "several heads", {"heads": 1}
    yield (
        ("L and S that differ", {"keys": case.queries})
        if case.keys != case.queries
        else ("L = S", {"keys": case.keys + 1})
    )
    yield "more than one query", {"queries": min(case.queries, 1)}
    yield "more than 7 keys", {"keys": min(case.keys, 7)}
    yield "more than 7 queries", {"queries": min(case.queries, 7)}
    yield f"width {case.width}", {"width": 8}
    yield f"value width {case.value_width}", {"value_width": case.width}


def _with(case: Case, **changes: Any) -> Any:
    return None if case.mask is None else replace(case.mask, **changes)
