"""The same values in other places of memory: views that a kernel has to read by their strides."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor


def _contiguous(tensor: Tensor) -> Tensor:
    return tensor.contiguous().clone()


def _transposed(tensor: Tensor) -> Tensor:
    """The last two axes are swapped in memory."""
    if tensor.dim() < 2:
        return tensor.clone()
    return tensor.transpose(-2, -1).clone(memory_format=torch.contiguous_format).transpose(-2, -1)


def _heads_swapped(tensor: Tensor) -> Tensor:
    """The axes before the last are stored in reverse, as after splitting heads."""
    if tensor.dim() < 3:
        return _transposed(tensor)
    return tensor.transpose(-3, -2).clone(memory_format=torch.contiguous_format).transpose(-3, -2)


def _sliced(tensor: Tensor) -> Tensor:
    """Every second element of a buffer whose gaps hold other finite numbers."""
    buffer = torch.full((*tensor.shape, 2), 7, dtype=tensor.dtype)
    buffer[..., 0] = tensor
    return buffer[..., 0]


def _offset(tensor: Tensor) -> Tensor:
    """Contiguous, but three elements into its storage."""
    buffer = torch.full((tensor.numel() + 3,), 5, dtype=tensor.dtype)
    buffer[3:] = tensor.reshape(-1)
    return buffer[3:].view(tensor.shape)


def _rows_apart(tensor: Tensor) -> Tensor:
    """Rows are cut out of wider ones, as from a packed projection."""
    if tensor.dim() < 1:
        return tensor.clone()
    buffer = torch.full((*tensor.shape[:-1], tensor.shape[-1] + 5), 3, dtype=tensor.dtype)
    buffer[..., 2 : 2 + tensor.shape[-1]] = tensor
    return buffer[..., 2 : 2 + tensor.shape[-1]]


def _expanded(tensor: Tensor) -> Tensor:
    """The first axis has stride 0; all its elements are the first one."""
    return tensor[:1].clone().expand(tensor.shape) if tensor.dim() else tensor.clone()


MEMORY: Mapping[str, Callable[[Tensor], Tensor]] = {
    "contiguous": _contiguous,
    "transposed": _transposed,
    "heads swapped": _heads_swapped,
    "sliced": _sliced,
    "offset": _offset,
    "rows apart": _rows_apart,
    "expanded": _expanded,
}


def place(tensor: Tensor, how: str) -> Tensor:
    """Return a copy of `tensor` that lies in memory as `how` says; only `expanded` changes values."""
    return MEMORY[how](tensor)
