"""How outcomes, verdicts and numbers look on the page: a sign beside every colour, so that neither says it alone."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..records import Outcome, Verdict
from .wording import SIGNS


@dataclass(frozen=True)
class Sign:
    """A sign: `tone` names its colours in the style sheet, `mark` is one character, `word` what it is called."""

    tone: str
    mark: str
    word: str
    meaning: str

    def count(self, number: int) -> str:
        """Return how many there are, with the word in the right form."""
        plural = "s" if self.word in ("error", "deviation") and number != 1 else ""
        return f"{number:,} {self.word}{plural}"


def _sign(outcome: Outcome, tone: str, meaning: str) -> Sign:
    return Sign(tone, SIGNS[outcome], str(outcome).replace("-", " "), meaning)


OUTCOMES: Mapping[Outcome, Sign] = {
    Outcome.PASSED: _sign(Outcome.PASSED, "good", "the rule holds"),
    Outcome.FAILED: _sign(Outcome.FAILED, "bad", "the result is not what the rule says"),
    Outcome.ERROR: _sign(Outcome.ERROR, "worse", "it raised, crashed or hung"),
    Outcome.NOT_RUN: _sign(Outcome.NOT_RUN, "open", "what the rule depends on failed first"),
    Outcome.DEVIATION: _sign(Outcome.DEVIATION, "declared", "it departs as declared, with a reason"),
    Outcome.NOT_APPLICABLE: _sign(Outcome.NOT_APPLICABLE, "apart", "ruled out by a convention or by what is offered"),
}

VERDICTS: Mapping[Verdict, Sign] = {
    Verdict.CONFORMS: Sign("good", SIGNS[Outcome.PASSED], "conforms", "to the reference in every rule that applies"),
    Verdict.DECLARED: Sign(
        "declared", SIGNS[Outcome.DEVIATION], "conforms as declared", "with deviations or conventions of its own"
    ),
    Verdict.DEPARTS: Sign("bad", SIGNS[Outcome.FAILED], "departs", "at least one rule does not hold"),
    Verdict.BROKEN: Sign("worse", SIGNS[Outcome.ERROR], "broken", "it cannot be loaded or called, or it crashed"),
}

FINE = (Outcome.PASSED, Outcome.NOT_APPLICABLE)
"""Outcomes that need no reader."""


def short_ratio(ratio: float | None) -> str:
    """Return a ratio of error to bound in at most six characters; nothing for none."""
    if ratio is None:
        return ""
    if not math.isfinite(ratio):
        return "NaN" if math.isnan(ratio) else "∞"
    if ratio and not 0.001 <= abs(ratio) < 9999.5:
        mantissa, exponent = f"{ratio:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    return f"{ratio:.0f}" if abs(ratio) >= 100 else f"{ratio:.2g}"


def counted(number: int, word: str) -> str:
    """Return a number with its noun in the right form."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"


def shortened(text: str, limit: int) -> str:
    """Return a text, or its beginning and how much is left out."""
    if len(text) <= limit:
        return text
    return f"{text[:limit].rstrip()} … ({len(text) - limit:,} more characters in the result file)"


def pieces(name: str) -> list[str]:
    """Return the parts of a name between which a line may be broken: after its separators."""
    return _SEPARATORS.split(name)


def visible(text: str) -> str:
    """Return a text in which what has no shape of its own can be seen: controls, lone surrogates, writing directions."""
    return text.translate(_SHAPELESS) if not text.isascii() or not text.isprintable() else text


_SEPARATORS = re.compile(r"(?<=[._:/\[])")


def _escapes() -> Mapping[int, str]:
    controls = [*range(0x20), *range(0x7F, 0xA0)]
    directions = [0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0xFEFF]
    surrogates = range(0xD800, 0xE000)
    shapeless = [code for code in (*controls, *directions, *surrogates) if chr(code) not in "\n\t"]
    return {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in shapeless}


_SHAPELESS = _escapes()
