"""Declared departures from single rules."""

from __future__ import annotations

import re
from dataclasses import dataclass

from .dtypes import DTYPES
from .errors import InvalidDeviation

_RULE_ID = re.compile(r"[A-Z]+-\d{3}")
_WHEN = re.compile(r"\s*(dtype|device|torch)\s*(==|!=|<=|>=|<|>)\s*([\w.:+]+)\s*")
_DEVICE = re.compile(r"[a-z]+(:\d+)?")
_VERSION = re.compile(r"(\d+(?:\.\d+)*)(?:\.?(?:a|b|rc|dev|post)\d*)*(?:\+[\w.]+)?")


@dataclass(frozen=True)
class Deviation:
    """One rule that an implementation knowingly does not follow.

    `rule` is one rule id, `reason` a sentence, `link` where it is discussed. A rule under a deviation that departs
    gives the outcome `deviation`; an entry under which nothing departs any more is reported as stale. `when` restricts
    the entry to where all its comparisons hold:

        when       = comparison { "and" comparison }
        comparison = "dtype"  ("==" | "!=") ("fp64" | "fp32" | "bf16" | "fp16")
                   | "device" ("==" | "!=") ("cpu" | "cuda" | "cuda:1" ...)
                   | "torch"  ("==" | "!=" | "<" | "<=" | ">" | ">=") version

    A version compares as far as it is written: 2.4.1 is `== 2.4`, `<= 2.4` and not `> 2.4`. Local parts (`+cpu`) do
    not count, and a pre-release counts as the release that it precedes. A device without a number means all of its
    kind. A rule whose record has no dtype meets no comparison of `dtype`.

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

    @property
    def told(self) -> str:
        """The reason in one line, with the link."""
        reason = " ".join(self.reason.split())
        return f"{reason} ({self.link})" if self.link else reason

    @property
    def written(self) -> str:
        """The entry as it is found in a test module, in short."""
        condition = "" if self.when is None else f", when={self.when!r}"
        return f"Deviation({self.rule!r}, ...{condition})"

    def applies(self, dtype: str | None, device: str, torch_version: str) -> bool:
        """Say whether every comparison of `when` holds."""
        facts = {"dtype": dtype, "device": device, "torch": torch_version}
        return all(_holds(facts[name], sign, value, name) for name, sign, value in conditions(self.when))


def conditions(when: str | None) -> tuple[tuple[str, str, str], ...]:
    """Parse `when` into (name, sign, value) triples; raises InvalidDeviation with the grammar."""
    if when is None:
        return ()
    parts = re.split(r"\s+and\s+", when) if isinstance(when, str) else [when]
    return tuple(_comparison(when, part) for part in parts)


def _comparison(when: str, part: str) -> tuple[str, str, str]:
    match = _WHEN.fullmatch(part) if isinstance(part, str) else None
    if match is None or not _sensible(match[1], match[2], match[3]):
        raise InvalidDeviation(
            f"when={when!r} cannot be read at {part!r}. Write comparisons joined by 'and': 'dtype == fp16' (fp64, "
            "fp32, bf16, fp16; == or !=), 'device != cpu' (== or !=), 'torch < 2.5' (== != < <= > >=)."
        )
    return match[1], match[2], match[3]


def _sensible(name: str, sign: str, value: str) -> bool:
    """Say whether a comparison can ever tell anything: a misspelt dtype would hold nowhere and never be noticed."""
    if name == "torch":
        return _VERSION.fullmatch(value) is not None
    if sign not in ("==", "!="):
        return False
    return value in DTYPES if name == "dtype" else _DEVICE.fullmatch(value) is not None


def _holds(fact: str | None, sign: str, value: str, name: str) -> bool:
    if fact is None:
        return False
    if name != "torch":
        fact = fact if name == "dtype" or ":" in value else fact.split(":")[0]
        return (fact == value) == (sign == "==")
    right = _version(value)
    left = (*_version(fact), *[0] * len(right))[: len(right)]
    results = {"==": left == right, "!=": left != right, "<": left < right, "<=": left <= right, ">": left > right}
    return results.get(sign, left >= right)


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of a release, without what follows them: 2.5.0rc1+cpu is (2, 5, 0)."""
    release = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in release[0].split(".")) if release else ()
