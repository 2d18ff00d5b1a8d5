"""The orders of axes in which tensors are delivered, and how they are turned back.

Canonical are (B, H, L, D) for kernels, or fewer or more leading axes with `...LD`, and (B, L, M) for modules.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

ORDERS: Mapping[str, tuple[int, ...]] = {
    "BLHD": (0, 2, 1, 3), "LBHD": (2, 0, 1, 3), "LBE": (1, 0, 2), "BL(HD)": (0, 2, 1, 3), "LB(HD)": (2, 0, 1, 3),
}  # fmt: skip
"""How the canonical axes are permuted for each layout that differs from them."""

MERGED: Mapping[str, int] = {"(BH)LD": 0, "BL(HD)": 2, "LB(HD)": 2}
"""The axis that is merged with the next one, after the axes are permuted."""

KERNEL_LAYOUTS = ("...LD", "BHLD", "BLHD", "LBHD", "(BH)LD", "BL(HD)", "LB(HD)")
MODULE_LAYOUTS = ("BLE", "LBE")


def hides_heads(layout: str) -> bool:
    """Say whether the number of heads cannot be read off a tensor, so that the call has to be told it."""
    return layout in ("BL(HD)", "LB(HD)")


def to_layout(tensor: Tensor, layout: str) -> Tensor:
    """Turn a canonical tensor into a layout; a view where nothing has to be merged."""
    order, merged = ORDERS.get(layout), MERGED.get(layout)
    tensor = tensor if order is None else tensor.permute(order)
    return tensor if merged is None else tensor.flatten(merged, merged + 1)


def from_layout(tensor: Tensor, layout: str, heads: int) -> Tensor:
    """Turn a tensor of a layout into canonical axes; one with another number of axes comes back as it is."""
    order, merged = ORDERS.get(layout), MERGED.get(layout)
    if merged is not None:
        if tensor.dim() != 3 or tensor.shape[merged] % heads:
            return tensor
        # Heads are the second of the two merged axes where these lead, and the first where they end a tensor.
        pair = (tensor.shape[0] // heads, heads) if merged == 0 else (heads, tensor.shape[merged] // heads)
        tensor = tensor.reshape(*tensor.shape[:merged], *pair, *tensor.shape[merged + 1 :])
    if order is None or tensor.dim() != len(order):
        return tensor
    return tensor.permute(inverse(order))


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the permutation that undoes `order`."""
    return tuple(order.index(axis) for axis in range(len(order)))


def lines_to(layout: str, name: str) -> str:
    """Return the expression that turns the canonical tensor `name` into a layout."""
    order, merged = ORDERS.get(layout), MERGED.get(layout)
    text = name if order is None else f"{name}.permute({order})"
    return text if merged is None else f"{text}.flatten({merged}, {merged + 1})"


def lines_from(layout: str, name: str, heads: int) -> str:
    """Return the expression that turns a result `name` in a layout into canonical axes."""
    order, merged = ORDERS.get(layout), MERGED.get(layout)
    if merged is not None:
        name = f"{name}.unflatten({merged}, {(-1, heads) if merged == 0 else (heads, -1)})"
    return name if order is None else f"{name}.permute({inverse(order)})"
