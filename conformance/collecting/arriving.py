"""pytest: where the records of a session come together, from this process or from the workers of pytest-xdist.

They are written to the file of `--attention-report` as they come. At the end the declared deviations are judged of every
implementation whose planned records all came.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

import pytest

from ..deviations import Deviation
from ..environment import header
from ..errors import NotWritable
from ..foreign.edge import safe
from ..records import SEEN, Key, Outcome, Record, Verdict, counts
from ..results import (
    Described,
    Judged,
    Writer,
    described_line,
    diagnoses,
    judged_line,
    record_line,
    to_described,
    to_record,
)
from ..rulebook import catalogue
from ..verdicts import stale, verdict_over
from ..writable import opened


@dataclass
class Arrived:
    """What came of one implementation: `planned` is the number of keys that a full run has, `declared` whether it has
    conventions of its own, `crashed` whether it ended a process."""

    described: Described
    device: str
    planned: int
    declared: bool
    deviations: tuple[Deviation, ...]
    records: dict[Key, Record] = field(default_factory=dict)
    crashed: bool = False

    @property
    def stale(self) -> tuple[str, ...]:
        """A sentence for each stale deviation; none unless all records came: nothing was deselected, skipped or lost."""
        if not self.deviations or len(self.records) != self.planned:
            return ()
        name, records = self.described.name, self.records.values()
        return tuple(safe(sentence) for sentence in stale(name, self.device, self.deviations, records))

    @property
    def judged(self) -> Judged:
        """The verdict over what came."""
        records = tuple(self.records.values())
        verdict = Verdict.BROKEN if self.crashed else verdict_over(records, self.declared)
        return Judged(self.described.name, verdict, counts(records), diagnoses(records), self.stale)


class Arrivals:
    """The records of a session by implementation, and the result file that they go to."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._found: dict[str, Arrived] = {}
        self._file: IO[str] | None = None
        self._writer: Writer | None = None
        path = config.getoption("attention_report")
        if path is not None:
            self._file = _opened(path)
            tier, label = config.getoption("attention_tier"), os.environ.get("TOX_ENV_NAME")
            self._writer = Writer(self._file, header(tier, label))

    def hear(self, text: str) -> None:
        """Take the record that a report carries. What came already, as where a test is run again, changes nothing."""
        line = json.loads(text)
        record = to_record(line["record"])
        if record.implementation not in self._found:
            entries = tuple(Deviation(**entry) for entry in line["deviations"])
            described = to_described(line["described"])
            arrived = Arrived(described, line["device"], line["planned"], line["declared"], entries)
            self._begin(arrived)
        self._take(self._found[record.implementation], record)

    def _begin(self, arrived: Arrived) -> None:
        self._found[arrived.described.name] = arrived
        if self._writer is not None:
            self._writer.write(described_line(arrived.described))

    def _take(self, arrived: Arrived, record: Record) -> None:
        if record.key in arrived.records:
            return
        arrived.records[record.key] = record
        if self._writer is not None:
            self._writer.write(record_line(record))

    def finish(self, session: pytest.Session, lost: Sequence[pytest.TestReport]) -> None:
        """Fail the session over stale deviations, complete the file, and have the terminal say what ran.

        `lost` are reports of tests that ended their process, so that their records never came.
        """
        for report in lost:
            self._bury(report)
        arrived = list(self._found.values())
        problems = [sentence for entry in arrived for sentence in entry.stale]
        if problems and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        self._close(arrived, session)
        if arrived:
            self._config.pluginmanager.register(Summary(count_line(arrived), problems))

    def _bury(self, report: pytest.TestReport) -> None:
        """Write the record that a test took with it as an error, where the test was one of ours."""
        name, _, last = report.nodeid.rpartition("::")
        rule, _, dtype = last.rstrip("]").partition("[")
        if rule not in catalogue():
            return
        if name not in self._found:
            self._begin(Arrived(Described(name, name), "", 0, False, ()))
        text = f"{catalogue()[rule].sentence}\n{SEEN}      {safe(report.longreprtext.splitlines()[-1])}"
        self._found[name].crashed = True
        self._take(self._found[name], Record(name, rule, dtype or None, None, Outcome.ERROR, text, None, (), 0.0))

    def _close(self, arrived: Sequence[Arrived], session: pytest.Session) -> None:
        if self._writer is None or self._file is None:
            return
        for entry in arrived:
            self._writer.write(judged_line(entry.judged))
        # Without its footer the file of an interrupted session says that it is not whole.
        if session.exitstatus not in (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR):
            self._writer.close()
        self._file.close()


def _opened(path: str) -> IO[str]:
    """Open the result file. Raises pytest.UsageError."""
    try:
        return opened("--attention-report", path)
    except NotWritable as error:
        raise pytest.UsageError(str(error)) from None


def count_line(arrived: Sequence[Arrived]) -> str:
    """Return one line: how many implementations, how many of their planned records, and the outcomes."""
    total = counts(record for entry in arrived for record in entry.records.values())
    outcomes = ", ".join(f"{count} {outcome}" for outcome, count in total.items() if count)
    ran, planned = sum(total.values()), sum(entry.planned for entry in arrived)
    implementations = f"{len(arrived)} implementation{'s' if len(arrived) > 1 else ''}"
    return f"attention conformance: {implementations}, {ran} of {planned} records: {outcomes}"


class Summary:
    """What the terminal adds after the tests."""

    def __init__(self, line: str, problems: list[str]) -> None:
        self.line = line
        self.problems = problems

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write the stale deviations, which fail the session, and the counts."""
        if self.problems:
            terminalreporter.write_sep("=", "stale deviations", red=True, bold=True)
        for sentence in self.problems:
            terminalreporter.write_line(sentence, red=True)
        terminalreporter.write_line(self.line)
