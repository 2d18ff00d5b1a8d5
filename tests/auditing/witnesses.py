"""Implementations that harm nobody, under as many names as there are hostile ones to stand between.

`sound_N`, `scales_wrongly_N` and `is_coarse_N` are the same for every N.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attention_conformance.reference.attention import attention


def sound(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    return attention(query, key, value, mask)


def scales_wrongly(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    return attention(query * 2, key, value, mask)


def is_coarse(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    output, weights = attention(query.double(), key.double(), value.double(), mask)
    return output.to(torch.bfloat16).to(query.dtype), weights.to(query.dtype)


KINDS = (sound, scales_wrongly, is_coarse)


def __getattr__(name: str) -> Any:
    kind, _, number = name.rpartition("_")
    found = {each.__name__: each for each in KINDS}.get(kind)
    if found is None or not number.isdecimal():
        raise AttributeError(name)
    return found
