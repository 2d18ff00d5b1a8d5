"""A hostile implementation costs itself and nothing else; what it did is told, with its place."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from attention_conformance import cli
from attention_conformance.auditing import batch
from attention_conformance.auditing.workers import audit_many, run_task
from attention_conformance.isolation import child
from attention_conformance.isolation.hearing import Talk
from attention_conformance.records import Outcome, Record, Verdict
from attention_conformance.results import Audited, read

from . import hostile, odd, untidy, witnesses
from . import names as names_of

HERE = Path(__file__).parent
RULES = ("SHAPE-001", "SHAPE-002", "fp32")
MORE_RULES = ("SHAPE-001", "SHAPE-002", "NUMERIC-001", "MASK-003", "GRADIENT-001", "PURITY-006", "fp32")
SECONDS = 4.0
MEMORY = 800 * 2**20

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the fakes use signals and forks")

AT_IMPORT = {
    "exits_at_import": "import os\nos._exit(5)\n",
    "hangs_at_import": "while True:\n    pass\n",
    "raises_at_import": "import no_such_dependency\n",
    "asks_to_exit_at_import": "raise SystemExit(0)\n",
}

# What it did -> what the first record says of it. Those after it are not run.
ENDED = {
    "exits": "it ended its process with exit code 3",
    "exits_as_if_well": "it ended its process with exit code 0",
    "sends_itself_a_segfault": "its process died of signal SIGSEGV (at hostile.py:",
    "reads_address_zero": "its process died of signal SIGSEGV (at hostile.py:",
    "aborts": "its process died of signal SIGABRT (at hostile.py:",
    "closes_all_descriptors": "it closed the connection on which its process reports",
}
LINUX_ENDED = {"eats_memory": "GiB of memory, more than the 0.8 GiB that one may take (at hostile.py:"}
HUNG = (
    "hangs",
    "hangs_in_a_regular_expression",
    "hangs_with_the_lock_held",
    "hangs_in_torch",
    "sleeps",
    "waits_for_its_own_thread",
    "stops_the_clock",
)
# What it did -> what its record says of it; the process lives on.
RAISED = {
    "asks_to_exit": "it raised SystemExit: 0 (at odd.py:",
    "exits_without_an_exception": "it raised SystemExit: (no message) (at odd.py:",
    "interrupts": "it raised KeyboardInterrupt: (no message) (at odd.py:",
    "skips_the_test": "it raised Skipped: not today",
    "fails_the_test": "it raised Failed: enough",
    "xfails_the_test": "it raised XFailed: as expected",
    "ends_the_session": "it raised Exit: good bye",
    "closes_the_generator": "it raised GeneratorExit",
    "stops_the_iteration": "it raised StopIteration",
    "raises_its_own": "it raised OfItsOwn: mine",
    "raises_without_text": "it raised Unprintable: (its message raised SystemExit)",
    "raises_a_loud_name": r"it raised Loud\n\x1b[31m[bold]<b>xxx",
    "raises_a_surrogate": r"half a character \ud800 and \x1b[31m a colour \x07",
    "raises_markup": "[bold]loud[/bold] <script> :smile: [/closes-nothing]",
    "raises_ten_megabytes": "it raised ValueError: long long",
    "raises_a_million_lines": "it raised ValueError: line (and",
    "has_no_memory": "it raised MemoryError",
    "asks_for_too_much_memory": "it raised RuntimeError",
    "recurses": "it raised RecursionError",
    "returns_nothing": "it returned NoneType, which holds no tensor",
    "returns_text": "it returned str, which holds no tensor",
    "returns_numbers": "it returned list with nothing that says which is the output",
    "returns_an_array": "it returned ndarray, which holds no tensor",
    "returns_a_generator": "it returned generator, which holds no tensor",
    "returns_a_coroutine": "it returned coroutine, which holds no tensor",
    "returns_a_nested_tuple": "it returned tuple with nothing that says which is the output",
    "returns_untouchable": "what it returned made this rule fail at ",
    "returns_what_is_unlike_anything": "what it returned made this rule fail at ",
    "returns_no_values": "it returned a tensor without values, on the device meta",
    "returns_a_sparse_tensor": "it returned a tensor whose layout is torch.sparse_coo",
    "returns_a_quantised_tensor": "it returned a tensor of quantised values",
    "returns_a_nested_tensor": "it returned a tensor of nested tensors",
}
HARMLESS = ("sound", "prints_megabytes", "reads_input", "forks", "leaves_a_child_with_its_pipes")

# What nothing puts back -> what is said of it beside the verdict.
NEEDS_A_FRESH_PROCESS = {
    "replaces_softmax": "torch.softmax is another one",
    "replaces_the_oracle": "attention_conformance.oracle.definition.solve is another one",
    "replaces_a_module": "the module math is another one",
    "leaves_a_thread": "a thread goes on",
    "sets_an_alarm": "alarm clock",
    "changes_decimals": "decimal arithmetic",
    "changes_the_file_mode": "file mode mask",
    "changes_how_tensors_are_printed": "printing of tensors",
    "closes_the_streams": "a closed standard stream",
}
JUDGED_WRONGLY = {"replaces_softmax", "replaces_the_oracle"}
# What PURITY-006 says of those that it objects to; every other rule holds for them.
UNTIDY = {
    "changes_the_default_dtype": "default dtype",
    "changes_the_default_device": "default device",
    "switches_gradients_off": "switched gradients",
    "enters_inference_mode": "switched gradients",
    "enters_autocast": "autocast",
    "turns_anomaly_mode_on": "anomaly mode",
    "flushes_denormal_numbers": "flushing of denormal numbers",
    "lowers_the_precision": "float32 matmul precision",
    "wants_deterministic_algorithms": "deterministic algorithms",
    "raises_on_underflow": "error handling of NumPy",
    "changes_the_number_of_threads": "number of threads",
    "sets_variables": "environment variables: ",
    "forgets_variables": "environment variables: ",
    "makes_warnings_errors": "warning filters",
    "lets_nothing_recurse": "recursion limit",
    "seeds_the_generators": "state of the random generator",
    "goes_elsewhere": None,
    "replaces_the_streams": None,
    "ignores_interrupts": None,
    "traces_everything": None,
    "profiles_everything": None,
    "changes_the_locale": None,
    "switches_garbage_collection_off": None,
    "prolongs_the_path": None,
    "hangs_at_exit": None,
}


def target(module: ModuleType, name: str) -> str:
    return f"{HERE / module.__name__.rpartition('.')[2]}.py:{name}"


def short(audited: Audited) -> str:
    """Return the name of the function, or of the file where that is told apart by it."""
    file, _, name = audited.name.rpartition(":")
    return Path(file).stem if name == "attend" else name


def by_name(results: Iterator[Audited]) -> dict[str, Audited]:
    return {short(each): each for each in results}


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Audited]:
    """What ends, raises or is loud, in one run with one process at a time: what follows a hostile one is judged too."""
    folder = tmp_path_factory.mktemp("targets")
    targets = []
    for name, text in AT_IMPORT.items():
        (folder / f"{name}.py").write_text(text)
        targets.append(f"{folder / name}.py:attend")
    targets += [target(hostile, name) for name in (*ENDED, *LINUX_ENDED, *HARMLESS)]
    targets += [target(odd, name) for name in RAISED]
    return by_name(audit_many(targets, select=RULES, timeout=SECONDS, memory=MEMORY, workers=2))


def test_every_target_has_a_result(audited: Mapping[str, Audited]) -> None:
    assert set(audited) == {*AT_IMPORT, *ENDED, *LINUX_ENDED, *RAISED, *HARMLESS}


def _ended(result: Audited, said: str) -> None:
    first, second = result.records
    assert first.outcome is Outcome.ERROR
    assert said in first.message
    assert first.message.startswith("The output has the leading axes")
    assert second.outcome is Outcome.NOT_RUN
    assert "SHAPE-001[fp32]" in second.message
    assert result.judged.verdict is Verdict.BROKEN


@pytest.mark.parametrize("name", ENDED)
def test_what_ends_its_process_costs_one_implementation(audited: Mapping[str, Audited], name: str) -> None:
    _ended(audited[name], ENDED[name])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is watched on Linux")
@pytest.mark.parametrize("name", LINUX_ENDED)
def test_what_eats_memory_is_ended(audited: Mapping[str, Audited], name: str) -> None:
    _ended(audited[name], LINUX_ENDED[name])


@pytest.mark.parametrize("name", RAISED)
def test_what_raises_is_told(audited: Mapping[str, Audited], name: str) -> None:
    first = next(record for record in audited[name].records if record.bad)
    assert first.outcome is Outcome.ERROR
    assert RAISED[name] in first.message
    assert len(first.message) < 10_000
    assert first.message.isprintable() or all(line.isprintable() for line in first.message.split("\n"))
    assert audited[name].judged.verdict is Verdict.BROKEN


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_only_loud_or_untidy_is_judged_by_its_results(audited: Mapping[str, Audited], name: str) -> None:
    outcomes = [record.outcome for record in audited[name].records]
    assert outcomes == [Outcome.PASSED, Outcome.PASSED]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("exits_at_import", "while it was loaded, it ended its process with exit code 5."),
        ("hangs_at_import", f"it hung: nothing came back within {SECONDS:g} seconds (at hangs_at_import.py:"),
        ("raises_at_import", "it raised ModuleNotFoundError: No module named 'no_such_dependency'"),
        ("asks_to_exit_at_import", "it raised SystemExit: 0"),
    ],
)
def test_what_cannot_be_loaded_is_told_by_name(audited: Mapping[str, Audited], name: str, said: str) -> None:
    result = audited[name]
    assert not result.loaded
    assert result.judged.verdict is Verdict.BROKEN
    assert said in result.judged.diagnosis[0]
    assert f"{name}.py:attend" in result.judged.diagnosis[0]


def test_every_way_to_hang_ends_after_one_timeout_and_its_place_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "GRACE_SECONDS", 1.0)
    targets = [target(hostile, name) for name in (*HUNG, "stops_its_process")]
    results = by_name(audit_many(targets, select=RULES, timeout=SECONDS, workers=4))
    hung = f"it hung: nothing came back within {SECONDS:g} seconds"
    for name in HUNG:
        _ended(results[name], f"{hung} (at hostile.py:")
    _ended(results["stops_its_process"], hung)


def test_a_crash_in_a_later_record_keeps_the_earlier_ones() -> None:
    rules = ("SHAPE-001", "MASK-003", "NUMERIC-001", "fp32")
    (result,) = audit_many([target(hostile, "exits_where_there_is_a_mask")], select=rules)
    outcomes = {record.rule: record.outcome for record in result.records}
    assert outcomes == {"SHAPE-001": "passed", "NUMERIC-001": "passed", "MASK-003": "error"}
    assert "exit code 3" in next(record.message for record in result.records if record.rule == "MASK-003")
    assert result.judged.verdict is Verdict.BROKEN


def test_without_a_limit_of_recursion_only_its_own_process_is_lost() -> None:
    targets = [target(hostile, name) for name in ("overflows_the_stack", "sound")]
    deep, sound = audit_many(targets, select=RULES, timeout=20)
    assert deep.records[0].outcome is Outcome.ERROR
    assert deep.judged.verdict is Verdict.BROKEN
    assert sound.judged.verdict is Verdict.CONFORMS


# What one does to its process, and what the next ones see of it

KINDS = ("sound", "scales_wrongly", "sound", "sound", "is_coarse", "sound", "sound")
"""Most are sound, because those that fail are compared with known faults, which takes a second."""


def _alike(record: Record) -> Record:
    """Return a record without what differs between two runs of one function under two names."""
    kind, _, number = record.implementation.rpartition("_")
    message = record.message.replace(f"{Path(kind).name.rpartition(':')[2]}_{number}", "it")
    return replace(record, implementation="", message=message, seconds=0.0)


@pytest.fixture(scope="module")
def mixed() -> Mapping[str, Audited]:
    """Each untidy one with somebody after it who harms nobody, all in two processes as far as they carry."""
    hostiles = [target(odd, "loses_the_device"), *(target(untidy, name) for name in (*NEEDS_A_FRESH_PROCESS, *UNTIDY))]
    after = [target(witnesses, f"{KINDS[number % len(KINDS)]}_{number}") for number in range(len(hostiles))]
    # Dealt out in turn, so that each process gets one of a pair of hostile ones, then one of those after them.
    targets = [each for at in range(0, len(hostiles), 2) for each in (*hostiles[at : at + 2], *after[at : at + 2])]
    return by_name(audit_many(targets, select=MORE_RULES, timeout=60, workers=2))


@pytest.fixture(scope="module")
def alone() -> Mapping[str, Audited]:
    """The witnesses, each kind in a process of its own."""
    targets = [target(witnesses, f"{kind}_0") for kind in dict.fromkeys(KINDS)]
    return {
        name.rpartition("_")[0]: each
        for text in targets
        for name, each in by_name(audit_many([text], select=MORE_RULES)).items()
    }


def test_who_comes_after_them_is_judged_as_if_alone(mixed: Mapping[str, Audited], alone: Mapping[str, Audited]) -> None:
    verdicts = {kind: str(each.judged.verdict) for kind, each in alone.items()}
    assert verdicts == {"sound": "conforms", "scales_wrongly": "departs", "is_coarse": "departs"}
    compared = 0
    for name, each in mixed.items():
        kind, _, number = name.rpartition("_")
        if number.isdecimal():
            expected = alone[kind]
            assert [_alike(record) for record in each.records] == [_alike(record) for record in expected.records]
            assert replace(each.judged, implementation="") == replace(expected.judged, implementation="")
            compared += 1
    assert compared == len(NEEDS_A_FRESH_PROCESS) + len(UNTIDY) + 1
    assert len(mixed) == 2 * compared


@pytest.mark.parametrize("name", UNTIDY)
def test_an_untidy_one_is_itself_judged_by_its_results(mixed: Mapping[str, Audited], name: str) -> None:
    said = UNTIDY[name]
    bad = {record.rule: record.message for record in mixed[name].records if record.bad}
    assert set(bad) == (set() if said is None else {"PURITY-006"})
    assert said is None or said in bad["PURITY-006"]


def test_values_of_variables_are_not_told(mixed: Mapping[str, Audited]) -> None:
    (message,) = (record.message for record in mixed["forgets_variables"].records if record.bad)
    assert "PATH" in message
    assert os.environ["PATH"] not in message


@pytest.mark.parametrize("name", NEEDS_A_FRESH_PROCESS)
def test_what_nothing_puts_back_is_told(mixed: Mapping[str, Audited], name: str) -> None:
    assert f"it leaves its process changed: {NEEDS_A_FRESH_PROCESS[name]}" in mixed[name].judged.diagnosis[-1]
    if name not in JUDGED_WRONGLY:
        assert mixed[name].judged.verdict is Verdict.CONFORMS


def test_an_error_that_the_device_keeps_is_a_crash(mixed: Mapping[str, Audited]) -> None:
    first, *others = mixed["loses_the_device"].records
    assert first.outcome is Outcome.ERROR
    assert "it raised RuntimeError: CUDA error: device-side assert triggered" in first.message
    assert {record.outcome for record in others} == {Outcome.NOT_RUN}
    assert {record.message for record in others} == {"SHAPE-001[fp32]: the device keeps its error"}
    assert mixed["loses_the_device"].judged.verdict is Verdict.BROKEN


def test_what_an_import_sets_costs_the_next_one_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is put back, but what is expected was worked out meanwhile: the next one has a fresh process."""
    file = tmp_path / "sets_the_dtype_at_import.py"
    file.write_text(
        "import torch\n"
        "from attention_conformance.reference.attention import attention as attend\n"
        "torch.set_default_dtype(torch.float64)\n"
    )
    started = []
    monkeypatch.setattr(batch, "Talk", lambda *order, **limits: started.append(order) or Talk(*order, **limits))
    targets = [f"{file}:attend", target(hostile, "sound"), target(hostile, "prints_megabytes")]
    results = list(audit_many(targets, select=RULES))
    assert [str(each.judged.verdict) for each in results] == ["conforms"] * 3
    assert len(started) == 2


def test_who_dies_after_its_verdict_costs_nobody_else(tmp_path: Path) -> None:
    """Once it is judged, what it imported is looked through, to be forgotten."""
    file = tmp_path / "exits_when_it_is_looked_at.py"
    file.write_text(
        "import os, sys\n"
        "from attention_conformance.reference.attention import attention\n"
        "class Module:\n"
        "    __dict__ = property(lambda self: os._exit(9))\n"
        "sys.modules['looked_at'] = Module()\n"
        "def attend(query, key, value, mask=None):\n"
        "    return attention(query, key, value, mask)\n"
    )
    results = by_name(audit_many([f"{file}:attend", target(hostile, "sound")], select=RULES))
    assert {name: str(each.judged.verdict) for name, each in results.items()} == {
        file.stem: "conforms",
        "sound": "conforms",
    }


def test_an_executor_runs_the_tasks_and_a_crash_stays_in_its_child() -> None:
    pickle.dumps(run_task)
    with ThreadPoolExecutor(2) as pool:
        targets = [target(hostile, "reads_address_zero"), target(hostile, "sound")]
        results = by_name(audit_many(targets, pool, workers=2, select=RULES))
    assert results["reads_address_zero"].judged.verdict is Verdict.BROKEN
    assert results["sound"].judged.verdict is Verdict.CONFORMS


# The command


def _audit(file: Path, *targets: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "attention_conformance", "audit", *targets, "-n", "2", "--json", str(file)]
    arguments = ["--select", ",".join(RULES), "--timeout", f"{SECONDS:g}", "-v"]
    return subprocess.run([*command, *arguments], capture_output=True, timeout=300)


def test_the_command_writes_a_whole_file_whatever_the_implementations_do(tmp_path: Path) -> None:
    targets = [target(hostile, name) for name in ("sound", "exits_as_if_well", "hangs_with_the_lock_held")]
    targets += [target(odd, name) for name in ("raises_a_surrogate", "raises_markup", "ends_the_session")]
    names = target(names_of, "").rstrip(":")
    ran = _audit(tmp_path / "all.jsonl", *targets, names)
    assert ran.returncode == cli.DEPARTS
    assert b"Traceback" not in ran.stderr
    text = ran.stdout.decode()
    assert all(character.isprintable() or character == "\n" for character in text)
    found = read(tmp_path / "all.jsonl").audited
    verdicts = {each.name: str(each.judged.verdict) for each in found}
    assert len(found) == len(targets) + len(names_of.NAMES)
    assert [verdicts[each] for each in targets] == ["conforms", *["broken"] * 5]
    assert {verdict for name, verdict in verdicts.items() if name not in targets} == {"conforms"}
    assert "[bold]loud[/bold] <script> :smile: [/closes-nothing]" in " ".join(text.split())


def test_the_command_says_0_where_the_loud_are_sound(tmp_path: Path) -> None:
    ran = _audit(tmp_path / "loud.jsonl", *(target(hostile, name) for name in HARMLESS))
    assert ran.returncode == cli.CONFORMS
    assert len(read(tmp_path / "loud.jsonl").audited) == len(HARMLESS)
