"""The bridge to numpy: arrays lie in the memory of the tensors, so that a kernel that writes into its inputs is seen."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from ..foreign.edge import WrongResult
from .bridge import Bridge, imported


class NumpyBridge(Bridge):
    """Between torch and numpy. bf16 is written with the dtype of the package ml_dtypes, which numpy itself lacks."""

    framework: ClassVar[str] = "numpy"
    defaults: ClassVar[Mapping[str, Any]] = {"dtypes": ("fp64", "fp32"), "gradient": "none"}

    def __init__(self) -> None:
        self._numpy = imported("numpy", "numpy", "numpy")

    def array(self, tensor: Tensor) -> Any:
        """Return an array in the memory of the tensor, with its strides; a copy of one that is not in main memory."""
        tensor = tensor.detach().cpu()
        if tensor.dtype is torch.bfloat16:
            half = imported("ml_dtypes", self.framework, "ml_dtypes")
            return tensor.view(torch.int16).numpy().view(half.bfloat16)
        return tensor.numpy()

    def tensor(self, array: Any) -> Tensor:
        """Return a tensor in the memory of the array. Raises WrongResult for a dtype that torch lacks."""
        array = self._numpy.asarray(array)
        if array.dtype.name == "bfloat16":
            return self._shared(array.view(self._numpy.int16)).view(torch.bfloat16)
        return self._shared(array)

    def is_array(self, value: object) -> bool:
        """Say whether a value is an array or a scalar of numpy."""
        return isinstance(value, (self._numpy.ndarray, self._numpy.generic))

    def _shared(self, array: Any) -> Tensor:
        if any(stride < 0 for stride in array.strides) or not array.dtype.isnative:
            array = array.astype(array.dtype.newbyteorder("="))
        try:
            with warnings.catch_warnings():
                # An array that numpy protects from writing, a broadcast one say, is still looked at where it lies.
                warnings.simplefilter("ignore")
                return torch.from_numpy(array)
        except TypeError as error:
            raise WrongResult(
                f"it returned an array of dtype {array.dtype}, which torch lacks; return a float"
            ) from error


BRIDGE = NumpyBridge
