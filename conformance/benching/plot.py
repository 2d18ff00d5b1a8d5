"""Time and memory against L, both axes logarithmic, so that a power of L is a straight line."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..errors import ConformanceError
from ..foreign.edge import safe
from . import table
from .growth import Growth
from .series import Line, Section

SUFFIXES = (".png", ".svg")

_GREY = {"reference": "#6b6b6b", "torch": "#a35200"}
_COLOURS = ("#0065a8", "#b3204d", "#2a7f3f", "#7a3fa0", "#00848c", "#8c6d00")
_MARKERS = {"reference": "s", "torch": "^"}


class NoPlot(ConformanceError):
    """A plot cannot be drawn: matplotlib is missing, or the file's suffix is unknown."""


def check(path: str) -> None:
    """Raise NoPlot where a plot could not be written in the end."""
    if Path(path).suffix.lower() not in SUFFIXES:
        raise NoPlot(f"--plot {path}: plots are written as {' or '.join(SUFFIXES)}; end the name with one of them.")
    if importlib.util.find_spec("matplotlib") is None:
        raise NoPlot("--plot needs matplotlib, which is not installed: pip install 'attention-conformance[plot]'")


def save(path: str, found: Sequence[Section]) -> None:
    """Draw a row for each section, time on the left and memory on the right. Raises NoPlot."""
    check(path)
    # Through importlib, because matplotlib is optional; a bare Figure needs no display and no global state.
    matplotlib = importlib.import_module("matplotlib")
    figure_module = importlib.import_module("matplotlib.figure")
    with matplotlib.rc_context({"svg.hashsalt": "attention-conformance", "font.size": 9, "svg.fonttype": "none"}):
        figure = figure_module.Figure(figsize=(10, 3.9 * len(found)), layout="constrained")
        parts = figure.subfigures(len(found), 1, squeeze=False, hspace=0.04)[:, 0]
        for part, section in zip(parts, found, strict=True):
            _section(part, section)
        # The same figures give the same file.
        figure.savefig(path, dpi=150, metadata={"Date": None} if path.lower().endswith(".svg") else None)


def _section(part: Any, section: Section) -> None:
    """Draw one section: times with the band between their quartiles, and memory."""
    threads = "/".join(map(str, sorted({row.threads for row in section.rows})))
    title = f"{section.title}, {threads} thread{'' if threads == '1' else 's'}"
    part.suptitle(title, x=0.01, ha="left", fontsize=10, fontweight="bold")
    time_axis, memory_axis = part.subplots(1, 2)
    colours = _colours(section.lines)
    over = next((line.time.sizes for line in section.lines if line.time is not None), ())
    fitted = f"fitted to L = {over[0]} to {over[-1]}" if over else ""
    for line in section.lines:
        _band(time_axis, line, colours[line.label])
        _line(time_axis, line, lambda row: row.median, line.time, colours[line.label])
        _line(memory_axis, line, lambda row: row.peak, line.memory, colours[line.label])
    _scales(time_axis, section.sizes, "time of one call (median, quartiles)", table.seconds, 10, fitted)
    _scales(memory_axis, section.sizes, "peak memory of one call", _bytes, 2, fitted)


def _colours(lines: Sequence[Line]) -> dict[str, str]:
    """Return a colour for each line: fixed ones for those who stand beside the targets."""
    targets = [line.label for line in lines if line.role == "target"]
    own = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(targets)}
    return {line.label: own.get(line.label) or _GREY[line.role] for line in lines}


def _line(axis: Any, line: Line, value: Callable[[Any], Any], growth: Growth | None, colour: str) -> None:
    points = [(row.group.length, value(row)) for row in line.rows if value(row)]
    if not points:
        return
    exponent = "" if growth is None else f"   L^{growth.text()}"
    marker = _MARKERS.get(line.role, "o")
    # A label with an underscore in front stays out of a legend.
    name = shortened(line.label)
    name = f"\u200b{name}" if name.startswith("_") else name
    axis.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=5, label=f"{name}{exponent}")


def _band(axis: Any, line: Line, colour: str) -> None:
    lengths = [row.group.length for row in line.rows]
    low, high = zip(*(row.quartiles for row in line.rows), strict=True)
    axis.fill_between(lengths, low, high, color=colour, alpha=0.15, linewidth=0)


def _scales(
    axis: Any, sizes: Sequence[int], title: str, unit: Callable[[Any], str], base: int, fitted: str
) -> None:  # fmt: skip
    ticker = importlib.import_module("matplotlib.ticker")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log", base=base)
    axis.set_xticks(list(sizes), [str(size) for size in sizes])
    axis.yaxis.set_major_locator(ticker.LogLocator(base, subs=(1.0, 2.0, 5.0) if base == 10 else (1.0,), numticks=10))
    axis.yaxis.set_major_formatter(lambda value, position: unit(value))
    axis.minorticks_off()
    axis.set_xlabel("L = S")
    axis.set_title(title, loc="left", fontsize=9)
    axis.grid(True, which="major", color="#e2e2e2", linewidth=0.6)
    axis.spines[["top", "right"]].set_visible(False)
    if axis.get_lines():
        _guides(axis, sizes)
        legend = axis.legend(frameon=False, fontsize=8, loc="upper left", alignment="left")
        legend.set_title(fitted, {"size": 8})
        for text in legend.get_texts():
            text.set_parse_math(False)
    else:
        axis.text(0.5, 0.5, "nothing of torch's memory was used", ha="center", transform=axis.transAxes)


def _guides(axis: Any, sizes: Sequence[int]) -> None:
    """Draw the slopes of L and of its square from the lowest point on, to compare with."""
    if len(sizes) < 2:
        return
    lowest = min(min(line.get_ydata()) for line in axis.get_lines())
    bottom, top = axis.get_ylim()
    for power, name in ((1, "L"), (2, "L²")):
        heights = [lowest / 1.6 * (size / sizes[0]) ** power for size in sizes]
        axis.plot(sizes, heights, color="#aaaaaa", linewidth=0.9, linestyle=(0, (2, 3)), zorder=0)
        axis.annotate(
            name, (sizes[-1], heights[-1]), xytext=(4, 0), textcoords="offset points", va="center", color="#888888"
        )
    # Room for the legend above what is drawn.
    axis.set_ylim(min(bottom, lowest / 2), top * (top / bottom) ** 0.3)


def _bytes(value: float) -> str:
    return table.memory(round(value))


def shortened(name: str, longest: int = 60) -> str:
    """Return a name that can be drawn, cut at its front."""
    shown = safe(name).replace("\n", "\\n")
    return shown if len(shown) <= longest else f"...{shown[3 - longest :]}"
