"""What is shown and written of measurements: rows, table, pytest-benchmark's file, plot."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import io
import json
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from attention_conformance.benching import benchfile, plot, table
from attention_conformance.benching.measure import Failure, Measurement
from attention_conformance.benching.series import sections
from tests.benching.counted import SIZES, made

pytest_plugins = ["pytester"]

HOSTILE = r"_kernels.py:$\frac$_{x}^<b>&[red]"


def both(name: str = "kernels:attend") -> list[Measurement]:
    """Return made-up measurements of a reference that grows as the square and a linear target, in both directions."""
    found: list[Measurement] = []
    for direction in ("forward", "forward and backward"):
        found += made(name, direction=direction, ratio=0.25)
        found += made("somewhere:attention", "reference", direction=direction, units=lambda length: length**2)
    return found


def printed(results: list[Measurement], failures: tuple[Failure, ...] = (), width: int = 200) -> str:
    """Return what the terminal shows."""
    console = Console(file=io.StringIO(), width=width, markup=False, emoji=False, highlight=False)
    table.report(console, sections(results), failures)
    return console.file.getvalue()  # type: ignore[attr-defined,no-any-return]


# Rows


def test_a_section_has_a_row_for_each_length_and_name_with_the_reference_first() -> None:
    forward, backward = sections(both())
    assert forward.title != backward.title
    assert [(row.group.length, row.label) for row in forward.rows[:4]] == [
        (8, "reference attention"), (8, "kernels:attend"), (16, "reference attention"), (16, "kernels:attend"),
    ]  # fmt: skip
    assert forward.sizes == SIZES


def test_ratios_and_times_are_positive_and_pooled_over_runs() -> None:
    first, second = made(ratio=0.5), made(ratio=0.7)
    (section,) = sections(first + second)
    assert [len(row.seconds) for row in section.rows] == [6] * len(SIZES)
    for row in section.rows:
        assert row.ratio == pytest.approx(0.6)
        assert 0 < row.quartiles[0] <= row.median <= row.quartiles[1]


def test_other_dtypes_and_masks_are_sections_of_their_own() -> None:
    from dataclasses import replace

    plain = made()
    others = [replace(each, group=replace(each.group, dtype="bf16")) for each in plain]
    others += [replace(each, group=replace(each.group, mask="causal")) for each in plain]
    assert len(sections(plain + others)) == 3


# Table


def test_the_table_shows_figures_ratio_memory_and_growth() -> None:
    text = printed(both())
    assert "forward: kernel, B=1 H=2 D=4, fp32 on cpu, 1 thread" in text
    (line,) = [each for each in text.splitlines()[:20] if each.split()[:1] == ["64"]]
    assert line.split()[:2] == ["64", "reference"]
    assert "0.25" in text
    assert "4.1 s" in text
    assert "64 KiB" in text
    grown = [each.split() for each in text.splitlines() if each.lstrip().startswith("L = 16 to 64")]
    assert [each[5:] for each in grown[:2]] == [
        ["reference", "attention", "2.00", "±", "0.01", "2.00", "±", "0.01"],
        ["kernels:attend", "1.00", "±", "0.01", "1.00", "±", "0.01"],
    ]


def test_with_two_sizes_the_table_says_that_growth_needs_three() -> None:
    text = printed(made(sizes=(8, 16)))
    assert "needs three sizes" in text
    assert "±" not in text.split("needs three sizes")[0]


def test_what_was_not_measured_is_told_with_its_reason() -> None:
    failure = Failure("kernels:bad", "target", made()[0].group, "it raised ValueError: [bold]no")
    text = printed([], (failure, Failure("kernels:none", "target", None, "dtypes", excused=True)))
    assert "not measured: kernels:bad, forward: kernel, B=1 H=2 D=4, fp32 on cpu, L=     8: it raised" in text
    assert "[bold]no" in text
    assert "not measured: kernels:none: dtypes" in text


@pytest.mark.parametrize(("shares", "said"), [((0.0, 0.1), False), ((0.0, 0.4), True), ((None, None), False)])
def test_a_busy_machine_is_told_of(shares: tuple[float | None, float | None], said: bool) -> None:
    from dataclasses import replace

    results = [replace(each, waited=share) for share in shares for each in made()]
    text = printed(results)
    assert ("The machine was busy: for 20% of their time" in text) == said


def test_a_narrow_terminal_loses_no_figure() -> None:
    text = printed(both(), width=79)
    assert "4.1 s" in text
    assert all(len(line) <= 79 for line in text.split("Median of")[0].splitlines() if "│" in line or "─" in line)


@pytest.mark.parametrize(
    ("value", "text"),
    [(3e-9, "3 ns"), (1.234e-6, "1.23 µs"), (0.0345, "34.5 ms"), (0.9996, "1000 ms"), (1.0, "1 s"), (1234.0, "1234 s")],
)
def test_times_have_three_digits(value: float, text: str) -> None:
    assert table.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, ""), (5, "5 B"), (2048, "2 KiB"), (3 * 2**20 + 2**19, "3.5 MiB"), (2**30, "1 GiB")]
)
def test_memory_has_three_digits(value: int | None, text: str) -> None:
    assert table.memory(value) == text


# File


def test_the_file_holds_the_rounds_and_what_is_ours() -> None:
    document = benchfile.document(sections(both()))
    assert len(document["benchmarks"]) == 2 * 2 * len(SIZES)
    entry = next(each for each in document["benchmarks"] if each["extra_info"]["role"] == "target")
    assert entry["name"] == "kernels:attend"
    assert entry["params"] == {"L": 8, "direction": "forward", "dtype": "fp32", "mask": "none"}
    assert entry["stats"]["data"] == list(made()[0].seconds)
    assert entry["stats"]["rounds"] == 3
    assert entry["stats"]["min"] <= entry["stats"]["median"] <= entry["stats"]["max"]
    extra = entry["extra_info"]
    assert extra["ratio_to_reference"] == pytest.approx(0.25)
    assert extra["peak_bytes"] == 8 * 1024
    assert extra["threads"] == 1
    assert extra["time_exponent"] == pytest.approx(1.0)
    assert extra["memory_exponent_over"] == [16, 32, 64]
    assert len({each["fullname"] for each in document["benchmarks"]}) == len(document["benchmarks"])


def test_the_file_has_every_field_that_pytest_benchmark_writes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_theirs(benchmark):\n    benchmark.pedantic(len, args=((),), rounds=3)")
    path = pytester.path / "theirs.json"
    pytester.runpytest_inprocess("--benchmark-json", str(path), "-p", "no:xdist").assert_outcomes(passed=1)
    theirs, own = json.loads(path.read_text()), benchfile.document(sections(both()))
    assert theirs.keys() <= own.keys()
    (entry,) = theirs["benchmarks"]
    for each in own["benchmarks"]:
        assert entry.keys() <= each.keys()
        assert entry["stats"].keys() <= each["stats"].keys()
        assert entry["options"].keys() - {"precision", "confidence"} <= each["options"].keys()
    assert theirs["machine_info"].keys() == own["machine_info"].keys()
    assert theirs["commit_info"].keys() == own["commit_info"].keys()


def compare(folder: Path, program: str, *arguments: str) -> str:
    """Run one of pytest-benchmark's commands by the name under which it is installed."""
    (entry,) = importlib.metadata.entry_points(group="console_scripts", name=program)
    code = f"import sys; sys.argv[0] = {program!r}; from {entry.module} import {entry.attr} as main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "compare", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("program", ["pytest-benchmark", "py.test-benchmark"])
def test_pytest_benchmark_compares_one_file(tmp_path: Path, program: str) -> None:
    with open(tmp_path / "own.json", "w") as file:
        benchfile.write(file, sections(both()))
    text = compare(tmp_path, program, "own.json")
    groups = [line for line in text.splitlines() if "benchmark '" in line]
    assert len(groups) == 2 * len(SIZES)
    assert [line.split("L=")[1].split("'")[0].strip() for line in groups] == [*map(str, SIZES)] * 2
    assert text.count("reference attention") == text.count("kernels:attend") == 2 * len(SIZES)


def test_pytest_benchmark_compares_two_files_and_groups_by_a_parameter(tmp_path: Path) -> None:
    for name in ("before", "after"):
        with open(tmp_path / f"{name}.json", "w") as file:
            benchfile.write(file, sections(both()))
    text = compare(tmp_path, "pytest-benchmark", "before.json", "after.json", "--columns=median", "--group-by=param:L")
    assert text.count("kernels:attend (before)") == text.count("kernels:attend (after)") == 2 * len(SIZES)
    assert sum("benchmark 'L=" in line for line in text.splitlines()) == len(SIZES)


def test_the_file_is_ascii_whatever_the_name(tmp_path: Path) -> None:
    file = io.StringIO()
    benchfile.write(file, sections(made("größer\ud800")))
    assert file.getvalue().isascii()
    assert json.loads(file.getvalue())["benchmarks"][0]["name"] == "größer\\ud800"


# Plot


def test_a_plot_without_matplotlib_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(plot.NoPlot, match=r"pip install 'attention-conformance\[plot\]'"):
        plot.save(str(tmp_path / "plot.png"), sections(both()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["plot", "plot.jpeg", "plot.png.txt"])
def test_a_plot_of_another_kind_is_refused(name: str) -> None:
    with pytest.raises(plot.NoPlot, match=r"\.png or \.svg"):
        plot.check(name)


def drawn(path: Path, results: list[Measurement]) -> Any:
    pytest.importorskip("matplotlib")
    plot.save(str(path), sections(results))
    return path.read_bytes()


def words(path: Path) -> str:
    """Return all text of an SVG."""
    return " ".join("".join(element.itertext()).strip() for element in ElementTree.parse(path).iter())


def test_a_picture_is_written(tmp_path: Path) -> None:
    assert drawn(tmp_path / "plot.png", both()).startswith(b"\x89PNG\r\n")


def test_a_drawing_names_everybody_each_length_and_both_axes(tmp_path: Path) -> None:
    drawn(tmp_path / "plot.svg", both())
    text = words(tmp_path / "plot.svg")
    for word in ("kernels:attend", "reference attention", "time of one call", "peak memory", "forward and backward:"):
        assert word in text
    for word in ("fitted to L = 16 to 64", "KiB", "ms", *map(str, SIZES)):
        assert word in text


def test_names_are_no_formulas(tmp_path: Path) -> None:
    drawn(tmp_path / "plot.svg", both(HOSTILE))
    assert HOSTILE in words(tmp_path / "plot.svg")


def test_two_drawings_of_the_same_figures_are_equal(tmp_path: Path) -> None:
    assert drawn(tmp_path / "a.svg", both()) == drawn(tmp_path / "b.svg", both())


@pytest.mark.parametrize("results", [made(peak=False), made(sizes=(8,)), made(sizes=(8, 16))])
def test_figures_that_are_missing_leave_a_plot(tmp_path: Path, results: list[Measurement]) -> None:
    drawn(tmp_path / "plot.svg", results)
    assert "kernels:attend" in words(tmp_path / "plot.svg")
