"""`pytest --attention-report FILE` writes the result file that an audit writes, whatever becomes of the session."""

from __future__ import annotations

import json

import pytest

from attention_conformance.auditing.workers import audit_many
from attention_conformance.implementation import describe
from attention_conformance.records import Outcome, Verdict
from attention_conformance.results import ResultFile, read
from attention_conformance.selection import plan
from tests.plugin.suites import ALONE, repository

pytest_plugins = ["pytester"]

TWO = """
flash = register(kernels.attend, dtypes=("fp32",))
other = register(
    kernels.with_the_mask_turned_round, dtypes=("fp32",), deviations=[Deviation("SHAPE-001", reason="of old")],
)
"""
SMALL = ("-k", "SHAPE or MASK-001 or MASK-003")


def reported(pytester: pytest.Pytester, *arguments: str) -> ResultFile:
    pytester.runpytest_subprocess("--attention-report", "r.jsonl", *ALONE, *arguments)
    return read(pytester.path / "r.jsonl")


def comparable(file: ResultFile) -> dict[str, dict[str, object]]:
    """Return the outcome of every record and the verdict, by implementation."""
    return {
        each.name: {str(r.key): r.outcome for r in each.records} | {"verdict": each.judged.verdict}
        for each in file.audited
    }


def test_the_file_holds_every_record_and_the_verdicts(pytester: pytest.Pytester) -> None:
    repository(pytester, TWO)
    file = reported(pytester)
    flash, other = file.audited
    assert tuple(record.key for record in flash.records) == plan(describe(len, dtypes=("fp32",)))
    assert (flash.name, flash.judged.verdict) == ("test_attention.py::flash", Verdict.CONFORMS)
    assert other.judged.verdict is Verdict.DEPARTS
    assert "nothing departs from SHAPE-001 any more" in other.judged.stale[0]
    assert flash.described.capabilities["dtypes"] == ["fp32"]


def test_an_audit_of_the_same_module_says_the_same(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(pytester, TWO)
    file = reported(pytester)
    monkeypatch.chdir(pytester.path)
    by_audit = ResultFile(file.header, tuple(audit_many(["test_attention.py"])))
    assert comparable(file) == comparable(by_audit)


def test_under_xdist_the_file_holds_the_same(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    repository(pytester, TWO)
    alone = reported(pytester, *SMALL)
    assert comparable(reported(pytester, "-n2", *SMALL)) == comparable(alone)


def test_a_test_that_ends_its_worker_is_an_error_in_the_file(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    repository(pytester, "import os\ndead = register(lambda *arguments: os._exit(7), name='dead', dtypes=('fp32',))\n")
    (dead,) = reported(pytester, "-n1", "--max-worker-restart=0", "-k", "SHAPE-001").audited
    (record,) = dead.records
    assert (record.outcome, dead.judged.verdict) == (Outcome.ERROR, Verdict.BROKEN)
    assert "crashed while running" in record.seen


def test_a_killed_session_leaves_whole_lines_without_a_footer(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        "import os\ndef dies(query, key, value, mask=None):\n"
        "    return os._exit(7) if mask is not None else kernels.attend(query, key, value)\n"
        "dead = register(dies, name='dead', dtypes=('fp32',))\n",
    )
    pytester.runpytest_subprocess("--attention-report", "r.jsonl", *ALONE)
    lines = [json.loads(line) for line in (pytester.path / "r.jsonl").read_text().splitlines()]
    assert [line["type"] for line in lines[:3]] == ["header", "implementation", "record"]
    assert lines[-1]["type"] == "record"


def test_a_session_without_registrations_has_an_empty_file(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_theirs():\n    pass\n")
    assert reported(pytester).audited == ()


def test_a_file_that_cannot_be_written_is_refused_at_once(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_theirs():\n    pass\n")
    result = pytester.runpytest_subprocess("--attention-report", "nowhere/r.jsonl", *ALONE)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --attention-report nowhere/r.jsonl: No such file or directory. Name a file*"])
