"""Makes docs/probe.md from what `tests.probing.measure` found: `python -m tests.probing.page`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .comparing import MISS, OFFERS, QUESTIONS

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "probe.md"
FILES = {"sound programs of the tests": HERE / "programs.json", "real implementations": HERE / "survey.json"}

HEAD = """# What the probe finds out

Made by `python -m tests.probing.page`; do not edit.

`attention-conformance probe TARGET` finds every capability by experiment, whatever was declared. Here its answers are
held against those that were declared by hand, of the sound programs in `tests/zoo/sound` and of the implementations in
the [survey](survey.md). A *hit* is the declared answer. *Wider* is more than what is declared: another shape of mask, a
dtype, a second derivative, a narrower profile of rounding. Everything else is a *miss*, and listed.
"""


def page(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page for the results by their title."""
    return "\n".join([HEAD, *_tables(found), *_misses(found)]) + "\n"


def _tables(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for title, result in found.items():
        yield f"## {result['implementations']} {title}, torch {result['torch']}\n"
        yield "| capability | hits | wider | misses |\n| --- | --- | --- | --- |"
        for name in (*QUESTIONS, *OFFERS):
            hits, wider, misses = result["counts"][name]
            yield f"| `{name}` | {hits} | {wider or ''} | {misses or ''} |"
        totals = [sum(counts[place] for counts in result["counts"].values()) for place in range(3)]
        yield f"| all | {totals[0]} | {totals[1]} | {totals[2]} |\n"


def _misses(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "## Misses\n"
    yield "| implementation | capability | declared | found |\n| --- | --- | --- | --- |"
    for result in found.values():
        for each in result["differing"]:
            if each["result"] == MISS:
                shown = " | ".join(f"`{json.dumps(each[name])}`" for name in ("declared", "found"))
                yield f"| `{each['implementation'].rpartition('/')[2]}` | `{each['capability']}` | {shown} |"


def results() -> dict[str, dict[str, Any]]:
    """Return what was measured last."""
    return {title: json.loads(file.read_text()) for title, file in FILES.items()}


if __name__ == "__main__":
    PAGE.write_text(page(results()))
