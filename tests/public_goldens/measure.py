"""Hold the oracle against onnx's node tests: `python -m tests.public_goldens.measure [FOLDER]`.

The installed onnx makes its cases; wheels of older releases in FOLDER hold theirs. The figures are written to
`figures.json` beside this file and to `docs/public-goldens.md`; `--check` writes nothing and exits with 1 if something
would change. A case that disagrees for no known reason is an exit status of 1 as well.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .judging import Figures, judge
from .page import page
from .published import installed, stored

FIGURES = Path(__file__).with_name("figures.json")
PAGE = Path(__file__).parents[2] / "docs" / "public-goldens.md"


def measured(folder: Path | None) -> list[Figures]:
    """Return the figures of every release, newest first."""
    release, cases = installed()
    figures = [judge(release, "made by the installed package", cases)]
    for wheel in folder.glob("onnx-*.whl") if folder is not None else ():
        release, cases = stored(wheel)
        figures.append(judge(release, "stored in the wheel", cases))
    return sorted(figures, key=lambda each: [int(part) for part in each.release.split(".")], reverse=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.public_goldens.measure", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="wheels of other releases of onnx")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if something would change")
    chosen = parser.parse_args(arguments)
    figures = measured(chosen.folder)
    lines = [each.line() for each in figures]
    texts = {FIGURES: json.dumps(lines, indent=1) + "\n", PAGE: page(lines)}
    changed = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if not chosen.check:
        for path in changed:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path], encoding="utf-8")
    for each in figures:
        print(f"onnx {each.release}: {each.cases} cases, {each.agreeing} agree, {len(each.disagreeing)} disagree")
        for name in each.unexplained:
            print(f"  {name} disagrees for no known reason")
    return 1 if any(each.unexplained for each in figures) or (chosen.check and changed) else 0


if __name__ == "__main__":
    sys.exit(main())
