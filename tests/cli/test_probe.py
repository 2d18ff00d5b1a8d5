"""`probe` and `audit --infer`: what they print, their exit codes, and what a crash costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from attention_conformance import cli
from attention_conformance.records import Verdict
from attention_conformance.results import read

HOSTILE = Path(__file__).parents[1] / "auditing" / "hostile.py"
ODD = Path(__file__).parents[1] / "auditing" / "odd.py"
SMALL = ("--select", "SHAPE-001,MASK-002,CAUSAL-001,fp32")

Printed = pytest.CaptureFixture[str]

KERNELS = """
import torch

def attend(query, key, value, mask=None, is_causal=False):
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    if is_causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:], dtype=torch.bool).tril(), float("-inf"))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, float("-inf"))
    return torch.nan_to_num(scores.softmax(-1)) @ value

def late(query, key, value, mask=None):
    weights = (query @ key.transpose(-2, -1) / query.size(-1) ** 0.5).softmax(-1)
    return (weights if mask is None else weights * mask) @ value
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module with a sound kernel of its own conventions, and one that is wrong."""
    (tmp_path / "probed_kernels.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    return "probed_kernels"


def test_what_is_to_be_pasted_conforms(kernels: str, capsys: Printed, tmp_path: Path) -> None:
    assert cli.run(["probe", f"{kernels}:attend"]) == cli.CONFORMS
    printed = capsys.readouterr().out
    lines = printed.split("to paste:")[1].strip().splitlines()
    assert lines[:2] == ["from attention_conformance import register", f"from {kernels} import attend"]
    for answer in ("empty_row='zeros'", "causal='top-left'", "second=None"):
        assert answer in lines[2]
    (tmp_path / "registered.py").write_text("\n".join(lines))
    assert cli.run(["audit", "registered.py", "--select", "fp32"]) == cli.CONFORMS


def test_what_a_file_registers_is_shown_by_its_own_name(kernels: str, capsys: Printed, tmp_path: Path) -> None:
    text = f"import {kernels}\nfrom attention_conformance import register\nmine = register({kernels}.attend)\n"
    (tmp_path / "registered.py").write_text(text)
    assert cli.run(["probe", "registered.py"]) == cli.CONFORMS
    assert "\nregister(attend, empty_row='zeros', " in capsys.readouterr().out


def test_what_nothing_explains_is_named_and_judged(kernels: str, capsys: Printed) -> None:
    assert cli.run(["probe", f"{kernels}:late", "-v"]) == cli.CONFORMS
    printed = capsys.readouterr().out
    assert "not found out: mask" in printed
    assert "mask_after_softmax" in printed
    assert cli.run(["audit", "--infer", f"{kernels}:late", "--select", "MASK-001,fp32"]) == cli.DEPARTS


def test_inferred_answers_are_listed_and_kept(kernels: str, capsys: Printed, tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    assert cli.run(["audit", f"{kernels}:attend", *SMALL]) == cli.DEPARTS
    capsys.readouterr()
    assert cli.run(["audit", "--infer", f"{kernels}:attend", *SMALL, "--json", str(file)]) == cli.CONFORMS
    assert "inferred empty_row='zeros': zeros in second row empty, train" in capsys.readouterr().out
    (audited,) = read(file).audited
    assert audited.judged.verdict is Verdict.DECLARED
    assert set(audited.described.inferred) >= {"empty_row", "causal"}
    assert audited.described.capabilities["causal"] == "top-left"


def test_what_is_declared_is_not_inferred(kernels: str, capsys: Printed) -> None:
    settings = ("--set", "empty_row=uniform")
    assert cli.run(["audit", "--infer", f"{kernels}:attend", *SMALL, *settings]) == cli.DEPARTS
    assert "inferred empty_row" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("target", "seen", "expected"),
    [
        (f"{HOSTILE}:exits", "exit code 3", cli.DEPARTS),
        (f"{HOSTILE}:reads_address_zero", "SIGSEGV", cli.DEPARTS),
        (f"{ODD}:raises_a_surrogate", "no call was answered", cli.CONFORMS),
        (f"{ODD}:loses_the_device", "the device keeps this error", cli.DEPARTS),
    ],
)
def test_a_crash_costs_its_own_target(target: str, seen: str, expected: int, capsys: Printed) -> None:
    code = cli.run(["probe", target, f"{HOSTILE}:sound"])
    printed = capsys.readouterr()
    assert code == expected
    assert seen in printed.out + printed.err
    assert f"{HOSTILE}:sound" in printed.out
    assert len(printed.err.splitlines()) == (expected == cli.DEPARTS)


def test_a_hang_ends_and_its_place_is_told(capsys: Printed) -> None:
    assert cli.run(["probe", f"{HOSTILE}:hangs_with_the_lock_held", "--timeout", "3"]) == cli.DEPARTS
    error = capsys.readouterr().err
    assert "with plain, it hung: nothing came back within 3 seconds (at hostile.py:" in error


def test_a_target_that_is_not_there(kernels: str, capsys: Printed) -> None:
    assert cli.run(["probe", f"{kernels}:atend"]) == cli.USAGE
    assert "did you mean 'attend'?" in capsys.readouterr().err


def test_help_tells_the_exit_codes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "attention_conformance", "probe", "--help"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "0 found out" in done.stdout


def test_what_a_module_registers_is_inferred_beside_what_it_declares(
    kernels: str, capsys: Printed, tmp_path: Path
) -> None:
    (tmp_path / "registering.py").write_text(
        f"from attention_conformance import register\nfrom {kernels} import attend\nkernel = register(attend, second=None)\n"
    )
    how = ("--infer", "--set", "dtypes=fp32", *SMALL)
    assert cli.run(["audit", "registering.py", *how]) == cli.CONFORMS
    printed = capsys.readouterr().out
    assert "inferred empty_row='zeros'" in printed
    assert "inferred dtypes" not in printed
