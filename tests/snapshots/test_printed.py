"""What this project prints, kept as it stands, so that a change of wording or layout shows in review.

To update after a change that is meant: `pytest tests/snapshots/test_printed.py --snapshot-update`, then read the
difference of `__snapshots__/test_printed.ambr` before it is committed. The texts live there, beside the tests; nothing
of this repository's own is ever kept in its top-level `snapshots/`.
"""

from __future__ import annotations

import io
import re

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from attention_conformance import cli
from attention_conformance.implementation import describe
from attention_conformance.records import Record
from attention_conformance.reference.attention import attention
from attention_conformance.report import terminal
from attention_conformance.report.combining import Entry
from attention_conformance.rulebook import catalogue
from attention_conformance.runner import check
from tests.made import HEADER, audited, record

Tensor = torch.Tensor
SCRIPTED = "MASK-002"
"""The one rule whose story is kept with its script."""


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Return what the command prints where it is piped."""
    assert cli.run(arguments) == cli.CONFORMS
    return capsys.readouterr().out


def test_the_catalogue(capsys: pytest.CaptureFixture[str]) -> None:
    """Every id with its sentence. The sentences are kept where they are written, so that a new rule is written once."""
    told = " ".join(printed(capsys, "rules").split())
    for rule in catalogue().values():
        assert rule.id in told
        assert rule.sentence in told


def test_one_rule(capsys: pytest.CaptureFixture[str], snapshot: SnapshotAssertion) -> None:
    assert printed(capsys, "rules", "MASK-002") == snapshot


def test_the_table(snapshot: SnapshotAssertion) -> None:
    """Made of made-up records: counts of real ones change with every new rule."""
    passing = [record(dtype=dtype, ratio=0.25) for dtype in ("fp64", "fp32", "bf16")]
    failing = [
        record(
            ratio=3.14159, outcome="failed", message="The rule.\n  case      one\n  seen      output is 1, expected 2"
        ),
        record(
            dtype="fp64", outcome="failed", message="The rule.\n  case      one\n  seen      output is 1, expected 2"
        ),
        record("MASK-004", outcome="not-run", message="MASK-002 failed: empty_row is not as declared"),
        record("SHAPE-001", None, "deviation", message="known"),
        record("WEIGHTS-001", outcome="not-applicable", message="second=None"),
    ]
    console = terminal.make_console()
    console.file = io.StringIO()
    results = [audited(*passing, verdict="conforms"), audited(*failing)]
    terminal.report(console, [Entry(HEADER, each) for each in results], verbosity=0)
    assert console.file.getvalue() == snapshot


def with_zeros(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Rows without a key give zeros, which is a convention and has to be declared."""
    output, _ = attention(query, key, value, mask)
    return output if mask is None else output.masked_fill((mask == 0).all(-1, keepdim=True), 0.0)


def without_scale(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """The scores are not divided by anything."""
    output: Tensor = attention(query * query.shape[-1] ** 0.5, key, value, mask)[0]
    return output


def refusing(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """It raises for whatever it is given a mask with."""
    if mask is not None:
        raise RuntimeError("masks are for others")
    output: Tensor = attention(query, key, value, mask)[0]
    return output


@pytest.mark.parametrize(
    ("target", "rule"), [(with_zeros, "MASK-002"), (without_scale, "NUMERIC-001"), (refusing, "MASK-003")]
)
def test_a_failure_story(target: object, rule: str, snapshot: SnapshotAssertion) -> None:
    """A convention that is not declared, one that is measured, and an implementation that raises."""
    assert callable(target)
    [found] = check(describe(target, dtypes=("fp32",)), select=(rule,), name="kernels:attend")
    assert normalised(found) == snapshot


def normalised(found: Record) -> str:
    """Return a record's text without what changes from machine to machine: places of files, last digits."""
    text, script, told = found.message.partition("\n  to reproduce, paste:")
    if found.rule == SCRIPTED:
        text += script + re.sub(r"'[^']*/test_printed\.py'", "'FOLDER/test_printed.py'", told)
    text = re.sub(r"\(at [\w./-]+:\d+\)", "(at FILE:LINE)", text)
    text = re.sub(r"\d+\.\d{3,}(?:e[+-]?\d+)?|\d+(?:\.\d+)?e[+-]\d+", _rounded, text)
    return f"{found.key} {found.outcome}\n{text}"


def _rounded(match: re.Match[str]) -> str:
    return f"{float(match[0]):.2g}"
