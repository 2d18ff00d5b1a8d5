"""pytest: the hooks. Their work is done in `collection`, imported once a test module has registered something."""

from __future__ import annotations

from typing import Any

import pytest

REGISTERED = "__attention_conformance__"  # implementation.REGISTERED, which importing this module must not load
RECORD = "attention_conformance"  # collection.RECORD, likewise


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("attention-conformance", "conformance of attention implementations")
    group.addoption("--attention-tier", choices=("default", "thorough"), default="default", help="which rules to run")
    group.addoption("--attention-report", metavar="FILE", help="write a result file: attention-conformance report FILE")
    group.addoption("--attention-benchmark", action="store_true", help="collect benchmarks of implementations as well")
    parser.addini("attention_benchmark_sizes", "lengths L that --attention-benchmark measures", default="128,512")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "attention: a rule about an implementation; so is attention_FAMILY or _DTYPE")
    if not hasattr(config, "workerinput"):  # a worker of xdist, whose reports arrive elsewhere
        config.pluginmanager.register(Received(config), "attention_conformance_received")


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str) -> list[pytest.Collector] | None:
    if name != REGISTERED or not isinstance(collector, pytest.Module):
        return None
    from .collecting.collection import collect

    return list(collect(collector))


class Received:
    """The reports of a session, xdist's too. `arriving` reads them, imported when the first record comes."""

    def __init__(self, config: pytest.Config) -> None:
        self.config, self.lost = config, list[pytest.TestReport]()
        self.arrivals: Any = None
        if config.getoption("attention_report"):
            self.begin()

    def begin(self) -> Any:
        from .collecting.arriving import Arrivals

        self.arrivals = self.arrivals or Arrivals(self.config)
        return self.arrivals

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if RECORD in vars(report):
            self.begin().hear(vars(report)[RECORD])
        elif str(report.when) == "???":  # so xdist reports a test whose worker died
            self.lost.append(report)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.arrivals:
            self.arrivals.finish(session, self.lost)
