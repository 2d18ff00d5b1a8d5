"""The command `bench`: what it prints, writes and returns, and that a crash costs one target."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attention_conformance import cli
from attention_conformance.benching import benchmark
from attention_conformance.benching.benchmark import bench_many, parse_sizes
from attention_conformance.benching.contenders import SDPA
from attention_conformance.benching.measure import Failure, Measurement
from attention_conformance.errors import ConformanceError
from tests.benching.counted import made

Printed = pytest.CaptureFixture[str]

KERNELS = """
import os
from attention_conformance import register
from attention_conformance.reference.attention import attention


def dies(query, key, value, mask=None):
    if query.shape[-2] == 16:
        os._exit(3)
    return attention(query, key, value, mask)


def sound(query, key, value, mask=None):
    return attention(query, key, value, mask)


def hangs(query, key, value, mask=None):
    while True:
        pass


first = register(dies)
second = register(sound)
"""
SMALL = ("--sizes", "8,16,32", "--heads", "2", "--width", "4", "--rounds", "2", "--threads", "1")


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A file that registers a kernel which ends its process at L = 16, and a sound one."""
    tmp_path.joinpath("kernels.py").write_text(KERNELS)
    monkeypatch.chdir(tmp_path)
    return "kernels.py"


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Made-up results instead of child processes; the list holds what was asked for."""
    asked: list[dict[str, Any]] = []

    def fake(targets: Any, settings: Any, **how: Any) -> Any:
        asked.append({"targets": tuple(targets), "settings": settings, **how})
        yield from made(targets[0])

    monkeypatch.setattr(benchmark, "bench_many", fake)
    return asked


def test_a_crash_costs_one_target(kernels: str, capsys: Printed) -> None:
    assert cli.run(["bench", kernels, "--json", "out.json", *SMALL]) == cli.DEPARTS
    found = json.loads(Path("out.json").read_text())["benchmarks"]
    lengths: dict[str, list[tuple[str, int]]] = {}
    for each in found:
        assert each["extra_info"]["threads"] == 1
        assert each["extra_info"]["peak_bytes"] > 0
        assert each["extra_info"]["ratio_to_reference"] > 0
        assert min(each["stats"]["data"]) > 0
        params = each["params"]
        lengths.setdefault(each["name"], []).append((params["direction"], params["L"]))
    everything = [(direction, size) for direction in ("forward", "forward and backward") for size in (8, 16, 32)]
    assert lengths == {
        "kernels.py::first": everything[:1],
        "kernels.py::second": everything,
        "reference attention": everything,
        "torch scaled_dot_product_attention": everything,
    }
    out = capsys.readouterr().out
    assert (
        "not measured: kernels.py::first, forward: kernel, B=1 H=2 D=4, fp32 on cpu, L=    16: it ended its process"
        in out
    )
    assert "exit code 3" in out
    assert "grows as L to the power of" in out


def test_a_hang_and_a_target_that_is_not_there_cost_themselves(kernels: str, capsys: Printed) -> None:
    targets = ["kernels.py:hangs", "kernels.py:missing", "kernels.py:sound"]
    code = cli.run(["bench", *targets, "--timeout", "1", "--forward", "--sizes", "8", *SMALL[2:]])
    out = capsys.readouterr().out
    assert code == cli.USAGE
    assert "not measured: kernels.py:hangs, " in out
    assert "it hung: nothing came back within 1 seconds (at kernels.py:" in out
    assert "not measured: kernels.py:missing: kernels.py:missing: kernels.py has no 'missing'" in out
    assert any("kernels.py:sound" in line and line.endswith("B") for line in out.splitlines())


def test_an_error_that_the_device_keeps_is_told_of_nobody_else(kernels: str, capsys: Printed) -> None:
    odd = Path(__file__).parents[1] / "auditing" / "odd.py"
    targets = [f"{odd}:loses_the_device", "kernels.py:sound"]
    assert cli.run(["bench", *targets, "--forward", "--sizes", "8", *SMALL[2:]]) == cli.DEPARTS
    out = capsys.readouterr().out
    assert out.count("not measured: ") == 1
    assert "it raised RuntimeError: CUDA error: device-side assert triggered" in out
    assert any("kernels.py:sound" in line and line.endswith("B") for line in out.splitlines())


def test_capabilities_that_rule_everything_out_measure_nothing(kernels: str, capsys: Printed) -> None:
    code = cli.run(["bench", "kernels.py:sound", "--set", "dtypes=bf16", "--dtype", "fp32", *SMALL])
    captured = capsys.readouterr()
    assert code == cli.NOTHING
    assert "dtypes=('bf16',) does not hold fp32" in captured.out
    assert "nothing was measured" in captured.err


def test_options_reach_the_plan(faked: list[dict[str, Any]]) -> None:
    arguments = [
        "a:b",
        "c:d",
        "--set",
        "layout=BLHD",
        "--mask",
        "causal",
        "--dtype",
        "bf16",
        "--batch",
        "3",
        "--forward",
    ]
    assert cli.run(["bench", *arguments, *SMALL]) == cli.CONFORMS
    (asked,) = faked
    plan = asked["plan"]
    assert asked["targets"] == ("a:b", "c:d")
    assert asked["settings"] == {"layout": "BLHD"}
    assert asked["threads"] == 1
    assert (plan.sizes, plan.directions, plan.batch, plan.heads, plan.width) == ((8, 16, 32), ("forward",), 3, 2, 4)
    assert (plan.mask, plan.dtype, plan.rounds) == ("causal", "bf16", 2)


def test_without_a_target_torchs_own_is_measured(faked: list[dict[str, Any]], capsys: Printed) -> None:
    assert cli.run(["bench"]) == cli.CONFORMS
    assert faked[0]["targets"] == (SDPA,)
    assert faked[0]["threads"] is None
    assert SDPA in capsys.readouterr().out


def test_a_plot_and_a_file_are_written(faked: list[dict[str, Any]], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    arguments = ["--plot", str(tmp_path / "plot.svg"), "--json", str(tmp_path / "out.json")]
    assert cli.run(["bench", *arguments]) == cli.CONFORMS
    assert tmp_path.joinpath("plot.svg").read_bytes().startswith(b"<?xml")
    assert len(json.loads(tmp_path.joinpath("out.json").read_text())["benchmarks"]) == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sizes", "8,,x"], "is no list of lengths"),
        (["--sizes", "0"], "numbers above 0"),
        (["--plot", "plot.gif"], ".png or .svg"),
        (["--json", "no/such/folder/out.json"], "Name a file that can be written"),
        (["--set", "layout=BLHD"], "name the TARGET"),
        (["a:b", "--set", "layot=BLHD"], "did you mean 'layout'?"),
        (["--threads", "0"], "--threads"),
        (["--dtype", "fp8"], "--dtype"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_runs(
    arguments: list[str], said: str, faked: list[dict[str, Any]], capsys: Printed
) -> None:
    assert cli.run(["bench", *arguments]) == cli.USAGE
    assert said in capsys.readouterr().err
    assert faked == []


def test_each_target_has_a_task_and_companions_none(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []

    def fake(task: Any, hear: Any) -> Any:
        started.append(task.target)
        return iter(())

    monkeypatch.setattr(benchmark, "work_through", fake)
    reference = "attention_conformance.reference.attention:attention"
    assert list(bench_many(["a:b", "a:b", reference, SDPA])) == []
    assert started == ["a:b", reference]
    # Declared otherwise, it is not what stands beside the others.
    started.clear()
    assert list(bench_many([reference, SDPA], {"gradient": "none"})) == []
    assert started == [reference, SDPA]


def test_sizes_are_sorted_and_told_apart() -> None:
    assert parse_sizes(" 512, 8,8 ,16,") == (8, 16, 512)
    with pytest.raises(ConformanceError):
        parse_sizes("8;16")


@pytest.mark.parametrize(
    ("results", "code"),
    [
        (made(), cli.CONFORMS),
        ([*made(), Failure("a", "target", None, "no", excused=True)], cli.CONFORMS),
        ([*made(), Failure("a", "target", None, "no")], cli.DEPARTS),
        ([*made(), Failure("a", "target", None, "no", loaded=False)], cli.USAGE),
        ([Failure("a", "target", None, "no", excused=True)], cli.NOTHING),
    ],
)
def test_the_exit_code_says_what_came_of_it(
    results: list[Measurement | Failure], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "bench_many", lambda targets, settings, **how: iter(results))
    assert cli.run(["bench"]) == code
