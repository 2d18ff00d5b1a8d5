"""What stands in the cells of the survey's two matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from attention_conformance.capabilities import Capabilities, capabilities
from attention_conformance.conventions.table import CONVENTIONS
from attention_conformance.references import REFERENCES
from attention_conformance.rulebook import families

from .summary import Summary

ALWAYS = tuple(dict.fromkeys(("layout", "mask", "mask_means", *CONVENTIONS, "precision", "dtypes")))
"""Capabilities with a column of their own: the conventions of the catalogue, and what they are read with."""

READ, PROBED = "†", "‡"
"""Marks of an answer that was read off the arguments of the call, and of one that a probe found."""

_APPLIES = ("passed", "failed", "error", "not-run", "deviation")
_BOLD = {"departs", "broken"}


def labels(rows: Sequence[Summary]) -> dict[str, str]:
    """Return a short name for each target: the last part of its module or file, and what is named there."""
    short = {row.target: _short(row.target) for row in rows}
    taken = list(short.values())
    return {target: target if taken.count(name) > 1 else name for target, name in short.items()}


def _short(target: str) -> str:
    place, colon, name = target.partition(":")
    last = place.rpartition("/")[2] if place.endswith(".py") else place.rpartition(".")[2]
    return f"{last}{colon}{name}"


def family_columns(rows: Sequence[Summary]) -> tuple[str, ...]:
    """Return the families of the catalogue of which some rule applies to some row."""
    return tuple(each for each in families() if any(_applicable(row.families.get(each, {})) for row in rows))


def _applicable(counts: Mapping[str, int]) -> int:
    return sum(counts.get(outcome, 0) for outcome in _APPLIES)


def family_cell(counts: Mapping[str, int]) -> str:
    """Return the sign of a family and how many of its judgements it stands for."""
    total = _applicable(counts)
    signs = {
        "✗": counts.get("failed", 0) + counts.get("error", 0),
        "?": counts.get("not-run", 0),
        "±": counts.get("deviation", 0),
    }
    told = [f"{sign} {number}/{total}" for sign, number in signs.items() if number]
    if told:
        return ", ".join(told)
    return f"✓ {total}" if total else "–"


def verdict_cell(row: Summary) -> str:
    """Return the verdict, one that speaks against the implementation in bold."""
    return f"**{row.verdict}**" if row.verdict in _BOLD else row.verdict


def answers(row: Summary) -> dict[str, str]:
    """Return the answers of an implementation by heading, those that are not its reference's in bold."""
    standard = _standard(row.reference)
    told = {name: _answer(name, row.capabilities, standard) + _mark(name, row) for name in ALWAYS}
    further = [
        f"{name} {_written(value)}{_mark(name, row)}"
        for name, value in row.capabilities.items()
        if name not in ALWAYS and name in standard and _plain(value) != standard[name]
    ]
    return {**{name.replace("_", " "): text for name, text in told.items()}, "further": "; ".join(further)}


def _mark(name: str, row: Summary) -> str:
    return READ if name in row.recognised else PROBED if name in row.inferred else ""


def _standard(reference: str | None) -> dict[str, Any]:
    own = capabilities(REFERENCES[reference].defaults, {}) if reference is not None else Capabilities()
    return {name: _plain(value) for name, value in asdict(own).items()}


def _answer(name: str, own: Mapping[str, Any], standard: Mapping[str, Any]) -> str:
    if name not in own:
        return ""
    text = _written(own[name])
    return text if _plain(own[name]) == standard.get(name) else f"**{text}**"


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _written(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, float):
        return f"{value:g}"
    return "none" if value is None else str(value)
