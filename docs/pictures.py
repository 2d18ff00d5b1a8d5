"""Make the pictures of README.md and docs/: `python -m docs.pictures`, in an environment with the package.

Each is taken from a run of the command that stands beside it, on the kernel that README.md shows. The terminal's is
an SVG; the report's is a PNG by the system's Chromium, and stays as it is where there is none.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from tests.docs.pages import File, steps

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
COMMAND = "attention-conformance audit mykernels.py:attend"
WIDTH = 104
LAST = "to reproduce, paste:"
"""The picture ends with the line that holds this."""
SVG = re.sub(r"@font-face {{.*?}}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace("Fira Code, ", "")
"""rich's picture of a terminal without the fonts that it loads from the network, and without its address."""


def main() -> None:
    """Make both pictures."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "mykernels.py").write_text(first_file("mykernels.py"), encoding="utf-8")
        printed = audited(place)
        (IMAGES / "audit.svg").write_text(terminal(printed), encoding="utf-8")
        photograph(place / "report.html", IMAGES / "report.png")


def first_file(name: str) -> str:
    """Return what README.md shows first as the file of this name."""
    shown = (step.text for step in steps(ROOT / "README.md") if isinstance(step, File) and step.path == name)
    text = next(shown, None)
    if text is None:
        raise SystemExit(f"README.md shows no {name}; begin a Python block with `# {name}`")
    return text


def audited(place: Path) -> str:
    """Run the command in a folder, write its report there, and return what it prints in colour."""
    command = [sys.executable, "-m", *COMMAND.replace("-", "_", 1).split(), "--html", "report.html"]
    environment = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(WIDTH), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 1:
        raise SystemExit(f"{COMMAND} ended with {done.returncode}, and the picture is of a kernel that departs")
    return done.stdout


def terminal(printed: str) -> str:
    """Return an SVG of the command and the first lines that it printed."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, highlight=False)
    console.print(Text.assemble(("$ ", "bold green"), COMMAND))
    for line in printed.splitlines():
        text = Text.from_ansi(line)
        console.print(broken(text))
        if LAST in text.plain:
            break
    return console.export_svg(title="attention-conformance", code_format=SVG)


def broken(text: Text) -> Text:
    """Break a long line where a terminal would, but keep the broken parts below each other."""
    label = re.match(r"\s*(?:\w+\s{2,})?", text.plain)
    indent = label.end() if label and len(text) > WIDTH else 0
    first, rest = text.divide([indent])
    return first + Text("\n" + " " * indent).join(rest.wrap(Console(), WIDTH - indent))


def photograph(page: Path, image: Path) -> None:
    """Write what Chromium shows of the top of a report, without the table of machines: one row of it tells nothing."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print(f"no Chromium: {image.name} stays as it is")
        return
    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r'<table class="plain runs">.*?</table>', "", text, flags=re.DOTALL), encoding="utf-8")
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1320,1000")
    subprocess.run([browser, *options, f"--screenshot={image}", page.as_uri()], check=True, capture_output=True)


if __name__ == "__main__":
    main()
