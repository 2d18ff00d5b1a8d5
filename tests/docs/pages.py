"""Markdown pages as a reader follows them: files to write, commands to run, and what these print.

A block whose first line is a comment with a path (`# mykernels.py`) is that file. Lines of a console block that begin with
`$ ` are commands. A text block after a console block shows what its last command prints; `...` stands for anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FENCED = re.compile(r"^```(\S*).*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""A fenced block: its language, and its text."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, and its text."""

    language: str
    text: str


@dataclass(frozen=True)
class File:
    """A file that the reader writes."""

    path: str
    text: str


@dataclass(frozen=True)
class Command:
    """A command that the reader types, and the lines that the page shows of its output."""

    text: str
    shown: tuple[str, ...] = ()


def blocks(page: Path) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    for found in FENCED.finditer(page.read_text(encoding="utf-8")):
        yield Block(found[1], found[2])


def steps(page: Path) -> list[File | Command]:
    """Return what a reader of the page does, in order."""
    found: list[File | Command] = []
    before = ""
    for block in blocks(page):
        named = re.match(r"# (\S+/)?\w+\.py\n", block.text)
        if named is not None:
            found.append(File(named[0][2:].strip(), block.text))
        elif block.language == "console":
            lines = re.findall(r"^\$ (.*?)(?: +# .*)?$", block.text, re.MULTILINE)
            found += [Command(line) for line in lines]
        elif block.language == "text" and before == "console" and isinstance(found[-1], Command):
            found[-1] = Command(found[-1].text, tuple(block.text.splitlines()))
        before = block.language
    return found


def commands(page: Path) -> list[str]:
    """Return every command of a page."""
    return [step.text for step in steps(page) if isinstance(step, Command)]


def missing(shown: tuple[str, ...], printed: str) -> str | None:
    """Return the first shown line that is not printed after the ones before it; None if all are.

    Numbers with a fraction are times and ratios, which differ from machine to machine, and rules are as wide as their table.
    """
    lines = iter(printed.splitlines())
    for line in shown:
        if line.strip(" .") and not any(_pattern(line).fullmatch(each.rstrip()) for each in lines):
            return line
    return None


def _pattern(line: str) -> re.Pattern[str]:
    text = re.escape(line.rstrip())
    text = text.replace(re.escape("..."), ".*")
    text = re.sub(r"\d+\\\.\d+", r"\\d+(\\.\\d+)?", text)
    text = re.sub(r"[=─]{5,}", "[=─]+", text)
    return re.compile(re.sub(r"(\\ )+", r"\\s+", text))
