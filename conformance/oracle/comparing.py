"""Comparisons. Each raises Departure with the numbers, or returns the ratio of error to allowance."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases.inputs import Inputs
from ..dtypes import torch_dtype
from ..records import Picture
from .expectations import Near
from .pictures import of_errors


class Departure(Exception):
    """A rule does not hold. `ratio` is error/allowance, `inputs` what was sent, `declare` the declaration that would fit,
    `pictures` what there is to look at. Rules that depend on a convention are not run where it `blocks` them: what
    it is instead is known, and all of them would only repeat it."""

    def __init__(
        self,
        text: str,
        *,
        ratio: float | None = None,
        inputs: Inputs | None = None,
        declare: str | None = None,
        blocks: bool = False,
        pictures: tuple[Picture, ...] = (),
    ) -> None:
        super().__init__(text)
        self.text, self.ratio, self.inputs, self.declare = text, ratio, inputs, declare
        self.blocks = blocks or declare is not None
        self.pictures = pictures


class NotApplicable(Exception):
    """A rule asks for something that the implementation was seen not to offer; the text names the capability."""


def require_shape(*, what: str, actual: Tensor, shape: tuple[int, ...], inputs: Inputs | None = None) -> None:
    """Raise Departure unless the shapes are equal."""
    if tuple(actual.shape) != tuple(shape):
        raise Departure(f"{what} has shape {tuple(actual.shape)}, expected {tuple(shape)}", inputs=inputs)


def require_dtype(*, what: str, actual: Tensor, dtype: str, inputs: Inputs | None = None) -> None:
    """Raise Departure unless the tensor has the dtype called `dtype`."""
    if actual.dtype != torch_dtype(dtype):
        raise Departure(f"{what} has dtype {actual.dtype}, expected {torch_dtype(dtype)}", inputs=inputs)


def require_near(
    *, what: str, actual: Tensor, near: Near, inputs: Inputs | None = None, ignore: Tensor | None = None
) -> float:
    """Compare within the elementwise allowance and return the worst ratio.

    Shape and the pattern of NaN are compared exactly first; NaN never equals a number. `ignore` (broadcast to the
    shape) marks elements that no convention fixes.
    """
    require_shape(what=what, actual=actual, shape=tuple(near.value.shape), inputs=inputs)
    if actual.numel() == 0:
        return 0.0
    found = actual.detach().to("cpu", torch.float64)
    if ignore is None and near.is_finite:
        plain = float(((found - near.value).abs_() / near.allowed).max())
        # Above 1 it departs, and NaN comes from 0/0 as well as from NaN: both are looked at closely below.
        if plain <= 1.0:
            return plain
    return _require_each_near(what, found, near, inputs, ignore)


def _require_each_near(what: str, found: Tensor, near: Near, inputs: Inputs | None, ignore: Tensor | None) -> float:
    if not near.is_finite:
        _require_nan_pattern(what, found, near, inputs, ignore)
    error = (found - near.value).abs()
    ratio = torch.where(error == 0, 0.0, error / near.allowed)
    ratio = torch.where(torch.isfinite(near.value), ratio.nan_to_num(nan=torch.inf, posinf=torch.inf), 0.0)
    if ignore is not None:
        ratio = torch.where(ignore.expand_as(ratio), 0.0, ratio)
    worst = float(ratio.max())
    if worst > 1.0:
        pictures = of_errors(what, ratio)
        raise Departure(_numbers(what, found, near, ratio), ratio=worst, inputs=inputs, pictures=pictures)
    return worst


def _require_nan_pattern(what: str, found: Tensor, near: Near, inputs: Inputs | None, ignore: Tensor | None) -> None:
    expected = torch.isnan(near.value)
    differs = torch.isnan(found) != expected
    if ignore is not None:
        differs = differs & ~ignore.expand_as(differs)
    if bool(differs.any()):
        place = tuple(int(i) for i in differs.nonzero()[0])
        raise Departure(
            f"{what} is {found[place].item():.9g} at {place}, expected {near.value[place].item():.9g}; "
            f"the pattern of NaN differs at {int(differs.sum())} of {differs.numel()} elements",
            ratio=float("inf"),
            inputs=inputs,
            pictures=of_errors(what, torch.where(differs, torch.inf, 0.0)),
        )


def _numbers(what: str, found: Tensor, near: Near, ratio: Tensor) -> str:
    place = tuple(int(i) for i in torch.unravel_index(ratio.argmax(), ratio.shape))
    value, expected, allowed = (float(t[place]) for t in (found, near.value, near.allowed))
    beyond = int((ratio > 1).sum())
    return (
        f"{what} is {value:.9g} at {place}, expected {expected:.9g}: the error {abs(value - expected):.3g} is "
        f"{float(ratio.max()):.3g} times the {allowed:.3g} that rounding allows; {beyond} of {ratio.numel()} elements are beyond"
    )


def require_equal(*, what: str, actual: Tensor, expected: Tensor, inputs: Inputs | None = None) -> None:
    """Raise Departure unless both tensors are equal bit for bit, NaN at the same places."""
    require_shape(what=what, actual=actual, shape=tuple(expected.shape), inputs=inputs)
    if actual.dtype != expected.dtype:
        raise Departure(f"{what} has dtype {actual.dtype}, expected {expected.dtype}", inputs=inputs)
    if torch.equal(actual, expected):
        return
    same = (actual == expected) | (_nan(actual) & _nan(expected))
    if not bool(same.all()):
        place = tuple(int(i) for i in (~same).nonzero()[0])
        raise Departure(
            f"{what} differs: {actual[place].item():.9g} against {expected[place].item():.9g} at {place}, "
            f"{int((~same).sum())} of {same.numel()} elements",
            ratio=float("inf"),
            inputs=inputs,
            pictures=of_errors(what, torch.where(same, 0.0, torch.inf)),
        )


def _nan(tensor: Tensor) -> Tensor:
    return torch.isnan(tensor) if tensor.is_floating_point() else torch.zeros_like(tensor, dtype=torch.bool)


def require_finite(*, what: str, actual: Tensor, inputs: Inputs | None = None) -> None:
    """Raise Departure if an element is NaN or infinite."""
    bad = ~torch.isfinite(actual)
    if bool(bad.any()):
        place = tuple(int(i) for i in bad.nonzero()[0])
        raise Departure(
            f"{what} is {actual[place].item()} at {place}, {int(bad.sum())} of {bad.numel()} elements are not finite",
            ratio=float("inf"),
            inputs=inputs,
            pictures=of_errors(what, torch.where(bad, torch.inf, 0.0)),
        )
