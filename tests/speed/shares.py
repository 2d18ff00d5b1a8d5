"""Where the time of a check goes: inside the implementation, in making what is sent and expected, or in the rest."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch

from attention_conformance import check
from attention_conformance.oracle import bounds, expectations, gradients
from attention_conformance.oracle import definition as oracle
from attention_conformance.reference.attention import attention
from attention_conformance.trials import trial

IMPLEMENTATION, MADE, REST = "implementation", "oracle, bounds, inputs", "rest"

_MADE = (
    (trial, ("make", "expect", "expect_of", "expected_gradients")),
    (expectations, ("make", "effective")),
    (oracle, ("solve", "differentiate", "differentiate_logsumexp")),
    (bounds, ("forward", "backward", "backward_logsumexp", "linear")),
    (gradients, ("expected_gradients",)),
)
"""The functions that make inputs, expectations and bounds, or look them up, where they are called."""


class Clock:
    """Adds up seconds, each moment's to the innermost of the functions that are timed."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._inside, self._since = [REST], time.perf_counter()

    def _switch(self) -> None:
        now = time.perf_counter()
        self.seconds[self._inside[-1]] += now - self._since  # type: ignore[assignment]
        self._since = now

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function whose time counts as `name`."""

        def call(*args: Any, **kwargs: Any) -> Any:
            self._switch()
            self._inside.append(name)
            try:
                return function(*args, **kwargs)
            finally:
                self._switch()
                self._inside.pop()

        return call

    def stop(self) -> Mapping[str, float]:
        """Return the seconds of each name so far."""
        self._switch()
        return self.seconds


@contextmanager
def _watched(clock: Clock) -> Iterator[None]:
    """Time torch's backward passes as part of the implementation, and everything that makes what is expected."""
    with ExitStack() as stack:
        grad = clock.timed(IMPLEMENTATION, torch.autograd.grad)
        stack.enter_context(mock.patch.object(torch.autograd, "grad", grad))
        for module, names in _MADE:
            for name in names:
                timed = clock.timed(MADE, getattr(module, name))
                stack.enter_context(mock.patch.object(module, name, timed))
        yield


def shares() -> Mapping[str, float]:
    """Judge the documents' kernel once and return the share of each part; reading the clock counts where it is read."""
    clock = Clock()
    target = clock.timed(IMPLEMENTATION, attention)

    def kernel(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        return target(query, key, value, mask)

    with _watched(clock):
        for _ in check(kernel):
            pass
        seconds = clock.stop()
    total = sum(seconds.values())
    return {name: seconds[name] / total for name in (IMPLEMENTATION, MADE, REST)}
