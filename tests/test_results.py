"""The result file: what is written is what is read, and what is torn or doubled is refused."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attention_conformance.errors import InvalidResultFile
from attention_conformance.records import Picture
from attention_conformance.results import (
    Writer,
    described_line,
    judged_line,
    lines_of,
    read,
    record_line,
    schema,
    unloadable,
)
from tests.made import HEADER, audited, record

jsonschema = importlib.import_module("jsonschema")  # it has no types

RESULT = audited(
    record(
        outcome="failed",
        message="half \ud800 é",
        ratio=float("inf"),
        case="plain",
        diagnosis=("declare x",),
        pictures=(
            Picture("error", "output", (0, 1), ("L", "E"), (5, 2), (3, 0), ("0 1e+12", "inf nan"), (4, 1)),
            Picture("asked", "keys", (), ("L", "S"), (1, 1), (0, 0), ("1",)),
        ),
    ),
    record(dtype="bf16", ratio=0.25),
    record("ERRORS-001", None, "error", ratio=float("nan")),
    record("ERRORS-002", None, "not-run", message="because"),
    stale=("remove it",),
)


@pytest.fixture
def written() -> str:
    """A complete file with one implementation, and one target that could not be loaded."""
    file = io.StringIO()
    writer = Writer(file, HEADER)
    described, judged = unloadable("nowhere:f", "there is no module 'nowhere'")
    for line in [*lines_of(RESULT), described_line(described), {"type": "planned"}, judged_line(judged)]:
        writer.write(line)
    writer.close()
    return file.getvalue()


def save(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "results.jsonl"
    path.write_text(text, encoding="utf-8")
    return path


def test_every_line_follows_the_schema_and_is_ascii(written: str) -> None:
    written.encode("ascii")
    lines = written.splitlines()
    assert [json.loads(line)["type"] for line in lines] == [
        "header", "implementation", *["record"] * 4, "verdict", "implementation", "verdict", "footer",
    ]  # fmt: skip
    for line in lines:
        jsonschema.validate(json.loads(line), schema())
    assert json.loads(lines[2])["ratio"] == "inf"
    assert json.loads(lines[4])["ratio"] == "nan"


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "fine"},
        {"rule": "mask"},
        {"dtype": "float32"},
        {"ratio": "large"},
        {"seconds": None},
        {"more": 1},
    ],
)
def test_the_schema_refuses_other_lines(written: str, change: dict[str, Any]) -> None:
    line = json.loads(written.splitlines()[2]) | change
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(line, schema())


def test_what_is_read_is_what_was_written(tmp_path: Path, written: str) -> None:
    file = read(save(tmp_path, written))
    first, second = file.audited
    assert file.header == HEADER
    assert (first.described, first.judged) == (RESULT.described, RESULT.judged)
    assert [record_line(each) for each in first.records] == [record_line(each) for each in RESULT.records]
    assert first.records[0] == RESULT.records[0]
    assert (second.name, second.loaded, second.records) == ("nowhere:f", False, ())


def edit(number: int, **changes: Any) -> Callable[[list[str]], list[str]]:
    """Return what changes fields of one line."""
    return lambda lines: [
        json.dumps(json.loads(line) | changes) if place == number else line for place, line in enumerate(lines)
    ]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda lines: lines[:-1], "no footer: the run that wrote it did not come to its end"),
        (lambda lines: lines[:3] + lines[4:], "has 3 records and its footer says 4: lines are missing"),
        (lambda lines: lines[:3] + lines[2:], "holds kernels:attend MASK-003.fp32. twice"),
        (lambda lines: lines[:2] + lines[1:], "holds kernels:attend twice"),
        (lambda lines: lines[:7] + lines[6:], "holds the verdict of kernels:attend twice"),
        (lambda lines: lines[:6] + lines[7:], "no verdict of kernels:attend"),
        (lambda lines: lines[:1] + lines[2:], "a line for 'kernels:attend' before its implementation line"),
        (lambda lines: lines[1:], "does not begin with a header"),
        (lambda lines: [], "does not begin with a header"),
        (lambda lines: [*lines[:2], "{", *lines[3:]], "line 3 is no JSON object"),
        (edit(0, schema=2), "has schema 2, .* which reads schema 1"),
        (edit(2, outcome="fine"), "line 3 does not follow the schema"),
        (edit(2, type="note"), "line 3 does not follow the schema"),
    ],
)
def test_a_damaged_file_is_refused(
    tmp_path: Path, written: str, damage: Callable[[list[str]], list[str]], said: str
) -> None:
    path = save(tmp_path, "".join(f"{line}\n" for line in damage(written.splitlines())))
    with pytest.raises(InvalidResultFile, match=said):
        read(path)


def test_a_file_cut_inside_its_last_line_is_refused(tmp_path: Path, written: str) -> None:
    for cut in (1, 2, 30):
        with pytest.raises(InvalidResultFile):
            read(save(tmp_path, written[:-cut]))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidResultFile, match=r"nowhere\.jsonl cannot be read"):
        read(tmp_path / "nowhere.jsonl")
