"""Audit torch's own attention under the installed torch: `python -m tests.survey.history.run`.

Every version is judged with what is declared of version BASE, so that a change of behaviour shows as a rule that stops
or begins to hold. The result is kept beside this file, `torch-VERSION.jsonl.gz`, with one line of each message. Run it
under BASE first; `python -m tests.survey.history.page` makes the page from all files.
"""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attention_conformance.auditing.workers import audit_many, gather
from attention_conformance.environment import header
from attention_conformance.results import Audited, Line, described_line, dump, header_line, judged_line, record_line
from tests.survey.entries.torch_own import ENTRIES

BASE = "2.13.0"
FOLDER = Path(__file__).parent
LONGEST = 300
"""Characters of a message that are kept."""


@dataclass(frozen=True)
class Version:
    """The results under one version of torch."""

    torch: str
    header: Mapping[str, Any]
    audited: Mapping[str, Audited]


def path_of(version: str) -> Path:
    """Return where the results of a version lie."""
    return FOLDER / f"torch-{version}.jsonl.gz"


def load(path: Path) -> Version:
    """Return the results in a file."""
    import json

    first, *lines = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode("ascii").splitlines()]
    found = {each.described.target: each for each in gather(lines)}
    return Version(plain(first["torch"]), first, found)


def plain(version: str) -> str:
    """Return a version without the part that names the build."""
    return version.partition("+")[0]


def declarations() -> Mapping[str, Mapping[str, Any]]:
    """Return what is declared of each target under BASE, nothing under BASE itself: there the adapters say it."""
    if plain(torch.__version__) == BASE:
        return {}
    return {target: each.described.capabilities for target, each in load(path_of(BASE)).audited.items()}


def trimmed(audited: Audited) -> Iterator[Line]:
    """Yield the lines of one implementation, each message cut to what was seen."""
    yield described_line(audited.described)
    for record in audited.records:
        seen = f"  seen      {record.seen[:LONGEST]}" if record.message else ""
        yield record_line(replace(record, message=seen, seconds=0.0, pictures=()))
    yield judged_line(audited.judged)


def main() -> int:
    """Run the command and return its exit status."""
    declared = declarations()
    targets = [(entry.target, declared.get(entry.target, {})) for entry in ENTRIES]
    lines = [header_line(header("default", None))]
    for audited in audit_many(targets, workers=2, timeout=180.0):
        print(f"{audited.judged.verdict!s:18}{audited.name}", flush=True)
        lines += trimmed(audited)
    text = "".join(map(dump, lines)).encode("ascii")
    path_of(plain(torch.__version__)).write_bytes(gzip.compress(text, mtime=0))
    return 0


if __name__ == "__main__":
    sys.exit(main())
