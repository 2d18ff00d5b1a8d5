"""Faults of the softmax and of the sum over values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ..stages import Call, Stages, normalise
from .fault import Fault, each, one

LOW = -1e30
"""A score that no sound one is near, in place of minus infinity where an axis without any score would give NaN."""


def _over(axes: int | tuple[int, ...]) -> Stages:
    def stage(call: Call, masked: Tensor) -> Tensor:
        wanted = (axes,) if isinstance(axes, int) else axes
        top = masked.clamp(min=LOW).amax(wanted, keepdim=True)
        exponentials = torch.exp(masked.clamp(min=LOW) - top)
        return exponentials / exponentials.sum(wanted, keepdim=True)

    return {"normalise": stage}


def _denominator(change: Callable[[Tensor, Tensor], Tensor], *, shifted: bool = True) -> Stages:
    """The denominator is `change` of the sum of exponentials and the row maximum."""

    def stage(call: Call, masked: Tensor) -> Tensor:
        top = masked.amax(-1, keepdim=True)
        top = torch.where(torch.isfinite(top) & torch.tensor(shifted), top, 0.0)
        exponentials = torch.exp(masked - top)
        return exponentials / change(exponentials.sum(-1, keepdim=True), top)

    return {"normalise": stage}


def _epsilon(size: float) -> Stages:
    return _denominator(lambda total, top: total + size)


def _epsilon_unshifted(size: float) -> Stages:
    return _denominator(lambda total, top: total + size * torch.exp(-top))


def _epsilon_below_zero(size: float) -> Stages:
    """Only a positive maximum is subtracted."""

    def stage(call: Call, masked: Tensor) -> Tensor:
        exponentials = torch.exp(masked - masked.amax(-1, keepdim=True).clamp(min=0.0))
        return exponentials / (exponentials.sum(-1, keepdim=True) + size)

    return {"normalise": stage}


def _without_max(call: Call, masked: Tensor) -> Tensor:
    """The exponential of the score itself, in the precision of the working dtype, 32 bits at least."""
    narrow = torch.float64 if call.inputs.dtype == "fp64" else torch.float32
    exponentials = torch.exp(masked.detach().to(narrow))
    found: Tensor = (exponentials / exponentials.sum(-1, keepdim=True)).double()
    return found + (masked - masked.detach()).nan_to_num(0.0, 0.0, 0.0) * 0


def _low_product(call: Call, query: Tensor, key: Tensor) -> Tensor:
    """Products that pass 65504 in fp16."""
    products = query @ key.transpose(-2, -1)
    return torch.where(products.abs() > 65519.0, products.sign() * math.inf, products)


def _clamped(most: float) -> Stages:
    def stage(call: Call, masked: Tensor) -> Tensor:
        bent = torch.where(masked == -math.inf, masked, masked.clamp(-most, most))
        return normalise(call, bent)

    return {"normalise": stage}


def _blocks(size: int, keys: int) -> list[slice]:
    return [slice(start, min(start + size, keys)) for start in range(0, keys, size)]


def _not_rescaled(size: int, *, output_only: bool) -> Stages:
    """An online softmax over blocks that forgets to rescale when the maximum grows."""

    def stage(call: Call, masked: Tensor) -> Tensor:
        top = torch.full_like(masked[..., :1], -math.inf)
        pieces, total = [], torch.zeros_like(masked[..., :1])
        final = masked.amax(-1, keepdim=True)
        for block in _blocks(size, masked.shape[-1]):
            top = torch.maximum(top, masked[..., block].amax(-1, keepdim=True))
            exponentials = torch.exp(masked[..., block] - top)
            total = total + exponentials.sum(-1, keepdim=True)
            pieces.append(torch.exp(masked[..., block] - final) if output_only else exponentials)
        return torch.cat(pieces, -1) / total

    return {"normalise": stage}


def _averaged(parts: int) -> Stages:
    def stage(call: Call, masked: Tensor) -> Tensor:
        pieces = masked.chunk(parts, -1)
        return torch.cat([torch.softmax(piece, -1) / len(pieces) for piece in pieces], -1)

    return {"normalise": stage}


def _block_sizes(make: Callable[[int], Stages]) -> Callable[[Call], Iterable[Stages]]:
    return lambda call: (make(size) for size in (2, 4, 8, 16, 32, 64, 128, 256) if size < call.keys)


def _all(call: Call, masked: Tensor) -> Tensor:
    return torch.where(masked == -math.inf, 0.0, torch.ones_like(masked))


def _dropped_small(least: float) -> Stages:
    return {"weigh": lambda call, weights: torch.where(weights < least, 0.0, weights)}


def _narrow(kind: torch.dtype) -> Stages:
    return {"weigh": lambda call, weights: weights.to(kind).double()}


def _steps(count: int) -> Stages:
    return {"weigh": lambda call, weights: torch.round(weights * count) / count}


def _top(call: Call) -> Iterable[Stages]:
    for kept in (1, 2, 4, 8, 16, 32, 64):
        if kept < call.keys:
            yield {"normalise": lambda c, masked, kept=kept: normalise(c, torch.where(masked >= masked.topk(kept, -1).values[..., -1:], masked, -math.inf))}  # fmt: skip


def _positions(call: Call) -> Iterable[Stages]:
    place = torch.arange(call.keys, dtype=torch.float64)
    for step in (0.01, -0.01, 0.1, -0.1, 1.0, -1.0):
        yield {"bias": lambda c, scores, step=step: scores + step * place}


FAULTS = (
    Fault(
        "softmax_over_queries", "The softmax runs over the queries.", "Normalise over the keys, the last axis of the scores.",
        lambda call: (_over(-2),),
    ),
    Fault(
        "softmax_over_heads", "The softmax runs over the heads.", "Normalise over the keys, the last axis of the scores.",
        lambda call: (_over(-3),),
    ),
    Fault(
        "softmax_over_batch", "The softmax runs over the batch.", "Normalise over the keys, the last axis of the scores.",
        lambda call: (_over(0),),
    ),
    Fault(
        "softmax_over_queries_and_keys", "The softmax runs over queries and keys together.", "Normalise each row on its own.",
        lambda call: (_over((-2, -1)), _over((-3, -2, -1)), _over((-4, -3, -2, -1))),
    ),
    Fault(
        "softmax_missing", "The scores or ones are the weights: there is no softmax over the keys.", "Normalise over the keys.",
        lambda call: (
            {"normalise": lambda c, masked: torch.where(masked == -math.inf, 0.0, masked)}, {"normalise": _all},
            {"normalise": lambda c, masked: _all(c, masked) / max(c.keys, 1)},
        ),
    ),
    Fault(
        "normalisation_missing", "The exponentials are not divided by their sum.", "Divide by the sum over the keys.",
        lambda call: (
            _denominator(lambda total, top: torch.ones_like(total)),
            _denominator(lambda total, top: torch.ones_like(total), shifted=False),
            _denominator(lambda total, top: torch.full_like(total, call.keys)),
        ),
    ),
    Fault(
        "sigmoid_for_softmax", "Each key is weighed by a sigmoid of its score.", "Use a softmax over the keys.",
        lambda call: (
            {"normalise": lambda c, masked: torch.sigmoid(masked)},
            {"normalise": lambda c, masked: torch.sigmoid(masked) / torch.sigmoid(masked).sum(-1, keepdim=True)},
        ),
    ),
    Fault(
        "softmax_applied_twice", "The softmax is applied twice.", "Apply it once.",
        one(normalise=lambda call, masked: torch.softmax(torch.softmax(masked, -1), -1)),
    ),
    Fault(
        "softmax_of_absolute_scores", "The sign of the scores is lost.", "Take the exponential of the score itself.",
        lambda call: (
            {"normalise": lambda c, masked: normalise(c, torch.where(masked == -math.inf, masked, masked.abs()))},
            {"normalise": lambda c, masked: normalise(c, torch.where(masked == -math.inf, masked, masked.clamp(min=0.0)))},
        ),
    ),
    Fault(
        "softmax_with_a_sink", "The denominator has an extra one, as if every row held a key of score 0 and value 0.",
        "Divide by the sum over the keys alone.",
        lambda call: (_denominator(lambda total, top: total + torch.exp(-top)), _denominator(lambda total, top: total + 1)),
    ),
    Fault(
        "epsilon_in_denominator", "A small number is added to the denominator.",
        "Divide by the sum alone: it is at least 1 once the maximum is subtracted.",
        lambda call: (
            make(size)
            for size in (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10, 1e-12)
            for make in (_epsilon, _epsilon_unshifted, _epsilon_below_zero)
        ),
    ),
    Fault(
        "softmax_without_max", "The row maximum is not subtracted, so that exp overflows, or underflows to 0/0.",
        "Subtract the largest score of the row before the exponential.", one(normalise=_without_max),
    ),
    Fault(
        "qk_overflow_before_scale_fp16", "The products overflow in fp16 before they are scaled.",
        "Scale the query first, or form the products in fp32.", one(product=_low_product), lambda call: True,
    ),
    Fault(
        "scores_clamped", "The scores are clamped.", "Subtract the row maximum in place of clamping.",
        each(_clamped, 1.0, 5.0, 10.0, 20.0, 30.0, 50.0, 64.0, 80.0, 88.0, 100.0),
    ),
    Fault(
        "earlier_blocks_not_rescaled", "An online softmax does not rescale earlier blocks when the maximum grows.",
        "Multiply output and sum so far by exp(old maximum - new maximum).",
        lambda call: (
            *_block_sizes(lambda size: _not_rescaled(size, output_only=False))(call),
            *_block_sizes(lambda size: _not_rescaled(size, output_only=True))(call),
        ),
    ),
    Fault(
        "split_keys_averaged", "Parts of the keys are normalised on their own and averaged.",
        "Merge the parts by their logsumexps.", lambda call: (_averaged(parts) for parts in (2, 3, 4, 8) if parts <= call.keys),
    ),
    Fault(
        "small_weights_dropped", "Small weights are set to zero.", "Keep every weight.", each(_dropped_small, 0.1, 0.05, 0.01, 1e-3, 1e-4),
    ),
    Fault(
        "weights_rounded_to_8_bits",
        "The weights pass through 8 bits.",
        "Keep the precision of the working dtype.",
        each(_narrow, torch.float8_e4m3fn, torch.float8_e5m2),
    ),
    Fault(
        "weights_quantised",
        "The weights are rounded to a grid.",
        "Keep the precision of the working dtype.",
        each(_steps, 16, 127, 128, 255, 256, 1000, 1024, 10000),
    ),
    Fault("only_top_keys_kept", "Only the best keys of a row are attended.", "Attend every allowed key.", _top),
    Fault(
        "position_changes_the_score", "The score of a key depends on its position.", "Add nothing that was not passed.", _positions,
    ),
)  # fmt: skip
