"""Implementations that harm the process they run in, each named for what it does. No test calls them in its own."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import re
import signal
import subprocess
import sys
import threading
import time
from typing import Any, NoReturn

import torch
from torch import Tensor

from attention_conformance.reference.attention import attention

FORKED: list[bool] = []


def sound(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    return attention(query, key, value, mask)


# It ends its process


def exits(*arguments: Tensor) -> NoReturn:
    os._exit(3)


def exits_as_if_well(*arguments: Tensor) -> NoReturn:
    os._exit(0)


def exits_where_there_is_a_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    if mask is not None:
        os._exit(3)
    return attention(query, key, value)


def sends_itself_a_segfault(*arguments: Tensor) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def reads_address_zero(*arguments: Tensor) -> None:
    ctypes.string_at(0)


def aborts(*arguments: Tensor) -> None:
    os.abort()


def overflows_the_stack(*arguments: Tensor) -> None:
    """Recurse through C without a limit of Python's; later versions have another one there, and raise."""
    sys.setrecursionlimit(10**9)

    def deeper(_: object) -> list[object]:
        return list(map(deeper, [0]))

    deeper(0)


def closes_all_descriptors(*arguments: Tensor) -> NoReturn:
    os.closerange(3, 256)
    hangs()


def eats_memory(*arguments: Tensor) -> NoReturn:
    """Take 1.5 GiB, more than the tests allow, and no more however long it is left alone."""
    held = []
    for _ in range(48):
        held.append(b"\1" * 2**25)
    hangs()


# It hangs


def hangs(*arguments: Tensor) -> NoReturn:
    while True:
        pass


def hangs_in_a_regular_expression(*arguments: Tensor) -> None:
    """The interpreter's lock is held all the while."""
    re.match(r"(a|a)+$", "a" * 100 + "b")


def hangs_with_the_lock_held(*arguments: Tensor) -> None:
    ctypes.PyDLL(None).pause()


def hangs_in_torch(*arguments: Tensor) -> None:
    """The interpreter's lock is free."""
    torch.futures.Future().wait()


def sleeps(*arguments: Tensor) -> None:
    time.sleep(3600)


def waits_for_its_own_thread(*arguments: Tensor) -> None:
    thread = threading.Thread(target=time.sleep, args=(3600,))
    thread.start()
    thread.join()


def stops_the_clock(*arguments: Tensor) -> None:
    """Switch off what would end it, and hang."""
    faulthandler.cancel_dump_traceback_later()
    time.sleep(3600)


def stops_its_process(*arguments: Tensor) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def hangs_and_says_so(*arguments: Tensor) -> None:
    """Write the process id to the pipe in the environment, then hang with the pipe open and the lock held."""
    pipe = os.open(os.environ["HOSTILE_PIPE"], os.O_WRONLY)
    os.write(pipe, f"{os.getpid()}\n".encode())
    ctypes.PyDLL(None).pause()


hangs_and_says_so_too = hangs_and_says_so


# It is loud, or goes on beside


def prints_megabytes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    line = '{"type": "done"}\n'
    for stream in (1, 2):
        os.write(stream, line.encode() * 100_000)
    print(line * 100_000)
    print(line * 100_000, file=sys.stderr)
    return attention(query, key, value, mask)


def reads_input(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    sys.stdin.read()
    return attention(query, key, value, mask)


def forks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Go on twice: a copy of the whole process returns from here as well, the first time."""
    if not FORKED:
        FORKED.append(True)
        os.fork()
    return attention(query, key, value, mask)


def leaves_a_child_with_its_pipes(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"], close_fds=False)
    return attention(query, key, value, mask)
