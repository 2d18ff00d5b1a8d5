"""Changes of tensors as stages, for faults of several kinds."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from ..stages import Call, Stages

BLOCKS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def prepared(change: Callable[[Call, Tensor, Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]) -> Stages:
    return {"prepare": change}


def spread(change: Callable[[Call, Tensor], Tensor]) -> Stages:
    return {"spread": change}


def one_changed(position: int, change: Callable[[Tensor], Tensor]) -> Stages:
    """Query (0), key (1) or value (2) is changed."""

    def stage(call: Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        return (*tensors[:position], change(tensors[position]), *tensors[position + 1 :])

    return {"prepare": stage}
