"""What the parent of an audit keeps: bounded for each record, and nothing of an implementation that was handed on."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable, Iterator

from attention_conformance.auditing.workers import gather
from attention_conformance.records import Outcome, Record, Verdict, counts
from attention_conformance.results import Audited, Described, Judged, Line, described_line, judged_line, record_line
from attention_conformance.rulebook import catalogue

_STORY = "a sentence of a story, as long as they are in the end\n" * 50
_PER_RECORD = 10_000
"""Bytes that the parent may keep of one record."""


def _lines(implementations: int) -> Iterator[Line]:
    """Yield the lines of a run in which one record of five tells a story, all in new objects."""
    rules = list(catalogue())
    for number in range(implementations):
        name = f"kernels.py:kernel_{number}"
        yield described_line(Described(name, name, reference="attention"))
        for place, rule in enumerate(rules):
            bad = place % 5 == 0
            outcome, message = (Outcome.FAILED, f"{place} {_STORY}") if bad else (Outcome.PASSED, "")
            yield record_line(Record(name, rule, "fp32", None, outcome, message, 0.25 + place, (), 0.01))
        yield judged_line(Judged(name, Verdict.DEPARTS, counts(())))


def _kept(consume: Callable[[Iterator[Audited]], object], implementations: int) -> int:
    """Return the bytes that are held once the lines of so many implementations were consumed."""
    catalogue()  # what importing the rules takes is not counted
    tracemalloc.start()
    try:
        held = consume(gather(_lines(implementations)))
        size = tracemalloc.get_traced_memory()[0]
        del held
        return size
    finally:
        tracemalloc.stop()


def test_a_record_takes_a_few_kilobytes_of_the_parent() -> None:
    few, many = _kept(list, 10), _kept(list, 40)
    assert 0 < many - few < _PER_RECORD * 30 * len(catalogue())


def test_nothing_is_kept_of_what_was_handed_on() -> None:
    def last(audited: Iterator[Audited]) -> Audited:
        *_, found = audited
        return found

    def count(audited: Iterator[Audited]) -> int:
        return sum(len(each.records) for each in audited)

    one = _kept(lambda audited: next(audited), 1)
    assert _kept(count, 40) < one


def test_every_cache_has_a_limit() -> None:
    catalogue()
    modules = [module for name, module in sys.modules.items() if name.startswith("attention_conformance.")]
    caches = {value for module in modules for value in vars(module).values() if hasattr(value, "cache_parameters")}
    assert caches
    assert [cache for cache in caches if cache.cache_parameters()["maxsize"] is None] == []
