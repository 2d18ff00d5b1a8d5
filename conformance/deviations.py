"""Declared departures from single rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .errors import InvalidDeviation

_RULE_ID = re.compile(r"[A-Z]+-\d{3}")
_WHEN = re.compile(r"\s*(dtype|device|torch)\s*(==|!=|<=|>=|<|>)\s*([\w.:]+)\s*")


@dataclass(frozen=True)
class Deviation:
    """One rule that an implementation knowingly does not follow.

    `rule` is one rule id, `reason` a sentence, `link` where it is discussed. `when` restricts the entry, as one or
    more comparisons joined by `and`: `dtype == fp16`, `device == cuda`, `torch < 2.5`. A rule under a deviation that
    departs gives the outcome `deviation`; an entry under which nothing departs is reported as stale.

    Raises InvalidDeviation for an empty reason, a wildcard, a family instead of a rule, or a `when` that cannot be read.
    """

    rule: str
    reason: str
    link: str | None = None
    when: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.rule, str) or not _RULE_ID.fullmatch(self.rule):
            raise InvalidDeviation(
                f"Deviation(rule={self.rule!r}) does not name one rule. A deviation covers one rule id such as "
                "'MASK-003', never a family or '*': list the failing ids one by one."
            )
        if not isinstance(self.reason, str) or not self.reason.strip():
            raise InvalidDeviation(f"Deviation({self.rule!r}) needs a reason: one sentence that says why it stays.")
        conditions(self.when)

    def applies(self, dtype: str | None, device: str, torch_version: str) -> bool:
        """Say whether every comparison of `when` holds. A rule without a dtype meets no `dtype` comparison."""
        facts = {"dtype": dtype, "device": device.split(":")[0], "torch": torch_version}
        return all(_holds(facts[name], sign, value, name) for name, sign, value in conditions(self.when))


def conditions(when: str | None) -> tuple[tuple[str, str, str], ...]:
    """Parse `when` into (name, sign, value) triples; raises InvalidDeviation with the grammar."""
    if when is None:
        return ()
    parsed = []
    for part in re.split(r"\s+and\s+", when):
        match = _WHEN.fullmatch(part)
        if match is None or (match[1] != "torch" and match[2] not in ("==", "!=")):
            raise InvalidDeviation(
                f"when={when!r} cannot be read at {part!r}. Write comparisons joined by 'and': "
                "'dtype == fp16', 'device != cpu', 'torch < 2.5'."
            )
        parsed.append((match[1], match[2], match[3]))
    return tuple(parsed)


def _holds(fact: str | None, sign: str, value: str, name: str) -> bool:
    if fact is None:
        return False
    if name != "torch":
        return (fact == value) == (sign == "==")
    left, right = _version(fact), _version(value)
    left, right = left[: len(right)], right[: len(left)]
    results = {"==": left == right, "!=": left != right, "<": left < right, "<=": left <= right}
    return results.get(sign, left > right if sign == ">" else left >= right)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text.split("+")[0])[:3])
