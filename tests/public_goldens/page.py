"""`docs/public-goldens.md` from the figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.survey.markdown import counted, table

Line = Mapping[str, Any]

_INTRODUCTION = """\
# The oracle against numbers that others published

Made by `tox -e public-goldens`; do not edit.

Every verdict of this suite rests on its float64 oracle. Its own tests hold it against a second oracle of fifty digits
and against numbers worked out by hand. This page holds it against the largest public set of expected attention
results: the node tests of onnx for the operators `Attention` (opsets 23 to 25) and `FlexAttention`, of several releases.

Each case is turned into a problem for the oracle: scale, soft cap, causal with its offset, past keys, lengths, windows,
masks of every rank, grouped heads, inputs of three axes, all modes of the score output. Each published array is then
compared element by element with the error that rounding may have left in it (the bound by which implementations are
judged, profile `eager`), not with one tolerance. A ratio of 1 is an error as large as the bound; outputs that copy
(`present_key`, `present_value`) have to be equal bit for bit. Cases whose name ends in `_expanded` hold the same
numbers a second time and are left out.
"""

_ELSEWHERE = """\
## Looked for elsewhere

onnxruntime keeps attention cases that were typed by hand in its source tree, but no package carries them: the wheel
onnxruntime 1.32.0 and the npm packages onnxruntime-web 1.30.0 and onnxruntime-common 1.30.0 hold no test data.
"""


def page(lines: Sequence[Line]) -> str:
    """Return the page over the figures of some releases, newest first."""
    parts = [_INTRODUCTION, _releases(lines), _ratios(lines), *_faults(lines), *_unmapped(lines), _ELSEWHERE]
    return "\n".join(parts)


def _releases(lines: Sequence[Line]) -> str:
    head = ("onnx", "cases", "agree", "disagree", "explained by a known difference", "do not map", "numbers are")
    rows = []
    for line in lines:
        wrong = line["disagreeing"]
        explained = sum(bool(each["differences"]) for each in wrong)
        numbers = (line["cases"], line["agreeing"], len(wrong), explained, len(line["unmapped"]))
        rows.append((line["release"], *numbers, line["source"]))
    return "## Releases\n\n" + table(head, rows)


def _ratios(lines: Sequence[Line]) -> str:
    head = ("onnx", "dtype", "comparisons", "worst error / bound", "in")
    rows = [
        (line["release"], dtype, worst["comparisons"], f"{worst['ratio']:.2g}", f"`{worst['output']}` of `{worst['case']}`")
        for line in lines
        for dtype, worst in sorted(line["worst"].items())
    ]  # fmt: skip
    return "## How near\n\nOver the cases that agree:\n\n" + table(head, rows)


def _faults(lines: Sequence[Line]) -> Iterator[str]:
    """Yield, for each release with cases that disagree, what they come from."""
    yield (
        "## Cases that disagree\n\nFor each of them the oracle was asked again with a known difference built into the reading "
        "of the case. The fewest differences under which every number agrees are named.\n"
    )
    found = False
    for line in lines:
        grouped: dict[tuple[str, ...], list[Line]] = {}
        for each in line["disagreeing"]:
            grouped.setdefault(tuple(each["differences"]), []).append(each)
        for differences, members in grouped.items():
            found = True
            why = " ".join(differences) or "No known difference explains these."
            names = ", ".join(f"`{each['case']}`" for each in members)
            yield f"- **onnx {line['release']}**, {counted(len(members), 'case')}. {why}\n  {names}"
    yield "" if found else "There is none.\n"


def _unmapped(lines: Sequence[Line]) -> Iterator[str]:
    """Yield the cases that do not map, by reason."""
    yield "## Cases that do not map\n"
    reasons: dict[str, list[str]] = {}
    for line in lines:
        for name, why in line["unmapped"].items():
            reasons.setdefault(why, []).append(f"`{name}` ({line['release']})")
    yield from (f"- {why}: {', '.join(names)}" for why, names in reasons.items())
    yield "" if reasons else "There is none.\n"
