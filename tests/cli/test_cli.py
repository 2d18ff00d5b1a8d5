"""The command: its exit codes, what it prints for mistakes, and its result file."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import attention_conformance
from attention_conformance import cli
from attention_conformance.adapters import DEFAULT_TARGETS
from attention_conformance.auditing import workers
from attention_conformance.isolation import child
from attention_conformance.records import Verdict
from attention_conformance.results import Line, read, schema
from attention_conformance.rulebook import catalogue

jsonschema = importlib.import_module("jsonschema")  # it has no types

HOSTILE = Path(__file__).parents[1] / "auditing" / "hostile.py"
ATTENTION = "attention_conformance.reference.attention:attention"
SMALL = ("--select", "SHAPE-001,SHAPE-002,fp32")

Printed = pytest.CaptureFixture[str]


@pytest.fixture
def kernels(tmp_path: Path) -> Path:
    """A file with a sound kernel, one that departs, and one whose deviation is stale."""
    path = tmp_path / "kernels.py"
    path.write_text(
        "from attention_conformance import Deviation, register\n"
        "from attention_conformance.reference.attention import attention\n"
        "def doubled(query, key, value, mask=None):\n"
        "    return 2 * attention(query, key, value, mask)[0]\n"
        "sound = register(attention)\n"
        "departs = register(doubled)\n"
        "stale = register(attention, dtypes=('fp64',), deviations=[Deviation('MASK-999', reason='of old')])\n"
    )
    return path


def test_help_and_version_need_no_torch() -> None:
    code = (
        "import sys; sys.argv[1:] = [{!r}]\n"
        "import atexit; atexit.register(lambda: print('torch' in sys.modules))\n"
        "from attention_conformance.cli import main; main()"
    )
    for argument, said in (("--help", "Exit codes: 0 conforms"), ("--version", attention_conformance.__version__)):
        done = subprocess.run(
            [sys.executable, "-c", code.format(argument)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0
        assert said in done.stdout
        assert done.stdout.endswith("False\n")


def test_it_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "attention_conformance"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "audit" in done.stdout


def test_conforming_gives_0_and_a_table(capsys: Printed) -> None:
    assert cli.run(["audit", ATTENTION, *SMALL]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[2].split() == [ATTENTION, "conforms", "2", "0", "0", "0", "0", "0"]
    assert printed.out.endswith("1 of 1 implementations conform, 2 records\n")
    assert printed.err == ""


def test_departing_gives_1_and_its_story(kernels: Path, capsys: Printed) -> None:
    assert cli.run(["audit", f"{kernels}:sound", f"{kernels}:departs", "--select", "NUMERIC-001", "-n", "2"]) == 1
    printed = capsys.readouterr().out
    _, _, story = printed.partition(f"{kernels}:departs departs\n")
    assert story.startswith("  points to output_multiplied: ")
    assert "\n  NUMERIC-001[fp64] failed\n" in story
    assert printed.endswith("1 of 2 implementations conform, 6 records\n")


def test_a_crash_gives_1_and_the_next_target_is_judged(capsys: Printed) -> None:
    assert cli.run(["audit", f"{HOSTILE}:exits", ATTENTION, *SMALL, "-q"]) == 1
    rows = [line.split()[:4] for line in capsys.readouterr().out.splitlines()[2:]]
    assert rows == [[f"{HOSTILE}:exits", "broken", "0", "0"], [ATTENTION, "conforms", "2", "0"]]


def test_what_cannot_be_loaded_gives_2_and_the_others_are_judged(
    kernels: Path, capsys: Printed, tmp_path: Path
) -> None:
    file = tmp_path / "results.jsonl"
    assert cli.run(["audit", "nowhere_at_all:f", f"{kernels}:departs", *SMALL, "--json", str(file)]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: nowhere_at_all:f: there is no module 'nowhere_at_all'")
    assert f"{kernels}:departs" in printed.out
    assert {each.name: each.loaded for each in read(file).audited} == {
        "nowhere_at_all:f": False, f"{kernels}:departs": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["audit", ATTENTION, "--set", "emptyrow=zeros"], "did you mean 'empty_row'?"),
        (["audit", ATTENTION, "--set", "empty_row"], "has no '='"),
        (["audit", ATTENTION, "--select", "MAKS"], "'MAKS' is no rule, family or dtype, did you mean 'MASK'?"),
        (["audit", "--set", "empty_row=zeros"], "--set declares what a TARGET does; name the TARGET."),
        (["audit", "-q", "-v"], "-q and -v exclude each other: give one of them."),
        (["audit", "--timeout", "0"], "--timeout"),
        (["audit", "-n", "0"], "-n"),
        (["audit", "--nonsense"], "No such option"),
        (["audi"], "No such command"),
        (["audit", ATTENTION, "--json", "/nowhere/at/all.jsonl"], "Name a file that can be written."),
        (["rules", "MASK-03"], "no rule 'MASK-03', did you mean 'MASK-"),
    ],
)
def test_mistakes_give_2_and_one_line(arguments: list[str], said: str, capsys: Printed) -> None:
    assert cli.run(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1
    assert said in printed.err


def test_a_wrong_value_of_a_setting_is_told_for_its_target(capsys: Printed) -> None:
    assert cli.run(["audit", ATTENTION, "--set", "empty_row=zero"]) == 2
    assert "did you mean 'zeros'" in capsys.readouterr().err


def test_settings_declare(capsys: Printed) -> None:
    assert cli.run(["audit", ATTENTION, "--set", "mask=bool", "--select", "MASK-005,SHAPE-002,fp32"]) == 0
    row = capsys.readouterr().out.splitlines()[2].split()
    assert row[1] == "conforms-declared"
    assert row[2:8] == ["1", "0", "0", "0", "0", "1"]


def test_nothing_ran_gives_3(capsys: Printed) -> None:
    assert cli.run(["audit", ATTENTION, "--select", "CAUSAL-003"]) == 3
    assert "error: nothing ran" in capsys.readouterr().err


def test_a_stale_deviation_gives_1_on_a_full_run_only(kernels: Path, capsys: Printed) -> None:
    assert cli.run(["audit", f"{kernels}:stale", "--select", "SHAPE-001"]) == 0
    assert "stale: " not in capsys.readouterr().out
    file = kernels.with_suffix(".jsonl")
    assert cli.run(["audit", f"{kernels}:stale", "--json", str(file), "-q"]) == 1
    assert "stale: " in capsys.readouterr().out
    (result,) = read(file).audited
    assert "MASK-999" in result.judged.stale[0]


def test_a_worker_that_does_not_start_gives_4(monkeypatch: pytest.MonkeyPatch, capsys: Printed) -> None:
    monkeypatch.setattr(child, "_CODE", "raise SystemExit('no torch here')")
    assert cli.run(["audit", ATTENTION, *SMALL]) == 4
    assert "a worker process did not start" in (said := capsys.readouterr().err)
    assert "no torch here" in said


@pytest.fixture
def pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A named pipe on which `hangs_and_says_so` writes its process id and which it keeps open while it lives."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    monkeypatch.setenv("HOSTILE_PIPE", str(path))
    return path


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
@pytest.mark.parametrize(
    ("number", "code"),
    [
        (signal.SIGINT, 4),
        (signal.SIGTERM, 4),
        (signal.SIGHUP, 4),
        pytest.param(
            signal.SIGKILL, -9, marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills in time")
        ),
    ],
)
def test_no_child_outlives_its_parent_which_leaves_whole_lines(
    pipe: Path, tmp_path: Path, number: int, code: int
) -> None:
    """Two children that hold the interpreter's lock, after two that were judged."""
    names = ("sound", "prints_megabytes", "hangs_and_says_so", "hangs_and_says_so_too")
    file = tmp_path / "torn.jsonl"
    command = [sys.executable, "-m", "attention_conformance", "audit", *(f"{HOSTILE}:{name}" for name in names), *SMALL]
    command += ["-n", "2", "--timeout", "600", "--json", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as parent:
        with pipe.open() as heard:
            assert len({parent.pid, int(heard.readline()), int(heard.readline())}) == 3
            parent.send_signal(number)
            assert heard.read() == ""
        _, said = parent.communicate(timeout=60)
    assert parent.returncode == code
    assert said.strip().startswith(b"error: interrupted; nothing was concluded" if code == 4 else b"")
    assert bool(said.strip()) == (code == 4)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    judged = {line["implementation"].rpartition(":")[2] for line in lines if line["type"] == "verdict"}
    assert judged == {"sound", "prints_megabytes"}
    with pytest.raises(attention_conformance.ConformanceError, match="no footer"):
        read(file)


def test_the_result_file_of_an_interrupted_run_is_torn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Printed
) -> None:
    def interrupted(tasks: object) -> Iterator[Line]:
        raise KeyboardInterrupt
        yield {}

    monkeypatch.setattr(workers, "lines", interrupted)
    assert cli.run(["audit", ATTENTION, "--json", str(tmp_path / "torn.jsonl")]) == 4
    with pytest.raises(attention_conformance.ConformanceError, match="no footer"):
        read(tmp_path / "torn.jsonl")


def test_rules_are_listed_by_family(capsys: Printed) -> None:
    assert cli.run(["rules"]) == 0
    everything = capsys.readouterr().out
    for rule in catalogue().values():
        assert f"  {rule.id}  " in everything
    assert cli.run(["rules", "MASK"]) == 0
    assert "SHAPE-001" not in capsys.readouterr().out


def test_one_rule_is_shown_with_everything(capsys: Printed) -> None:
    assert cli.run(["rules", "MASK-002"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    rule = catalogue()["MASK-002"]
    for text in (rule.sentence, rule.reason, rule.source, rule.cases[0].describe(), "the convention empty_row"):
        assert " ".join(text.split()) in printed


@pytest.mark.parametrize("arguments", [["--select", "fp32"], pytest.param([], marks=pytest.mark.slow)])
def test_the_default_audit(arguments: list[str], tmp_path: Path, capsys: Printed) -> None:
    file = tmp_path / "results.jsonl"
    code = cli.run(["audit", "-n", "2", "--json", str(file), "--label", "here", *arguments])
    printed = capsys.readouterr().out
    for line in file.read_text().splitlines():
        jsonschema.validate(json.loads(line), schema())
    results = read(file)
    verdicts = {each.name: each.judged.verdict for each in results.audited}
    assert set(verdicts) == set(DEFAULT_TARGETS)
    assert results.header.label == "here"
    assert set(verdicts.values()) <= {Verdict.CONFORMS, Verdict.DECLARED}
    bad = [f"{r.implementation} {r.key} {r.message}" for each in results.audited for r in each.records if r.bad]
    assert bad == []
    assert code == 0
    assert [line.split()[0] for line in printed.splitlines()[2:9]] == list(DEFAULT_TARGETS)
