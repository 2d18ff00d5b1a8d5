"""Implementations that harm the process they run in, each named for what it does. No test calls them in its own."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, NoReturn

import torch
from torch import Tensor

from attention_conformance.reference.attention import attention


def sound(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    return attention(query, key, value, mask)


def exits(*arguments: Tensor) -> NoReturn:
    os._exit(3)


def exits_as_if_well(*arguments: Tensor) -> NoReturn:
    os._exit(0)


def segfaults(*arguments: Tensor) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def hangs(*arguments: Tensor) -> NoReturn:
    while True:
        pass


def hangs_and_says_so(*arguments: Tensor) -> NoReturn:
    """Write the process id to the pipe in the environment, then hang with the pipe open."""
    pipe = os.open(os.environ["HOSTILE_PIPE"], os.O_WRONLY)
    os.write(pipe, f"{os.getpid()}\n".encode())
    while True:
        pass


def asks_to_exit(*arguments: Tensor) -> NoReturn:
    sys.exit(0)


def interrupts(*arguments: Tensor) -> NoReturn:
    raise KeyboardInterrupt


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


def changes_the_default_dtype(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    torch.set_default_dtype(torch.float16)
    torch.set_grad_enabled(False)
    return attention(query, key, value, mask)


def returns_text(*arguments: Tensor) -> str:
    return "not a tensor"


class Untouchable(Tensor):
    """A tensor that raises, in some places beyond Exception, when anybody looks at it."""

    @classmethod
    def __torch_function__(cls, *arguments: Any, **named: Any) -> NoReturn:
        raise SystemExit("do not touch")


def returns_untouchable(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    return torch.zeros(query.shape[:-1] + value.shape[-1:]).as_subclass(Untouchable)


def raises_a_surrogate(*arguments: Tensor) -> NoReturn:
    raise ValueError("half a character \ud800 and \x1b[31m a colour \x07")


def raises_markup(*arguments: Tensor) -> NoReturn:
    raise ValueError("[bold]loud[/bold] :smile: [/closes-nothing]")


def closes_all_descriptors(*arguments: Tensor) -> NoReturn:
    os.closerange(3, 256)
    hangs()


def forks(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Go on twice: a copy of the whole process returns from here as well."""
    os.fork()
    return attention(query, key, value, mask)
