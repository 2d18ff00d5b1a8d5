"""Modules of other frameworks, and functions that take their parameters as arguments, as modules that can be judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from ..errors import InvalidTarget
from . import FRAMEWORKS, bridge_for

ROLES = ("query", "key", "value", "output")
"""The four projections, under the names of their layers."""


@dataclass(frozen=True)
class Projected:
    """A factory of modules made of a function that is handed the parameters. `register` takes `framework`, `reference`
    and `capabilities` as defaults, under what it is given itself."""

    function: Callable[..., Any]
    framework: str
    biases: tuple[str, ...]
    name: str
    reference: str = "MultiHeadAttention"

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """Nothing differs from the reference."""
        return {}

    def __call__(self, d_model: int, heads: int) -> nn.Module:
        """Build a module of four projections (d_model, d_model)."""
        return _Module(self, d_model, heads)


class _Module(nn.Module):
    """Holds the parameters as torch does, weights as (out, in), and hands them to the function at each call."""

    def __init__(self, made_by: Projected, d_model: int, heads: int) -> None:
        super().__init__()
        self._function, self._framework, self._heads = made_by.function, made_by.framework, heads
        for role in ROLES:
            setattr(self, role, nn.Linear(d_model, d_model, bias=role in made_by.biases))

    def forward(self, *tensors: Tensor, **options: Any) -> Any:
        sent = (tensors, options, dict(self.named_parameters()))
        bridge = bridge_for(self._framework)
        return self._call(sent) if bridge is None else bridge.invoke(self._call, sent)

    def _call(self, sent: tuple[Sequence[Any], Mapping[str, Any], Mapping[str, Any]]) -> object:
        tensors, options, parameters = sent
        return self._function(*tensors, **options, parameters=parameters, heads=self._heads)


def projected(function: Callable[..., Any], *, framework: str = "torch", biases: Sequence[str] = ROLES) -> Projected:
    """Make modules of a function that takes the parameters of its four projections as arguments.

    `function(query, key, value, mask=None, *, parameters, heads)` gets query (B, L, M), key and value (B, S, M) with
    M = d_model, and `parameters`, a dictionary of `query.weight` (M, M) stored as (out, in), `query.bias` (M), and the
    same for `key`, `value` and `output`; with `framework` "numpy" or "jax" all of them are arrays. It returns
    (B, L, M), alone or before the weights. `biases` names the projections that have one.

        def attend(query, key, value, mask=None, *, parameters, heads):
            return layer(heads).apply(renamed(parameters), query, key, value, mask=mask)

        layer_of_theirs = register(projected(attend, framework="jax"))

    Gradients reach the parameters where the framework has gradients. Raises InvalidTarget.
    """
    if not callable(function):
        raise InvalidTarget(f"{function!r} cannot be called; projected() takes a function of arrays and parameters.")
    if framework not in FRAMEWORKS:
        raise InvalidTarget(f"framework={framework!r} is none of {', '.join(map(repr, FRAMEWORKS))}.")
    unknown = [role for role in biases if role not in ROLES]
    if unknown:
        raise InvalidTarget(f"biases names {unknown[0]!r}; the projections are {', '.join(ROLES)}.")
    return Projected(function, framework, tuple(biases), f"projected({getattr(function, '__name__', function)})")
