"""Faults of causal triangle and window."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ...oracle.expectations import is_causal, triangle
from ..stages import Call, Stages
from .fault import Fault, each, one, where
from .masking import has_mask, nothing


def may_be_causal(call: Call) -> bool:
    return is_causal(call.case, call.setting.causal)


def _triangle(change: Callable[[Call], Tensor | None]) -> Stages:
    return {"causal": change}


def _offset(call: Call, *, other_corner: bool = False) -> int:
    """How far right of the first key the triangle's diagonal starts, as declared or with the other corner."""
    bottom = (call.setting.causal or "").endswith("bottom-right") != other_corner
    return call.keys - call.queries if bottom else 0


def _moved(step: int) -> Stages:
    """The diagonal lies `step` keys further right."""

    def stage(call: Call) -> Tensor:
        return torch.ones(call.queries, call.keys, dtype=torch.bool).tril(_offset(call) + step)

    return _triangle(stage)


def other_corner(call: Call) -> Tensor:
    return torch.ones(call.queries, call.keys, dtype=torch.bool).tril(_offset(call, other_corner=True))


def _reversed(call: Call) -> Tensor:
    return torch.ones(call.queries, call.keys, dtype=torch.bool).triu(_offset(call))


def _by_blocks(size: int) -> Stages:
    def stage(call: Call) -> Tensor:
        rows = torch.arange(call.queries)[:, None] + _offset(call)
        return torch.arange(call.keys) // size <= rows.div(size, rounding_mode="floor")

    return _triangle(stage)


def _offset_not_negative(call: Call) -> Tensor:
    return torch.ones(call.queries, call.keys, dtype=torch.bool).tril(max(call.keys - call.queries, 0))


def _or(call: Call) -> Tensor | None:
    parts: list[Tensor] = [part for part in (call("mask"), call("causal")) if part is not None]
    return parts[0] | parts[-1] if parts else None


CAUSAL = (
    *where(
        may_be_causal,
        Fault("causal_ignored", "The causal option is ignored.", "Hide later keys.", one(causal=nothing)),
        Fault("causal_sees_next_token", "The causal diagonal is one key too far: the next token is seen.", "Attend keys j <= i.", lambda call: (_moved(1),)),
        Fault("causal_hides_own_token", "The causal diagonal hides the query's own position.", "Attend keys j <= i, i included.", lambda call: (_moved(-1),)),
        Fault(
            "causal_aligned_otherwise", "The causal triangle is aligned with the other corner than declared where L differs from S.",
            "Align it as declared, or declare causal='top-left' or 'bottom-right' as it is.", one(causal=other_corner),
        ),
        Fault(
            "causal_offset_not_negative", "With more queries than keys the triangle is aligned top-left.",
            "Let the offset S - L be negative.", one(causal=_offset_not_negative),
        ),
        Fault("causal_reversed", "The future is seen and the past hidden.", "Attend keys j <= i.", one(causal=_reversed)),
        Fault("causal_by_blocks", "Causality holds between blocks and not inside the block on the diagonal.", "Mask inside that block.", each(_by_blocks, 2, 4, 8, 16, 32, 64)),
        Fault("causal_dropped_if_mask_given", "Causality is dropped when a mask is given.", "Let both hold.", one(causal=nothing), has_mask),
        Fault("mask_dropped_if_causal", "The mask is dropped when causal is set.", "Let both hold.", one(mask=nothing), has_mask),
        Fault("causal_or_mask", "A key is attended if mask or causality allows it.", "Let both hold.", one(allowed=_or)),
    ),
    Fault(
        "causal_unasked", "Later keys are hidden although nobody asked for causality.", "Hide nothing without the option.",
        lambda call: ({"causal": lambda c: triangle(c.queries, c.keys, "top-left")}, {"causal": lambda c: triangle(c.queries, c.keys, "bottom-right")}),
        lambda call: not may_be_causal(call),
    ),
)  # fmt: skip


def _window(keep: Callable[[Tensor, int], Tensor], *, other_corner: bool = False) -> Stages:
    """The window keeps keys by their distance i - j."""

    def stage(call: Call) -> Tensor | None:
        width = call.case.window
        if width is None:
            return None
        offset = _offset(call, other_corner=other_corner)
        return keep(torch.arange(call.queries)[:, None] + offset - torch.arange(call.keys), width)

    return {"window": stage}


WINDOW = where(
    lambda call: call.case.window is not None,
    Fault("window_ignored", "The window is ignored.", "Hide keys that lie w or more away.", one(window=nothing)),
    Fault(
        "window_off_by_one", "The window keeps one key too many.", "Keep distances less than w (a kernel that counts inclusively gets w - 1 in call=).",
        each(_window, lambda d, w: d.abs() <= w, lambda d, w: (d <= w) & (d > -w), lambda d, w: (d < w) & (d >= -w)),
    ),
    Fault(
        "window_one_too_narrow", "The window keeps one key too few.", "Keep distances less than w.",
        each(_window, lambda d, w: d.abs() < w - 1, lambda d, w: d.abs() < max(w - 1, 1), lambda d, w: (d < w - 1) & (d > -w), lambda d, w: (d < w) & (d > -w + 1)),
    ),
    Fault(
        "window_on_one_side_only", "The window bounds one side of the query only.", "Bound both sides.",
        each(_window, lambda d, w: d < w, lambda d, w: d > -w, lambda d, w: (d < w) & (d >= 0), lambda d, w: (d > -w) & (d <= 0)),
    ),
    Fault(
        "window_halved", "The window is split over both sides.", "Keep distances less than w on each side.",
        each(_window, lambda d, w: d.abs() <= w // 2, lambda d, w: d.abs() < max(w // 2, 1), lambda d, w: (d <= w // 2) & (d > -w), lambda d, w: (d < w) & (d >= -(w // 2)),),
    ),
    Fault(
        "window_aligned_otherwise", "The window is aligned with another corner than the triangle.", "Align both alike.",
        lambda call: (_window(lambda d, w: d.abs() < w, other_corner=True),),
    ),
    Fault("window_drops_causality", "Causality is dropped when a window is given.", "Let both hold.", one(causal=nothing)),
    Fault("mask_ignored_with_window", "The mask is dropped when a window is given.", "Let both hold.", one(mask=nothing)),
)  # fmt: skip

FAULTS: tuple[Fault, ...] = (*CAUSAL, *WINDOW)
