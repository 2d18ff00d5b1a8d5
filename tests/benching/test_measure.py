"""Rounds in turn: who is called when, what is counted, and who is left out."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import torch

from attention_conformance.benching import measure as measuring
from attention_conformance.benching import workload
from attention_conformance.benching.contenders import Contender
from attention_conformance.benching.measure import FEWEST, MOST, WARMUPS, to_failure, to_measurement
from attention_conformance.benching.series import sections
from attention_conformance.implementation import describe
from tests.benching.counted import SIZES, Machine, failed, measured, small_groups, threads


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_quadratic_kernel_has_a_larger_exponent_than_a_linear_one(machine: Machine) -> None:
    quadratic = machine.contender("quadratic", "reference", lambda length: length**2)
    linear = machine.contender("linear", "target", lambda length: 100 * length)
    found = machine.race(linear, quadratic)
    (section,) = sections(measured(found, "linear") + measured(found, "quadratic"))
    lines = {line.label: line for line in section.lines}
    for name, exponent in (("reference quadratic", 2.0), ("linear", 1.0)):
        time, memory = lines[name].time, lines[name].memory
        assert time is not None
        assert memory is not None
        assert time.exponent == pytest.approx(exponent)
        assert memory.exponent == pytest.approx(exponent)


def test_everybody_is_called_once_a_round_and_who_begins_changes(machine: Machine) -> None:
    entries = [machine.contender(name, "target", lambda length: 1.0) for name in "abc"]
    (group,) = small_groups(entries[0], (8,))
    measuring.measure(group, entries, rounds=4, clock=machine.clock, meter=lambda call, device: None)
    warm = ["a"] * WARMUPS + ["b"] * WARMUPS + ["c"] * WARMUPS
    assert machine.calls == [*warm, *"abc", *"bca", *"cab", *"abc"]


def test_every_length_is_gone_through_several_times_and_memory_counted_once(machine: Machine) -> None:
    entry = machine.contender("one", "target", float)
    found = list(
        measuring.measure_all(small_groups(entry, (8, 16)), [entry], rounds=7, clock=machine.clock, meter=machine.meter)
    )
    passes = [(each.group.length, len(each.seconds), each.peak) for each in measured(found, "one")]
    assert passes == [(8, 2, 8), (16, 2, 16), (8, 2, None), (16, 2, None), (8, 3, None), (16, 3, None)]
    (section,) = sections(measured(found, "one"))
    assert [(row.group.length, len(row.seconds), row.peak) for row in section.rows] == [(8, 7, 8), (16, 7, 16)]


def test_whoever_fails_is_told_of_once_for_each_group_and_ends_it(machine: Machine) -> None:
    def broken(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        if query.shape[-2] > 8:
            raise ValueError("too long")
        return query

    bad = Contender("broken", "target", describe(broken, second=None), asked=True)
    base = machine.contender("base", "reference", float)
    found = list(
        measuring.measure_all(
            small_groups(bad, (8, 16)), [bad, base], rounds=3, clock=machine.clock, meter=machine.meter
        )
    )
    assert [each.group and each.group.length for each in failed(found)] == [16]
    # Nobody asked for what stands beside it.
    assert [each.group.length for each in measured(found, "base")] == [8, 16, 8, 8]


@pytest.mark.parametrize(("rounds", "passes"), [(1, 1), (2, 2), (3, 3), (50, 3)])
def test_few_rounds_are_few_passes(machine: Machine, rounds: int, passes: int) -> None:
    entry = machine.contender("one", "target", float)
    groups = small_groups(entry, (8,))
    found = list(measuring.measure_all(groups, [entry], rounds=rounds, clock=machine.clock, meter=machine.meter))
    assert len(found) == passes
    assert sum(len(each.seconds) for each in measured(found, "one")) == rounds


@pytest.mark.parametrize(("share", "waited"), [(1.0, 0.0), (0.25, 0.75), (2.0, 0.0)])
def test_the_time_without_a_processor_is_told(machine: Machine, share: float, waited: float) -> None:
    entry = machine.contender("one", "target", float)
    found = measuring.measure(
        small_groups(entry, (8,))[0], [entry], rounds=3, clock=machine.clock,
        processor=lambda: share * machine.work, meter=machine.meter,
    )  # fmt: skip
    assert measured(found, "one")[0].waited == pytest.approx(waited)


def test_warmups_do_not_count_and_each_round_does(machine: Machine) -> None:
    costs = iter([1000.0, 500.0, 1.0, 2.0, 3.0, 7.0])
    entry = machine.contender("warming", "target", lambda length: next(costs))
    (group,) = small_groups(entry, (8,))
    (found,) = measuring.measure(group, [entry], rounds=3, clock=machine.clock, meter=machine.meter)
    assert isinstance(found, measuring.Measurement)
    assert found.seconds == (1.0, 2.0, 3.0)
    assert found.peak == 7


def test_the_ratio_is_taken_round_by_round(machine: Machine) -> None:
    disturbed = iter([1.0, 1.0, 1.0, 10.0, 100.0, 1.0])
    now = {"factor": 1.0}

    def base(length: int) -> float:
        now["factor"] = next(disturbed)
        return now["factor"]

    reference = machine.contender("base", "reference", base)
    target = machine.contender("twice", "target", lambda length: 2 * now["factor"])
    (group,) = small_groups(reference, (8,))
    # A fixed order: the disturbance of a round begins with the reference.
    found = measuring.measure(group, [reference, target], rounds=1, clock=machine.clock, meter=machine.meter)
    assert measured(found, "twice")[0].ratios == (2.0,)
    assert measured(found, "base")[0].ratios == (1.0,)


def test_without_a_reference_there_is_no_ratio(machine: Machine) -> None:
    alone = machine.race(machine.contender("alone", "target", float))
    assert [each.ratios for each in measured(alone, "alone")] == [()] * len(SIZES)


@pytest.mark.parametrize(("units", "rounds"), [(1e-9, MOST), (1e9, FEWEST), (0.0625, 8)])
def test_the_number_of_rounds_follows_the_time_of_one(machine: Machine, units: float, rounds: int) -> None:
    found = machine.race(machine.contender("one", "target", lambda length: units), rounds=None)
    assert {len(each.seconds) for each in measured(found, "one")} == {rounds}


def test_the_device_has_finished_before_the_clock_is_read(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    def finish() -> None:
        machine.work += 1000

    monkeypatch.setattr(workload, "synchroniser", lambda device: finish)
    found = machine.race(machine.contender("late", "target", lambda length: 1.0))
    assert {value for each in measured(found, "late") for value in each.seconds} == {1001.0}


def test_whoever_raises_is_left_out_and_told_of(machine: Machine) -> None:
    def broken(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        if query.shape[-2] > 16:
            raise ValueError("too \ud800 long")
        return query

    bad = Contender("broken", "target", describe(broken, name="broken"), asked=True)
    found = machine.race(bad, machine.contender("base", "reference", float))
    assert [each.group.length for each in measured(found, "broken")] == [8, 16]
    assert [each.group.length for each in measured(found, "base")] == list(SIZES)
    assert {(each.name, each.excused, each.group and each.group.length) for each in failed(found)} == {
        ("broken", False, 32), ("broken", False, 64),
    }  # fmt: skip
    assert "it raised ValueError: too \\ud800 long (at test_measure.py" in failed(found)[0].why


def test_one_that_fails_late_leaves_no_figures(machine: Machine) -> None:
    costs = iter([1.0] * (WARMUPS + 1))
    late = machine.contender("late", "target", lambda length: next(costs))
    (group,) = small_groups(late, (8,))
    found = measuring.measure(
        group, [late, machine.contender("base", "reference", float)], rounds=3, clock=machine.clock, meter=machine.meter
    )
    assert measured(found, "late") == []
    assert len(measured(found, "base")[0].seconds) == 3


def test_a_companion_that_cannot_is_excused(machine: Machine) -> None:
    def cannot(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        raise RuntimeError("not implemented for 'Half'")

    beside = Contender("torchs", "torch", describe(cannot))
    found = machine.race(machine.contender("one", "target", float), beside)
    assert {each.excused for each in failed(found)} == {True}


def test_what_one_changes_for_the_process_does_not_slow_the_next(machine: Machine) -> None:
    before, seen = threads(), []

    def selfish(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        torch.set_num_threads(before + 1)
        return query

    def watching(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        seen.append(threads())
        return query

    entries = [
        Contender(f.__name__, "target", describe(f, second=None), asked=True) for f in (selfish, watching)
    ]  # fmt: skip
    try:
        found = machine.race(*entries)
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {before}
    assert {each.threads for each in measured(found, "watching")} == {before}


def test_the_garbage_collector_rests_during_the_rounds_only(machine: Machine) -> None:
    seen = []

    def watching(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        seen.append(gc.isenabled())
        return query

    (group,) = small_groups(machine.contender("any", "target", float), (8,))
    entry = Contender("watching", "target", describe(watching, second=None))
    measuring.measure(group, [entry], rounds=2, clock=machine.clock, meter=machine.meter)
    assert seen == [True] * WARMUPS + [False] * 2 + [True]
    assert gc.isenabled()


def test_results_survive_the_way_through_json(machine: Machine) -> None:
    import json

    def broken(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        raise ValueError("no")

    found = machine.race(machine.contender("one", "reference", float), Contender("b", "target", describe(broken)))
    for each in found:
        back = to_failure if isinstance(each, measuring.Failure) else to_measurement
        assert back(json.loads(json.dumps(each.plain()))) == each
