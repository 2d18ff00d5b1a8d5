"""Rounds in turn: in each round everybody is called once, so that what disturbs the machine disturbs all alike."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch

from ..errors import ConformanceError
from ..foreign.edge import safe
from .contenders import Contender
from .groups import Group, NotMeasured
from .meter import Meter, peak_bytes
from .workload import Workload

Clock = Callable[[], float]
Beat = Callable[[str], None]
"""Hears the name of whoever is about to be called."""

WARMUPS = 2
PASSES = 3
FEWEST, MOST = 3, 20
"""Rounds of one group in one pass, unless their number is given."""
BUDGET = 0.5
"""Seconds that the rounds of one group may take in one pass before they are cut to the fewest."""


@dataclass(frozen=True)
class Measurement:
    """One contender in one group. `seconds` has an entry for each round; `ratios` are those of the rounds to the
    reference's, empty without it; `peak` is in bytes, None where it cannot be told; `told` says how the
    implementation learns of the mask; `waited` is the share of its time in which the process had no processor, None
    on other devices than the CPU."""

    name: str
    role: str
    group: Group
    seconds: tuple[float, ...]
    ratios: tuple[float, ...]
    peak: int | None
    threads: int
    told: str
    waited: float | None = None

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON takes them."""
        return asdict(self)


@dataclass(frozen=True)
class Failure:
    """A contender that could not be measured in a group (None: in any), and why. `excused` where a capability or
    its being a mere companion explains it; `loaded` is False where the target could not even be imported."""

    name: str
    role: str
    group: Group | None
    why: str
    excused: bool = False
    loaded: bool = True

    def plain(self) -> dict[str, Any]:
        """Return the fields as JSON takes them."""
        return asdict(self)


def to_measurement(plain: Mapping[str, Any]) -> Measurement:
    """Return what `Measurement.plain` made JSON of."""
    changed = {"group": Group(**plain["group"]), "seconds": tuple(plain["seconds"]), "ratios": tuple(plain["ratios"])}
    return Measurement(**{**plain, **changed})


def to_failure(plain: Mapping[str, Any]) -> Failure:
    """Return what `Failure.plain` made JSON of."""
    group = plain["group"]
    return Failure(**{**plain, "group": None if group is None else Group(**group)})


def measure_all(
    groups: Sequence[Group],
    entries: Sequence[Contender],
    *,
    rounds: int | None = None,
    clock: Clock = time.perf_counter,
    processor: Clock = time.process_time,
    meter: Meter = peak_bytes,
    beat: Beat = lambda name: None,
    hear: Callable[[Group], None] = lambda group: None,
) -> Iterator[Measurement | Failure]:
    """Measure everybody in several groups, again and again in a few passes, so that a machine that is slow for a while
    is slow for every length alike. Memory is counted in the first pass; whoever fails in a group is done with it."""
    out: set[tuple[Group, str]] = set()
    for number, share in enumerate(_shares(rounds)):
        for group in groups:
            running = [entry for entry in entries if (group, entry.name) not in out]
            if not any(entry.asked for entry in running):
                continue
            hear(group)
            weigh = _unweighed if number else meter
            for result in measure(
                group, running, rounds=share, clock=clock, processor=processor, meter=weigh, beat=beat
            ):
                if isinstance(result, Failure):
                    out.add((group, result.name))
                yield result


def _shares(rounds: int | None) -> list[int | None]:
    """Return the rounds of each pass."""
    if rounds is None:
        return [None] * PASSES
    shares = [rounds * (number + 1) // PASSES - rounds * number // PASSES for number in range(PASSES)]
    return [share for share in shares if share]


def _unweighed(call: Callable[[], object], device: str) -> None:
    return None


def measure(
    group: Group,
    entries: Sequence[Contender],
    *,
    rounds: int | None = None,
    clock: Clock = time.perf_counter,
    processor: Clock = time.process_time,
    meter: Meter = peak_bytes,
    beat: Beat = lambda name: None,
) -> list[Measurement | Failure]:
    """Measure everybody in one group. Whoever raises is left out and told of; the others go on."""
    race = _Race(group, clock, processor, beat)
    try:
        race.enter(entries)
        race.run(rounds)
        return race.results(meter)
    finally:
        race.settle()


class _Race:
    """The contenders of one group that are still in it, and their rounds so far."""

    def __init__(self, group: Group, clock: Clock, processor: Clock, beat: Beat) -> None:
        self.group, self.clock, self.processor, self.beat = group, clock, processor, beat
        self.threads = torch.get_num_threads()
        self.on_cpu = torch.device(group.device).type == "cpu"
        self.worked: dict[Contender, float] = {}
        self.running: dict[Contender, Workload] = {}
        self.seconds: dict[Contender, list[float]] = {}
        self.failures: list[Failure] = []

    def enter(self, entries: Sequence[Contender]) -> None:
        """Prepare everybody and let them warm up."""
        for entry in entries:
            with self._leaving_out(entry):
                self.beat(entry.name)
                self.running[entry] = Workload(entry.implementation, self.group)
                self.seconds[entry] = []
                for _ in range(WARMUPS):
                    warm = self._once(entry)
                self.seconds[entry] = [warm]

    def run(self, rounds: int | None) -> None:
        """Call everybody in turn; who begins changes from round to round."""
        warm = sum(self.seconds[entry].pop() for entry in self.running)
        self.worked.clear()
        count = rounds or max(FEWEST, min(MOST, int(BUDGET / warm) if warm > 0 else MOST))
        with _no_collection():
            for number in range(count):
                order = list(self.running)
                first = number % len(order) if order else 0
                for entry in order[first:] + order[:first]:
                    with self._leaving_out(entry):
                        self.beat(entry.name)
                        self.seconds[entry].append(self._once(entry))

    def settle(self) -> None:
        """Put the number of threads back: whoever changes it changes it for its own call only."""
        if torch.get_num_threads() != self.threads:
            torch.set_num_threads(self.threads)

    def _once(self, entry: Contender) -> float:
        self.settle()
        call, clock = self.running[entry], self.clock
        worked = self.processor()
        started = clock()
        call()
        seconds = clock() - started
        self.worked[entry] = self.worked.get(entry, 0.0) + self.processor() - worked
        return seconds

    def results(self, meter: Meter) -> list[Measurement | Failure]:
        """Count everybody's memory in one more call, and return all there is to say."""
        peaks: dict[Contender, int | None] = {}
        for entry, call in list(self.running.items()):
            with self._leaving_out(entry):
                self.beat(entry.name)
                self.settle()
                peaks[entry] = meter(call, entry.implementation.device)
        reference = next((self.seconds[entry] for entry in self.running if entry.role == "reference"), [])
        measured = [self._measurement(entry, reference, peaks[entry]) for entry in self.running]
        return [*measured, *self.failures]

    def _measurement(self, entry: Contender, reference: Sequence[float], peak: int | None) -> Measurement:
        seconds = self.seconds[entry]
        ratios = [own / base for own, base in zip(seconds, reference, strict=False) if base > 0]
        told = self.running[entry].told
        return Measurement(
            entry.name, entry.role, self.group, tuple(seconds), tuple(ratios), peak, self.threads, told,
            self._waited(entry),
        )  # fmt: skip

    def _waited(self, entry: Contender) -> float | None:
        total = sum(self.seconds[entry])
        return max(0.0, 1 - self.worked[entry] / total) if self.on_cpu and total > 0 else None

    @contextmanager
    def _leaving_out(self, entry: Contender) -> Iterator[None]:
        """Leave out of the race whoever raises."""
        try:
            yield
        except NotMeasured as error:
            self._lost(entry, str(error), excused=True)
        except ConformanceError as error:
            self._lost(entry, str(error))
        except Exception as error:  # noqa: BLE001 - memory that runs out, or a result that raises when it is looked at
            self._lost(entry, f"{type(error).__name__}: {error}")

    def _lost(self, entry: Contender, why: str, excused: bool = False) -> None:
        self.running.pop(entry, None)
        self.failures.append(Failure(entry.name, entry.role, self.group, safe(why), excused or not entry.asked))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's garbage collector from running between two readings of the clock."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
