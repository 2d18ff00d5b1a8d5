"""`attention-conformance init`: write the first test module for the attention that a repository holds."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .ending import CONFORMS, NOTHING, USAGE, Stop

if TYPE_CHECKING:
    from ..starting.findings import Found, LeftOut
    from ..starting.layout import Layout

MOST_LEFT_OUT = 12
"""How much of what was left out is told."""


@click.command(short_help="Write the first test module for the attention in a folder.")
@click.argument("folder", required=False, default=".", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "-o", "--output", metavar="FILE", show_default="tests/test_attention.py", help="Write to FILE, or print with -."
)
def init(folder: Path, output: str | None) -> int:
    """Write the first test module for the attention in FOLDER.

    Without FOLDER the current one is searched. Source files are read and not executed: functions of query, key and
    value, and torch modules that are called with them, or with one tensor, and built from a width and a number of
    heads. An existing file is left as it is.

    \b
    $ attention-conformance init
    $ attention-conformance init path/to/repository --output -

    Exit codes: 0 written, 2 bad usage or the file exists, 3 nothing was found.
    """
    from ..starting.layout import layout_of
    from ..starting.recognise import recognise
    from ..starting.scan import scan
    from ..starting.write import module_text

    layout = layout_of(folder)
    scanned = scan(layout)
    findings = recognise(scanned.sources)
    printed = output == "-"
    path = folder / layout.tests / "test_attention.py" if output in (None, "-") else Path(output or "")
    for line in _told(findings.found, [*findings.left_out, *scanned.unreadable]):
        click.echo(line, err=printed)
    if not findings.found:
        raise Stop(NOTHING, _nothing(folder, scanned.files, path))
    if printed:
        click.echo(module_text(findings.found), nl=False)
    else:
        _write(path, findings.found)
        click.echo(f"wrote    {_plain(path)}\n\n{_next_steps(layout, findings.found, path)}")
    return CONFORMS


def _told(found: Sequence[Found], left_out: Sequence[LeftOut]) -> Iterator[str]:
    from ..foreign.edge import safe

    for each in found:
        framework = "" if each.framework == "torch" else f", {each.framework}"
        yield safe(f"found    {each.place} ({each.judged.kind} of {', '.join(each.judged.takes)}{framework})")
    for left in left_out[:MOST_LEFT_OUT]:
        yield safe(f"left out {left.place}: {left.why}")
    if len(left_out) > MOST_LEFT_OUT:
        yield f"left out {len(left_out) - MOST_LEFT_OUT} more"


def _plain(path: Path) -> str:
    from ..foreign.edge import safe

    return safe(path.as_posix())


def _write(path: Path, found: Sequence[Found]) -> None:
    """Write the module to a new file. Raises ModuleExists where there is one; what could be added to it is printed."""
    from ..starting.write import ModuleExists, create, imports, registrations

    try:
        create(path, found)
    except ModuleExists:
        click.echo(f"\n{imports(found)}\n{registrations(found)}")
        raise
    except OSError as error:
        raise Stop(
            USAGE, f"{_plain(path)}: {error.strerror}. Name a file that can be written: --output FILE."
        ) from None


def _nothing(folder: Path, files: int, path: Path) -> str:
    read = f"{files} Python file{'' if files == 1 else 's'} read"
    return (
        f"nothing in {_plain(folder)} is attention by its arguments ({read}; tests, docs, examples and hidden folders "
        "are left out). Looked for: functions of query, key and value, or of a packed qkv, under their usual names; torch "
        "modules that are called with these, or with one tensor, and built from a width and a number of heads.\n"
        f"Name another folder, or write {_plain(path)} by hand:\n\n"
        "from attention_conformance import register\n"
        "from yourpackage import attend\n\n"
        "flash = register(attend)"
    )


def _next_steps(layout: Layout, found: Sequence[Found], path: Path) -> str:
    steps = []
    inside = path.is_relative_to(layout.folder)
    if layout.folder.resolve() != Path.cwd():
        steps.append(f"cd {shlex.quote(_plain(layout.folder))}")
        path = path.relative_to(layout.folder) if inside else path.resolve()
    missing = next((each for each in found if layout.needs_installing(each.module)), None)
    if missing is not None and layout.is_installable:
        steps.append(f"pip install -e .        # {missing.module} is not installed here")
    where = "" if missing is None or layout.is_installable else f"PYTHONPATH={layout.search_path(missing.place.path)} "
    steps.append(f"{where}python -m pytest {shlex.quote(_plain(path))}")
    probe = f"attention-conformance probe {shlex.quote(_plain(path))}"
    return (
        "next:\n" + "".join(f"  {each}\n" for each in steps) + f"what to declare, if a convention differs:\n  {probe}"
    )
