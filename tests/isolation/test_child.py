"""What a child's last words say of how it ended and where."""

from __future__ import annotations

import os
import sysconfig

import torch

import attention_conformance
from attention_conformance.isolation import child

STDLIB, TORCH = sysconfig.get_path("stdlib"), os.path.dirname(torch.__file__)
OURS = os.path.dirname(attention_conformance.__file__)


def trace(head: str, *frames: str) -> str:
    return f"{head} (most recent call first):\n" + "".join(f'  File "{frame}, line {7} in f\n' for frame in frames)


def test_the_place_is_where_the_implementation_is_not_where_it_waits() -> None:
    said = "Timeout (0:00:04)!\n" + trace("Thread 0x1", f'{OURS}/worker.py"') + "\n"
    said += trace(
        "Thread 0x2", f'{STDLIB}/threading.py"', f'{TORCH}/futures.py"', '/home/me/kernel.py"', f'{OURS}/edge.py"'
    )
    assert child._where(said) == " (at kernel.py:7)"


def test_the_thread_that_died_is_asked_first() -> None:
    said = trace("Current thread 0x1", '/home/me/threaded.py"') + "\n" + trace("Thread 0x2", '/home/me/waiting.py"')
    assert child._where(said) == " (at threaded.py:7)"


def test_where_nobody_else_is_a_place_of_python_is_better_than_none() -> None:
    assert child._where(trace("Thread 0x1", f'{STDLIB}/re.py"', f'{OURS}/edge.py"')) == " (at re.py:7)"
    assert child._where(trace("Thread 0x1", f'{OURS}/edge.py"')) == ""
    assert child._where("") == ""
