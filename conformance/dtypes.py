"""The four dtypes under their names here, with their unit roundoffs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

DTYPES = ("fp64", "fp32", "bf16", "fp16")

UNIT_ROUNDOFF = {"fp64": 2.0**-53, "fp32": 2.0**-24, "bf16": 2.0**-8, "fp16": 2.0**-11}
"""Half the distance from 1 to the next number: the largest relative error of one rounding to nearest."""

SMALLEST = {"fp64": 2.0**-1074, "fp32": 2.0**-149, "bf16": 2.0**-133, "fp16": 2.0**-24}
"""Smallest subnormal number: the absolute error of a result that underflows."""

_TORCH_NAMES = {"fp64": "float64", "fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


def torch_dtype(name: str) -> torch.dtype:
    """Return the torch dtype called `name` here."""
    import torch

    dtype: torch.dtype = getattr(torch, _TORCH_NAMES[name])
    return dtype


def is_half(name: str) -> bool:
    """Say whether `name` has 16 bits."""
    return name in ("bf16", "fp16")
