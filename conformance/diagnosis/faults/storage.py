"""Tensors as they stand in their storage, for faults that ignore strides or offsets."""

from __future__ import annotations

import torch
from torch import Tensor


def elements_of(tensor: Tensor) -> Tensor:
    """Return the whole storage under a tensor as one row."""
    return torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage())


def read_as_dense(tensor: Tensor, *, offset: bool = True) -> Tensor:
    """Return the elements that follow one another in the storage, taken for the tensor; behind its end it starts anew."""
    flat = elements_of(tensor)
    start = tensor.storage_offset() if offset else 0
    return flat[(torch.arange(tensor.numel()) + start) % flat.numel()].reshape(tensor.shape)
