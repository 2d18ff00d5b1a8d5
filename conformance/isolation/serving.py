"""The child's side: one process that loads targets and works on what they hold, one after another."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .channel import Channel


def serve_with(warm: Callable[[], object], work: Callable[[Channel, dict[str, Any]], None]) -> None:
    """Work through the task on standard input, then end without giving foreign exit handlers a chance to hang.

    `warm` imports what the work needs, before the clock starts.
    """
    channel = Channel()
    task = channel.task()
    warm()
    channel.send("ready")
    work(channel, task)
    channel.send("done")
    os._exit(0)


def end_process(channel: Channel) -> None:
    """End this process, which is no longer as it was, for the parent to go on with a fresh one."""
    channel.send("leave")
    os._exit(0)


def load_and_tell(
    channel: Channel, target: str, settings: Mapping[str, Any], seconds: float,
    wanted: Callable[[int], bool] = lambda number: True,
) -> tuple[Any, ...]:  # fmt: skip
    """Load a target and tell the parent what it holds, as far as the number of each is `wanted`; nothing, and why, where
    it cannot be loaded."""
    from ..errors import ConformanceError
    from ..foreign.edge import safe
    from ..loading import load

    channel.arm(seconds)
    try:
        everything = load(target, settings)
    except ConformanceError as error:
        channel.send("unloadable", target=target, why=safe(str(error)))
        return ()
    loaded = tuple(each for number, each in enumerate(everything) if wanted(number))
    channel.send("loaded", target=target, names=[each.name for each in loaded])
    return loaded


@contextmanager
def place_kept(folder: str) -> Iterator[None]:
    """Start in `folder`, importable; afterwards forget what a target put on the path and imported from there."""
    os.chdir(folder)
    path, modules = list(sys.path), set(sys.modules)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        added = {entry for entry in sys.path if entry not in path} - {folder}
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if _home(str(name).split(".")[0]) in added:
                del sys.modules[name]


def _home(module: str) -> str | None:
    """Return the folder in which a top-level module or package lies."""
    try:
        file = getattr(sys.modules.get(module), "__dict__", {}).get("__file__")
    except BaseException:  # noqa: BLE001 - anything can stand among the modules
        return None
    if not isinstance(file, str):
        return None
    path = Path(file)
    return str(path.parent.parent if path.stem == "__init__" else path.parent)
