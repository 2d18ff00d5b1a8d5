"""A hostile implementation costs itself and nothing else; what it did is told, with its place."""

from __future__ import annotations

import os
import pickle
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from attention_conformance.records import Outcome, Verdict
from attention_conformance.results import Audited
from attention_conformance.workers import audit_many, run_task

HOSTILE = Path(__file__).with_name("hostile.py")
RULES = ("SHAPE-001", "SHAPE-002", "fp32")

pytestmark = [
    pytest.mark.skipif(os.name != "posix", reason="the fakes use signals and forks"),
    pytest.mark.xdist_group("hostile"),
]

AT_IMPORT = {
    "exits_at_import": "import os\nos._exit(5)\n",
    "hangs_at_import": "while True:\n    pass\n",
    "raises_at_import": "import no_such_dependency\n",
    "asks_to_exit_at_import": "raise SystemExit(0)\n",
}

# What it did -> what the first record says of it. The second one is not run.
ENDED = {
    "exits": "it ended its process with exit code 3",
    "exits_as_if_well": "it ended its process with exit code 0",
    "segfaults": "its process died of signal SIGSEGV (at hostile.py:",
    "hangs": "it hung: nothing came back within 5 seconds (at hostile.py:",
    "closes_all_descriptors": "it closed the connection on which its process reports",
}
# What it did -> what its record says of it; the process lives on.
RAISED = {
    "asks_to_exit": "it raised SystemExit: 0 (at hostile.py:",
    "interrupts": "it raised KeyboardInterrupt: (no message) (at hostile.py:",
    "returns_text": "it returned str, which holds no tensor",
    "raises_a_surrogate": r"half a character \ud800 and \x1b[31m a colour \x07",
    "raises_markup": "[bold]loud[/bold] :smile: [/closes-nothing]",
    "returns_untouchable": "what it returned made this rule fail at ",
}
HARMLESS = ("sound", "prints_megabytes", "reads_input", "changes_the_default_dtype", "forks")


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Audited]:
    """Everything hostile in one run, with one process at a time: what follows a hostile one is judged as well."""
    folder = tmp_path_factory.mktemp("targets")
    targets = []
    for name, text in AT_IMPORT.items():
        (folder / f"{name}.py").write_text(text)
        targets.append(f"{folder / name}.py:attend")
    targets += [f"{HOSTILE}:{name}" for name in (*ENDED, *RAISED, *HARMLESS)]
    results = audit_many(targets, select=RULES, timeout=5)
    return {Path(each.name.partition(":")[0]).stem + ":" + each.name.rpartition(":")[2]: each for each in results}


def of(audited: Mapping[str, Audited], name: str) -> Audited:
    return audited[f"hostile:{name}"]


def test_every_target_has_a_result(audited: Mapping[str, Audited]) -> None:
    assert len(audited) == len(AT_IMPORT) + len(ENDED) + len(RAISED) + len(HARMLESS)


@pytest.mark.parametrize("name", ENDED)
def test_what_ends_its_process_costs_one_implementation(audited: Mapping[str, Audited], name: str) -> None:
    first, second = of(audited, name).records
    assert first.outcome is Outcome.ERROR
    assert ENDED[name] in first.message
    assert first.message.startswith("The output has the leading axes")
    assert second.outcome is Outcome.NOT_RUN
    assert "SHAPE-001[fp32]" in second.message
    assert of(audited, name).judged.verdict is Verdict.BROKEN


@pytest.mark.parametrize("name", RAISED)
def test_what_raises_is_told(audited: Mapping[str, Audited], name: str) -> None:
    first, _ = of(audited, name).records
    assert first.outcome is Outcome.ERROR
    assert RAISED[name] in first.message
    assert of(audited, name).judged.verdict is Verdict.BROKEN


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_only_loud_or_untidy_is_judged_by_its_results(audited: Mapping[str, Audited], name: str) -> None:
    outcomes = [record.outcome for record in of(audited, name).records]
    assert outcomes == [Outcome.PASSED, Outcome.PASSED]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("exits_at_import", "while it was loaded, it ended its process with exit code 5."),
        ("hangs_at_import", "while it was loaded, it hung: nothing came back within 5 seconds (at hangs_at_import.py:"),
        ("raises_at_import", "it raised ModuleNotFoundError: No module named 'no_such_dependency'"),
        ("asks_to_exit_at_import", "it raised SystemExit: 0"),
    ],
)
def test_what_cannot_be_loaded_is_told_by_name(audited: Mapping[str, Audited], name: str, said: str) -> None:
    result = audited[f"{name}:attend"]
    assert not result.loaded
    assert result.judged.verdict is Verdict.BROKEN
    assert said in result.judged.diagnosis[0]
    assert f"{name}.py:attend" in result.judged.diagnosis[0]


def test_an_executor_runs_the_tasks_and_a_crash_stays_in_its_child() -> None:
    pickle.dumps(run_task)
    with ThreadPoolExecutor(2) as pool:
        targets = [f"{HOSTILE}:segfaults", f"{HOSTILE}:sound"]
        results = {each.name: each for each in audit_many(targets, pool, workers=2, select=RULES)}
    assert results[f"{HOSTILE}:segfaults"].judged.verdict is Verdict.BROKEN
    assert results[f"{HOSTILE}:sound"].judged.verdict is Verdict.CONFORMS
