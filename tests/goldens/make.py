"""Make the golden vectors again: `python -m tests.goldens.make`.

Every vector is proven before any file changes: the document's listing, the float64 oracle and the fifty-digit oracle
agree within the bound. What changes is printed with the largest change of a number; a file that stays the same is not
written. `--check` writes nothing and exits with 1 if something would change.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.goldens import attention, multi_head, self_attention
from tests.goldens.proof import NotProven, prove
from tests.goldens.recipe import Recipe
from tests.goldens.writing import FORMAT, file_of, text_of, written

RECIPES: tuple[Recipe, ...] = (*attention.VECTORS, *multi_head.VECTORS, *self_attention.VECTORS)
RETIRED: tuple[str, ...] = ()
"""Ids of vectors that were in a release once and are never given again."""

SNAPSHOTS = Path(__file__).parents[2] / "snapshots"
INDEX, SCHEMA = "index.json", "schema.json"


def made() -> dict[str, str]:
    """Return the text of every file by its place below snapshots/. Raises NotProven."""
    ids = [recipe.id for recipe in RECIPES]
    if len(set(ids)) != len(ids) or set(ids) & set(RETIRED):
        raise NotProven(
            f"an id is given twice or retired: {sorted(i for i in ids if ids.count(i) > 1 or i in RETIRED)}"
        )
    texts = {file_of(recipe): text_of(prove(recipe)) for recipe in RECIPES}
    return {**texts, INDEX: index(texts)}


def index(texts: Mapping[str, str]) -> str:
    """Return the index: every vector with its file and the checksum of its bytes."""
    entries = []
    for recipe in RECIPES:
        place = file_of(recipe)
        digest = hashlib.sha256(texts[place].encode()).hexdigest()
        entry = {"id": recipe.id, "reference": recipe.reference, "agreement": recipe.agreement, "title": recipe.title}
        entries.append({**entry, "file": place, "sha256": digest})
    return written({"kind": "index", "format": FORMAT, "schema": SCHEMA, "retired": list(RETIRED), "vectors": entries})


def changes(texts: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return, for each file that is not as it would be made, a sentence on how it differs."""
    found = {}
    for place, text in texts.items():
        path = folder / place
        if not path.exists():
            found[place] = "new"
        elif path.read_bytes() != text.encode():
            found[place] = _difference(json.loads(path.read_text(encoding="utf-8")), json.loads(text))
    for path in sorted(folder.glob("*/*.json")):
        place = path.relative_to(folder).as_posix()
        if place not in texts:
            found[place] = "has no recipe any more: remove it and enter its id in RETIRED"
    return found


def _difference(before: Any, after: Any) -> str:
    """Say which parts of a document differ, and the largest change of a number in each."""
    told = [f"{path} {words}" for path, words in sorted(_compared(before, after, "").items())]
    return "; ".join(told) or "written differently, the same numbers"


def _compared(before: Any, after: Any, path: str) -> dict[str, str]:
    if isinstance(before, dict) and isinstance(after, dict):
        found: dict[str, str] = {}
        for name in dict.fromkeys((*before, *after)):
            found |= _compared(before.get(name), after.get(name), f"{path}.{name}".lstrip("."))
        return found
    if before == after:
        return {}
    numbers = _numbers(before, after)
    return {path: "differs" if numbers is None else f"changes by up to {numbers:.3g}"}


def _numbers(before: Any, after: Any) -> float | None:
    """Return the largest difference of two lists of numbers, None where they are no such lists of one length."""
    if not isinstance(before, list) or not isinstance(after, list) or len(before) != len(after):
        return None
    try:
        return max(abs(_number(a) - _number(b)) for a, b in zip(before, after, strict=True))
    except (TypeError, ValueError):
        return None


def _number(value: Any) -> float:
    return float.fromhex(value) if isinstance(value, str) else float(value)


def write(texts: Mapping[str, str], found: Mapping[str, str], folder: Path) -> None:
    """Write the files that differ, and no other."""
    for place in found:
        if place in texts:
            path = folder / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(texts[place].encode())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(description="prove the golden vectors and write those that changed")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something would change")
    parser.add_argument("--folder", type=Path, default=SNAPSHOTS, help="where they lie (default: snapshots/)")
    given = parser.parse_args(arguments)
    try:
        texts = made()
    except NotProven as problem:
        print(f"nothing was written: {problem}")
        return 1
    found = changes(texts, given.folder)
    for place, words in found.items():
        print(f"{place}: {words}")
    if not given.check:
        write(texts, found, given.folder)
    size = sum(len(text) for text in texts.values()) / 1024
    print(f"{len(texts) - 1} vectors proven, {len(found)} of {len(texts)} files changed, {size:.0f} KiB in all")
    stale = any("no recipe" in words for words in found.values())
    return 1 if stale or (given.check and found) else 0


if __name__ == "__main__":
    sys.exit(main())
