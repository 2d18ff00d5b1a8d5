"""What a bridge is: tensors to arrays, arrays to tensors, and a call between the two."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any, ClassVar

from torch import Tensor

from ..errors import FrameworkMissing

Function = Callable[[Any], object]


class Bridge(ABC):
    """Between torch and one framework. `defaults` are the capabilities of its kernels where these differ from torch's."""

    framework: ClassVar[str]
    defaults: ClassVar[Mapping[str, Any]]
    underflow: ClassVar[float] = 0.0
    """What a result may lose where the framework turns subnormal numbers into zeros."""

    @abstractmethod
    def array(self, tensor: Tensor) -> Any:
        """Return the array of a tensor."""

    @abstractmethod
    def tensor(self, array: Any) -> Tensor:
        """Return the tensor of an array."""

    @abstractmethod
    def is_array(self, value: object) -> bool:
        """Say whether a value is an array of this framework."""

    def settings(self, tensors: Iterable[Tensor]) -> AbstractContextManager[object]:
        """Return what has to be in force while these tensors are arrays."""
        return nullcontext()

    def invoke(self, function: Function, sent: Any) -> Any:
        """Call `function` with what is sent, arrays in place of tensors, and return its result, tensors in place of arrays.

        `sent` and the result may hold them in tuples, lists, dictionaries and dataclasses. A tensor that stands in
        several places is one array in all of them.
        """
        tensors = distinct(sent)
        with self.settings(tensors):
            arrays = [self.array(tensor) for tensor in tensors]
            returned = function(exchanged(sent, tensors, arrays))
            self.handed_back(tensors, arrays)
            device = tensors[0].device if tensors else "cpu"
            return mapped(lambda value: self.tensor(value).to(device) if self.is_array(value) else value, returned)

    def handed_back(self, tensors: Sequence[Tensor], arrays: Sequence[Any]) -> None:  # noqa: B027 - most have nothing to do
        """Write into the tensors what a call made of the arrays, where these do not share their memory."""


def imported(module: str, framework: str, install: str) -> ModuleType:
    """Import what a bridge needs. Raises FrameworkMissing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise FrameworkMissing(
            f"framework={framework!r} needs the module {module}, which cannot be imported ({error}). "
            f"Install it into this environment: pip install {install}"
        ) from error


def mapped(change: Callable[[Any], Any], value: Any) -> Any:
    """Return a value with `change` made to everything in its tuples, lists, dictionaries and dataclasses."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(change, each) for each in value))
    if isinstance(value, (tuple, list)):
        return type(value)(mapped(change, each) for each in value)
    if isinstance(value, Mapping):
        return {name: mapped(change, each) for name, each in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        copy = object.__new__(type(value))
        for entry in fields(value):
            object.__setattr__(copy, entry.name, mapped(change, getattr(value, entry.name)))
        return copy
    return change(value)


def distinct(sent: Any) -> list[Tensor]:
    """Return every tensor of what is sent once, in order."""
    found: dict[int, Tensor] = {}
    mapped(lambda value: found.setdefault(id(value), value) if isinstance(value, Tensor) else None, sent)
    return list(found.values())


def exchanged(sent: Any, tensors: Sequence[Tensor], arrays: Sequence[Any]) -> Any:
    """Return what is sent with an array in the place of each tensor."""
    table = {id(tensor): array for tensor, array in zip(tensors, arrays, strict=True)}
    return mapped(lambda value: table[id(value)] if isinstance(value, Tensor) else value, sent)
