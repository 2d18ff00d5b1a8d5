"""Files that a user asks for. Each is opened before anything runs, so that a path that cannot be written costs nothing."""

from __future__ import annotations

import os
from typing import IO

from .errors import NotWritable


def opened(option: str, path: str) -> IO[str]:
    """Open the file that `option` names, emptied. Raises NotWritable."""
    return _open(option, path, "w")


def check_writable(option: str, path: str) -> None:
    """Raise NotWritable unless a file can be written. What stands in it stays, and no new file is left."""
    there = os.path.exists(path)
    _open(option, path, "a").close()
    if not there:
        os.unlink(path)


def _open(option: str, path: str, mode: str) -> IO[str]:
    try:
        return open(path, mode, encoding="ascii", newline="\n")
    except OSError as error:
        raise NotWritable(f"{option} {path}: {error.strerror}. Name a file that can be written.") from None
