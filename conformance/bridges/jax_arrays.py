"""The bridge to JAX. Its arrays are copies; 64 bits are switched on around a call, never for the process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor

from .bridge import imported
from .differentiating import DifferentiatingBridge, OfArrays, Pull
from .numpy_arrays import NumpyBridge


class JaxBridge(DifferentiatingBridge):
    """Between torch and JAX, by way of numpy."""

    framework: ClassVar[str] = "jax"
    defaults: ClassVar[Mapping[str, Any]] = {"dtypes": ("fp64", "fp32", "bf16")}
    underflow: ClassVar[float] = 2.0**-106
    """XLA flushes below 2**-126, the smallest normal number of fp32, and in fp64 far below it; what is lost is then
    multiplied by inputs and summed."""

    def __init__(self) -> None:
        self._jax = imported("jax", "jax", "jax")
        self._numpy = imported("numpy", "jax", "numpy")
        self._by_numpy = NumpyBridge()

    def array(self, tensor: Tensor) -> Any:
        """Return a copy of a tensor on the device of JAX that is of the same kind."""
        own = self._numpy.array(self._by_numpy.array(tensor), order="C")
        return self._jax.device_put(own, self._device(tensor.device))

    def tensor(self, array: Any) -> Tensor:
        """Return a copy of an array, in main memory."""
        return self._by_numpy.tensor(self._numpy.array(array))

    def is_array(self, value: object) -> bool:
        """Say whether a value is an array of JAX, traced or not, or of numpy."""
        return isinstance(value, self._jax.Array) or self._by_numpy.is_array(value)

    def is_real(self, array: Any) -> bool:
        """Say whether an array holds real numbers."""
        return bool(self._jax.numpy.issubdtype(array.dtype, self._numpy.floating))

    def settings(self, tensors: Iterable[Tensor]) -> AbstractContextManager[object]:
        """Let JAX have 64 bits where a tensor has them."""
        return self._wide() if any(each.dtype is torch.float64 for each in tensors) else super().settings(tensors)

    def pulled(self, function: OfArrays, arrays: Sequence[Any]) -> tuple[list[Any], list[Any], Pull]:
        """Differentiate by jax.vjp."""
        real, pull, others = self._jax.vjp(function, *arrays, has_aux=True)
        return real, others, pull

    def handed_back(self, tensors: Sequence[Tensor], arrays: Sequence[Any]) -> None:
        """Fill a tensor with NaN whose array was donated: the caller cannot read it any more."""
        for tensor, array in zip(tensors, arrays, strict=True):
            if array.is_deleted() and tensor.is_floating_point() and 0 not in tensor.stride():
                tensor.detach().fill_(float("nan"))

    @contextmanager
    def _wide(self) -> Iterator[None]:
        # Releases before 0.8 keep the manager in jax.experimental.
        home = self._jax if hasattr(self._jax, "enable_x64") else imported("jax.experimental", "jax", "jax")
        with home.enable_x64(True):
            yield

    def _device(self, device: torch.device) -> Any:
        kind = {"cuda": "gpu"}.get(device.type, device.type)
        return self._jax.devices(kind)[device.index or 0]


BRIDGE = JaxBridge
