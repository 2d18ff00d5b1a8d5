"""pytest: what a test module registered becomes collectors and items, and records become reports.

    tests/test_attention.py            pytest's Module
        flash                          RegisteredImplementation
            MASK-003[fp32]             RuleItem

Each item puts its record on its report as one ASCII JSON string, the only form that crosses the processes of
pytest-xdist whole; `arriving` reads it where the reports come together.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import pytest

from ..dtypes import DTYPES
from ..environment import described
from ..errors import ConformanceError
from ..foreign.edge import safe
from ..implementation import Implementation, registered
from ..loading import Loaded
from ..records import Key, Outcome, Record
from ..results import Line, described_line, dump, record_line
from ..rulebook import families, get_rule
from ..runner import Examination
from ..selection import plan

RECORD = "attention_conformance"
"""The attribute of a report that holds a record."""

LONGEST_NAME = 200
LONGEST_TEXT = 100_000


class NotConforming(ConformanceError):
    """A rule that does not hold or could not be judged. Its text is all that pytest shows, `summary` one line of it."""

    def __init__(self, record: Record) -> None:
        super().__init__(failure_text(record))
        self.summary = one_line(record.seen)


def failure_text(record: Record) -> str:
    """Return the text of an item: one line for a rule that was not run, else the record's line and its story."""
    if record.outcome is Outcome.NOT_RUN:
        return one_line(f"{record.key} was not run: {record.message}")
    return safe(f"{record.implementation}: {record.key} {record.outcome}\n\n{record.message}", LONGEST_TEXT)


def one_line(text: str) -> str:
    """Return text that crosses processes, in one line."""
    return " ".join(safe(text, LONGEST_TEXT).split())


def collect(module: pytest.Module) -> Iterator[RegisteredImplementation]:
    """Yield a collector for each implementation that the module itself registered, in order."""
    _prepare(module.config)
    for name, implementation in node_names(registered(vars(module.obj))):
        yield RegisteredImplementation.from_parent(module, name=name, implementation=implementation)


def node_names(entries: Iterable[tuple[str, Implementation]]) -> Iterator[tuple[str, Implementation]]:
    """Yield the entries under names that are unique, printable and can be typed as part of a node id."""
    used: set[str] = set()
    for position, (name, implementation) in enumerate(entries, 1):
        plain = node_name(name) or f"implementation{position}"
        unique, count = plain, 1
        while unique in used:
            count += 1
            unique = f"{plain}#{count}"
        used.add(unique)
        yield unique, implementation


def node_name(name: str) -> str:
    """Return a name as pytest can select it: without `::`, which separates nodes, and `[`, which ends their names."""
    clean = safe(str(name), LONGEST_NAME).replace("\n", "\\n").translate({ord("["): "(", ord("]"): ")"})
    # pytest 8 refuses ids with `::()` in them.
    return re.sub(":{2,}", ":", clean.lstrip(":() ")).strip(": ")


def _prepare(config: pytest.Config) -> None:
    """Make the markers of the catalogue known to `--strict-markers`, and complete the reports of our items, once per run."""
    if config.pluginmanager.has_plugin(Completing.name):
        return
    config.pluginmanager.register(Completing(), Completing.name)
    config.addinivalue_line("markers", "attention_benchmark: a benchmark of an implementation")
    for word in (*families(), *DTYPES):
        config.addinivalue_line("markers", f"{marker(word)}: a {word} rule about an implementation")


class Completing:
    """Has items complete their reports."""

    name = "attention_conformance_completing"

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Have one of our items complete its report."""
        report = yield
        if isinstance(item, RuleItem):
            item.complete(report)
        return report


def marker(word: str) -> str:
    """Return the marker of a family or dtype."""
    return f"attention_{word.lower()}"


class RegisteredImplementation(pytest.Collector):
    """What one call of `register` returned."""

    def __init__(self, *, implementation: Implementation, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.implementation = implementation
        self.examination = Examination(implementation, name=self.nodeid)
        self.keys = plan(implementation, tier=self.config.getoption("attention_tier"))
        self._told = False

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each rule and dtype of the plan, for each pin, and for benchmarks where they are asked for."""
        for key in self.keys:
            # Given whole, because pytest 9.2 tells `[fp32]` apart only in ids that it parses; --lf compares those.
            yield RuleItem.from_parent(self, name=str(key), nodeid=f"{self.nodeid}::{key}", key=key, owner=self)
        if self.implementation.pin:
            from .pinning import pin_items

            yield from pin_items(self, self.implementation)
        # Without flags pytest-benchmark would run whatever there is.
        if self.config.getoption("attention_benchmark") or self.config.getoption("benchmark_only", False):
            from ..benching.items import benchmark_items

            yield from benchmark_items(self, self.implementation)

    def sent(self, record: Record) -> str:
        """Return a record with what its receiver has to know of the implementation, as ASCII JSON.

        What is known of it is sent once by each process, with the first record, which therefore comes before the others.
        """
        line: Line = {"record": record_line(record)}
        if not self._told:
            self._told = True
            own = self.implementation
            line["described"] = described_line(described(Loaded(self.nodeid, self.nodeid, own), {}))
            line |= {"device": own.device, "planned": len(self.keys), "declared": bool(own.declared)}
            line["deviations"] = [asdict(entry) for entry in own.deviations]
        return dump(line)


class RuleItem(pytest.Item):
    """One rule in one dtype. `record` is None until it ran; `reason` says why it was skipped or may depart."""

    def __init__(self, *, key: Key, owner: RegisteredImplementation, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.key, self.owner = key, owner
        self.rule = get_rule(key.rule)
        self.record: Record | None = None
        self.reason = ""
        self.add_marker("attention")
        for word in filter(None, (self.rule.family, key.dtype)):
            self.add_marker(marker(word))

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return the test module and what failures are headed with."""
        return self.path, 0, f"{self.owner.name} {self.key}"

    def runtest(self) -> None:
        """Make the record. Raises NotConforming, or skips."""
        with warnings_made_safe():
            record = self.record = self.owner.examination.run_one(self.rule, self.key.dtype)
        if record.bad:
            raise NotConforming(record)
        if record.outcome is Outcome.NOT_APPLICABLE:
            self.reason = one_line(f"not applicable: {record.message}")
            pytest.skip(self.reason)
        entry = self.owner.examination.deviation_for(self.key)
        if record.outcome is Outcome.DEVIATION and entry is not None:
            self.reason = one_line(entry.told)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the story alone, located in the test module; anything else is shown as usual."""
        if not isinstance(excinfo.value, NotConforming):
            return super().repr_failure(excinfo, style)
        shown = excinfo.getrepr(style="value")
        if shown.reprcrash is not None:
            shown.reprcrash.path, shown.reprcrash.lineno = str(self.path), 1
            shown.reprcrash.message = excinfo.value.summary
        return shown

    def complete(self, report: pytest.TestReport) -> None:
        """Put the record on the report. A deviation is set here, where `--runxfail` does not reach it."""
        record = self.record
        if report.when != "call" or record is None:
            return
        setattr(report, RECORD, self.owner.sent(record))
        if record.outcome is Outcome.NOT_APPLICABLE and report.skipped:
            report.longrepr = (str(self.path), 1, f"Skipped: {self.reason}")
        if record.outcome is Outcome.DEVIATION and report.passed:
            report.outcome = "skipped"
            report.wasxfail = self.reason
            report.longrepr = failure_text(record)


@contextmanager
def warnings_made_safe() -> Iterator[None]:
    """Pass on what is warned of meanwhile in safe text: a lone surrogate in it ends a worker of pytest-xdist."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    for entry in caught:
        message, category, text = entry.message, entry.category, str(entry.message)
        if text != safe(text, LONGEST_TEXT):
            category = next(base for base in category.__mro__ if base.__module__ == "builtins")
            message = safe(f"{entry.category.__name__}: {text}", LONGEST_TEXT)
        warnings.warn_explicit(message, category, safe(entry.filename), entry.lineno)
