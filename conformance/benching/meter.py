"""The peak of memory during one call.

On the CPU it counts what torch's allocator is asked for while the call runs, as torch's profiler records it: every
tensor and every workspace that comes and goes inside a fused kernel, to the byte, and the same each time. It does not
see what is taken elsewhere (by NumPy, or by a library's own malloc). The resident size of the process would see that
as well, but only in whole pages, only above the highest mark so far, and mixed with what allocators keep for later.
On CUDA it is torch's own statistic.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

Meter = Callable[[Callable[[], object], str], "int | None"]
"""Makes one call on a device and returns the peak in bytes, None where it cannot be told."""


def peak_bytes(call: Callable[[], object], device: str) -> int | None:
    """Make one call and return how much more memory it holds at its peak than before; its result counts.

    None on devices without a statistic, and where nothing at all was asked of torch's allocator.
    """
    kind = torch.device(device).type
    if kind == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        kept = call()
        peak = torch.cuda.max_memory_allocated(device) - before
        del kept
        return peak or None
    return peak_of(_recorded(call)) if kind == "cpu" else None


def _recorded(call: Callable[[], object]) -> list[dict[str, Any]]:
    """Return the events of torch's allocator during a call, in order."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profiler:
        kept = call()
    del kept
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text(encoding="utf-8", errors="replace"))["traceEvents"]
    return sorted((event for event in events if event.get("name") == "[memory]"), key=lambda event: float(event["ts"]))


def peak_of(events: Iterable[Mapping[str, Any]]) -> int | None:
    """Return the peak of what was allocated meanwhile. Memory that is freed but was taken earlier does not count."""
    live: dict[Any, int] = {}
    now = peak = 0
    for event in events:
        size, address = int(event["args"]["Bytes"]), event["args"]["Addr"]
        if size > 0:
            live[address] = size
            now += size
            peak = max(peak, now)
        else:
            now -= live.pop(address, 0)
    return peak or None
