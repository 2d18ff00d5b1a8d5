"""An implementation as a function of tensors, as torch's transforms take it."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any

import torch
from torch import Tensor, nn

from ..calling.delivered import Delivered
from ..cases.inputs import Inputs
from ..foreign.edge import Raised, foreign
from ..oracle.comparing import NotApplicable
from ..trials.trial import INPUT_NAMES, Trial

Function = Callable[..., Tensor]


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what torch's transforms say about graph breaks and fallbacks from the session around."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        # torch.export prints the graph of a program that it cannot trace.
        with warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@contextmanager
def offered(what: str) -> Iterator[None]:
    """Turn whatever is raised into NotApplicable: only a result can be wrong."""
    try:
        with _quiet():
            yield
    except Raised as error:
        raise NotApplicable(f"{what}: {error}") from error


@contextmanager
def compiler_reset() -> Iterator[None]:
    """Let nothing that was compiled before or here be seen on the other side."""
    foreign(torch.compiler.reset)
    try:
        yield
    finally:
        foreign(torch.compiler.reset)


def fresh_module(trial: Trial, inputs: Inputs | None = None) -> nn.Module | None:
    """Return a module with the parameters of the inputs, None for a kernel."""
    return trial.subject.fresh(inputs or trial.inputs) if trial.is_module else None


def as_function(trial: Trial, module: nn.Module | None) -> Function:
    """Return the implementation as a function of delivered tensors to its output in canonical axes."""
    target: Any = trial.subject.implementation.target if module is None else module
    usual = trial.subject.deliver(trial.inputs)
    trial.subject.prepare(target, usual)

    def function(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        sent = Delivered(query, key, value, mask, usual.options, usual.heads, usual.pattern)
        return trial.subject.result_of(trial.subject.invoke(target, sent), sent).output

    return function


def sent_tensors(trial: Trial, inputs: Inputs | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Return query, key, value and mask as they are delivered, outside any graph."""
    delivered = trial.subject.deliver(inputs or trial.inputs)
    query, key, value = (getattr(delivered, name).detach() for name in INPUT_NAMES)
    return query, key, value, delivered.mask
