"""Benchmarks as pytest items: collected only where asked for, run and reported by pytest-benchmark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

# torch imports this late, and pytester would forget it with the modules of an inner run; it cannot be imported twice.
import torch._dynamo  # noqa: F401

from attention_conformance.benching.items import ROUNDS
from tests.plugin.suites import repository, run

pytest_plugins = ["pytester"]

SMALL = ("-o", "attention_benchmark_sizes=8,16")
FLASH = "flash = register(kernels.attend)"
RULES = "MASK-001"


def benchmarks(pytester: pytest.Pytester, *arguments: str) -> list[str]:
    """Return the benchmark items that are collected."""
    ids = run(pytester, "--collect-only", *SMALL, *arguments).collected
    return [each.partition("::")[2] for each in ids if "::benchmark" in each]


def both(name: str, *directions: str) -> list[str]:
    """Return the items of an implementation with everybody beside it."""
    return [
        f"{name}::benchmark-{direction}-{size}{beside}"
        for direction in directions or ("forward", "backward")
        for size in (8, 16)
        for beside in ("", "-reference", "-torch")
    ]


def measured(pytester: pytest.Pytester, *arguments: str) -> tuple[pytest.RunResult, list[dict[str, Any]]]:
    """Run the benchmarks and return what pytest-benchmark wrote."""
    path = Path(pytester.path / "out.json")
    result = pytester.runpytest_inprocess("--benchmark-json", str(path), *SMALL, *arguments)
    found: list[dict[str, Any]] = json.loads(path.read_text())["benchmarks"]
    return result, found


def test_they_are_not_collected_unless_asked_for(pytester: pytest.Pytester) -> None:
    repository(pytester, FLASH)
    assert benchmarks(pytester) == []
    assert benchmarks(pytester, "--benchmark-skip") == []


@pytest.mark.parametrize("option", ["--attention-benchmark", "--benchmark-only"])
def test_either_option_collects_them_beside_the_rules(pytester: pytest.Pytester, option: str) -> None:
    repository(pytester, FLASH)
    assert benchmarks(pytester, option) == both("flash")
    assert any(RULES in each for each in run(pytester, "--collect-only", option).collected)


def test_ids_and_markers_select_them(pytester: pytest.Pytester) -> None:
    repository(pytester, FLASH)
    name = "flash::benchmark-forward-16-torch"
    assert benchmarks(pytester, "--attention-benchmark", f"test_attention.py::{name}") == [name]
    for arguments in (["-m", "attention_benchmark"], ["-m", "benchmark"], ["-k", "benchmark"]):
        ids = run(pytester, "--collect-only", *SMALL, "--attention-benchmark", "--strict-markers", *arguments).collected
        assert len(ids) == len(both("flash"))


def test_capabilities_decide_what_there_is(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        """
        forward = register(kernels.attend, gradient="none", name="forward only")
        causal = register(kernels.attend, causal="always top-left", mask=())
        """,
    )
    assert benchmarks(pytester, "--attention-benchmark") == both("forward only", "forward") + both("causal")


def test_they_are_run_in_groups_of_one_shape_and_direction(pytester: pytest.Pytester) -> None:
    repository(pytester, FLASH)
    result, found = measured(pytester, "--benchmark-only")
    assert result.ret == 0
    groups: dict[str, list[dict[str, Any]]] = {}
    for each in found:
        groups.setdefault(each["group"], []).append(each)
    assert len(groups) == 4
    for entries in groups.values():
        assert [each["name"] for each in entries] == [
            "flash", "reference attention (beside flash)", "torch scaled_dot_product_attention (beside flash)",
        ]  # fmt: skip
        for each in entries:
            assert each["stats"]["rounds"] == ROUNDS
            assert min(each["stats"]["data"]) > 0
            assert each["extra_info"]["threads"] >= 1
            assert each["extra_info"]["peak_bytes"] > 0
    assert [each["fullname"] for each in found] == [f"test_attention.py::{name}" for name in both("flash")]
    result.stdout.fnmatch_lines(["* benchmark 'forward: kernel, B=1 H=8 D=64, fp32 on cpu, L=     8': 3 tests *"])


def test_one_that_raises_fails_with_one_sentence(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        """
        def broken(query, key, value, mask=None):
            if query.shape[-2] == 16:
                raise ValueError("too long")
            return query

        broken = register(broken, second=None)
        """,
    )
    result, found = measured(pytester, "--attention-benchmark", "-k", "benchmark and forward")
    result.assert_outcomes(passed=5, failed=1, deselected=None)
    result.stdout.fnmatch_lines(
        ["*::broken::benchmark-forward-16: it raised ValueError: too long (at test_attention.py:*)"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")
    assert len(found) == 5


def test_what_an_implementation_changes_for_the_process_is_put_back(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        """
        import torch

        before = torch.get_num_threads()

        def selfish(query, key, value, mask=None):
            torch.set_num_threads(before + 1)
            return query

        selfish = register(selfish, second=None)

        def test_after():
            assert torch.get_num_threads() == before
        """,
    )
    result = pytester.runpytest_inprocess("--attention-benchmark", *SMALL, "-k", "benchmark or after")
    result.assert_outcomes(passed=13, deselected=None)


def test_under_xdist_they_are_skipped_and_say_why(pytester: pytest.Pytester) -> None:
    pytest.importorskip("xdist")
    repository(pytester, FLASH)
    arguments = ("-n1", "--attention-benchmark", *SMALL, "-rs", "-k", "benchmark and forward and 8")
    result = pytester.runpytest_subprocess(*arguments)
    result.assert_outcomes(skipped=3, deselected=None)
    result.stdout.fnmatch_lines(["SKIPPED *benchmarks are not run under pytest-xdist*Run them without -n."])


def test_where_benchmarks_are_switched_off_each_is_called_once(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        """
        calls = []

        def attend(query, key, value, mask=None):
            calls.append(1)
            return query

        flash = register(attend, second=None, gradient="none")

        def test_calls():
            assert len(calls) == 2
        """,
    )
    arguments = ("--attention-benchmark", "--benchmark-disable", *SMALL, "-k", "benchmark or calls")
    # The function is collected before the implementation: it is run last by naming it last.
    names = ["test_attention.py::flash", "test_attention.py::test_calls"]
    pytester.runpytest_inprocess(*arguments, *names).assert_outcomes(passed=7, deselected=None)


def test_without_pytest_benchmark_it_is_a_usage_error(pytester: pytest.Pytester) -> None:
    repository(pytester, FLASH)
    result = pytester.runpytest_inprocess("--attention-benchmark", "-p", "no:benchmark")
    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED)
    assert "needs pytest-benchmark: take -p no:benchmark away" in result.stdout.str() + result.stderr.str()


@pytest.mark.parametrize("sizes", ["", "8,x", "0"])
def test_sizes_that_are_none_are_a_usage_error(pytester: pytest.Pytester, sizes: str) -> None:
    repository(pytester, FLASH)
    result = pytester.runpytest_inprocess("--attention-benchmark", "-o", f"attention_benchmark_sizes={sizes}")
    assert result.ret in (pytest.ExitCode.USAGE_ERROR, pytest.ExitCode.INTERRUPTED)
    assert "is no list of lengths" in result.stdout.str() + result.stderr.str()
