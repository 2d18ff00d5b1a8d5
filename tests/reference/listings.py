"""What the tests of the listings share: their text, seeded inputs and weights, recorded calls."""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Module = TypeVar("Module", bound=nn.Module)
Show = Callable[[], None]


def listing_bytes(name: str) -> bytes:
    """Return the bytes of the installed listing `name`, `attention` or `self_attention`."""
    return (files("attention_conformance.reference") / f"{name}.py").read_bytes()


def listing_text(name: str) -> str:
    return listing_bytes(name).decode()


def normal(*shape: int, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
    """Return standard normal numbers, the same for the same seed and shape."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def build(factory: Callable[[int, int], Module], width: int, heads: int, dtype: torch.dtype = torch.float64) -> Module:
    """Return `factory(width, heads)` with seeded parameters, leaving torch's global generator alone."""
    with torch.device("meta"):
        module = factory(width, heads)
    module = module.to_empty(device="cpu").to(dtype)
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=100 + seed, dtype=dtype) / parameter.shape[-1] ** 0.5)
    return module


@torch.no_grad()
def make_identity(*layers: nn.Linear) -> None:
    """Let each square layer return its input."""
    for layer in layers:
        nn.init.eye_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)


class Calls(TorchFunctionMode):
    """Records positional arguments and result of every call of one torch function.

    with Calls(torch.softmax) as softmax:
        module(...)
    scores, weights = softmax.seen[0][0][0], softmax.seen[0][1]
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.seen: list[tuple[tuple[Any, ...], Any]] = []

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is self.function:
            self.seen.append((args, result))
        return result


def showing(table: dict[str, Show]) -> Callable[[str], Callable[[Show], Show]]:
    """Return the decorator `shows(id)` that enters a function in `table`, each id once."""

    def shows(identifier: str) -> Callable[[Show], Show]:
        def enter(show: Show) -> Show:
            assert identifier not in table, f"{identifier} is shown twice"
            table[identifier] = show
            return show

        return enter

    return shows
