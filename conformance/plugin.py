"""pytest: the hooks. Their work is done in `collection`, imported once a test module has registered something."""

from __future__ import annotations

from collections.abc import Generator

import pytest

REGISTERED = "__attention_conformance__"  # implementation.REGISTERED, which importing this module must not load
RECORD = "attention_conformance"  # the attribute of a report that holds a record as ASCII JSON


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("attention-conformance", "conformance of attention implementations")
    group.addoption("--attention-tier", choices=("default", "thorough"), default="default", help="which rules to run")
    group.addoption("--attention-benchmark", action="store_true", help="collect benchmarks of implementations as well")
    parser.addini("attention_benchmark_sizes", "lengths L that --attention-benchmark measures", default="128,512")


def pytest_configure(config: pytest.Config) -> None:
    text = "attention: a rule about an implementation; also attention_FAMILY, attention_DTYPE (attention_mask, say)"
    config.addinivalue_line("markers", text)
    config.pluginmanager.register(Received(), "attention_conformance_received")


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str) -> list[pytest.Collector] | None:
    if name != REGISTERED or not isinstance(collector, pytest.Module):
        return None
    from .collection import collect

    return list(collect(collector))


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    complete = getattr(item, "complete_attention_report", None)
    if complete is not None:
        complete(report)
    return report


class Received:
    """The records of a session, which come from its own items or, under xdist, from the workers."""

    def __init__(self) -> None:
        self.records: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        record = vars(report).get(RECORD)
        if record is not None:
            self.records.append(record)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.records and not hasattr(session.config, "workerinput"):
            from .collection import finish

            finish(session, self.records)
