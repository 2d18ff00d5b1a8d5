"""Implementations that raise or return what nobody expects, each named for it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
import pytest
import torch
from torch import Tensor

Kernel = Callable[..., Any]


# What is raised


class OfItsOwn(BaseException):
    """No Exception."""


class Unprintable(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise SystemExit("no text")

    __repr__ = __str__


Loud = type("Loud\n\x1b[31m[bold]<b>" + "x" * 10_000, (Exception,), {})


def _raising(make: Callable[[], BaseException]) -> Kernel:
    def raises(*arguments: Tensor) -> NoReturn:
        raise make()

    return raises


asks_to_exit = _raising(lambda: SystemExit(0))
interrupts = _raising(KeyboardInterrupt)
skips_the_test = _raising(lambda: pytest.skip.Exception("not today"))
fails_the_test = _raising(lambda: pytest.fail.Exception("enough"))
xfails_the_test = _raising(lambda: pytest.xfail.Exception("as expected"))
ends_the_session = _raising(lambda: pytest.exit.Exception("good bye", 0))
closes_the_generator = _raising(GeneratorExit)
stops_the_iteration = _raising(StopIteration)
raises_its_own = _raising(lambda: OfItsOwn("mine"))
raises_without_text = _raising(Unprintable)
raises_a_loud_name = _raising(lambda: Loud("loud"))
raises_a_surrogate = _raising(lambda: ValueError("half a character \ud800 and \x1b[31m a colour \x07"))
raises_markup = _raising(lambda: ValueError("[bold]loud[/bold] <script> :smile: [/closes-nothing]"))
raises_ten_megabytes = _raising(lambda: ValueError("long " * 2_000_000))
raises_a_million_lines = _raising(lambda: ValueError("line\n" * 1_000_000))
has_no_memory = _raising(MemoryError)
loses_the_device = _raising(
    lambda: RuntimeError("CUDA error: device-side assert triggered\nCUDA kernel errors might be reported later")
)


def asks_for_too_much_memory(*arguments: Tensor) -> Any:
    return torch.empty(2**60)


def recurses(*arguments: Tensor) -> Any:
    return recurses(*arguments)


def exits_without_an_exception(*arguments: Tensor) -> NoReturn:
    sys.exit()


# What is returned


class Untouchable(Tensor):
    """A tensor that raises, in some places beyond Exception, when anybody looks at it."""

    @classmethod
    def __torch_function__(cls, *arguments: Any, **named: Any) -> NoReturn:
        raise SystemExit("do not touch")


class Plain(Tensor):
    """A tensor of a class of its own."""


class Unlike:
    """An object about which even its class cannot be asked."""

    def __getattribute__(self, name: str) -> NoReturn:
        raise OfItsOwn(name)


def _returning(make: Callable[[Tensor, Tensor], object]) -> Kernel:
    """Return a kernel that returns what is made of zeros of the right shape, and of the query."""

    def returns(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> object:
        zeros = torch.zeros(torch.broadcast_shapes(query.shape[:-1], key.shape[:-2] + (1,)) + value.shape[-1:])
        return make(zeros.to(query.dtype), query)

    return returns


async def _later() -> None:
    pass


returns_nothing = _returning(lambda zeros, query: None)
returns_text = _returning(lambda zeros, query: "not a tensor")
returns_numbers = _returning(lambda zeros, query: [1.0, 2.0])
returns_an_array = _returning(lambda zeros, query: np.zeros(zeros.shape))
returns_a_generator = _returning(lambda zeros, query: (each for each in zeros))
returns_a_coroutine = _returning(lambda zeros, query: _later())
returns_a_nested_tuple = _returning(lambda zeros, query: ((zeros, None), (zeros,)))
returns_its_own_class = _returning(lambda zeros, query: zeros.as_subclass(Plain))
returns_untouchable = _returning(lambda zeros, query: zeros.as_subclass(Untouchable))
returns_what_is_unlike_anything = _returning(lambda zeros, query: Unlike())
returns_no_values = _returning(lambda zeros, query: zeros.to("meta"))
returns_a_sparse_tensor = _returning(lambda zeros, query: zeros.to_sparse())
returns_complex_numbers = _returning(lambda zeros, query: zeros.to(torch.complex64))
returns_a_quantised_tensor = _returning(
    lambda zeros, query: torch.quantize_per_tensor(zeros.float(), 0.1, 0, torch.qint8)
)
returns_a_nested_tensor = _returning(lambda zeros, query: torch.nested.nested_tensor([zeros[0], zeros[0]]))
