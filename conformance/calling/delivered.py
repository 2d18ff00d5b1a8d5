"""What an implementation gets in one call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor


@dataclass(frozen=True)
class Delivered:
    """The tensors exactly as the implementation gets them, the number of heads of the query and of the key, and the
    pattern of the mask, None where it has any shape that broadcasts."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    options: Mapping[str, Any]
    heads: tuple[int, int]
    pattern: str | None = None

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor by name."""
        named = {"query": self.query, "key": self.key, "value": self.value, "mask": self.mask, **self.options}
        return {name: tensor for name, tensor in named.items() if isinstance(tensor, Tensor)}
