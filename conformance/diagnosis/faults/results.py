"""Faults of the second result, beside an output that is right."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from ..stages import Call, Stages, normalise
from .fault import Fault, where

WEIGHTS = ("weights", "optional weights")


def _second(make: Callable[[Call, Tensor], Tensor]) -> Stages:
    """The second result is made of the call and its weights."""
    return {"second": lambda call: make(call, call.kept["weights"])}


def _unnormalised(call: Call, weights: Tensor) -> Tensor:
    return weights / weights.amax(-1, keepdim=True)


def _cleared(least: float) -> Stages:
    return _second(lambda call, weights: torch.where(weights < least, 0.0, weights))


def _digits(count: int) -> Stages:
    return _second(lambda call, weights: torch.floor(weights * 10**count) / 10**count)


def _rounded_digits(count: int) -> Stages:
    return _second(lambda call, weights: torch.round(weights, decimals=count))


def _top(call: Call) -> Tensor:
    top = call.kept["masked"].amax(-1)
    return torch.where(torch.isfinite(top), top, 0.0)


def _lse(make: Callable[[Call, Tensor], Tensor]) -> Stages:
    return {"second": lambda call: make(call, torch.logsumexp(call.kept["masked"], -1))}


FAULTS = (
    *where(
        lambda call: call.second in WEIGHTS,
        Fault("weights_averaged_over_heads", "The returned weights are the mean over the heads.", "Return them per head (or declare second='averaged weights').", lambda call: (_second(lambda c, w: w.mean(-3)), _second(lambda c, w: w.mean(-3, keepdim=True).expand(w.shape)), _second(lambda c, w: w.mean(-3, keepdim=True)))),
        Fault("weights_summed_over_heads", "The returned weights are the sum over the heads.", "Return them per head.", lambda call: (_second(lambda c, w: w.sum(-3)), _second(lambda c, w: w.sum(-3, keepdim=True).expand(w.shape)))),
        Fault("weights_of_first_head", "The weights of one head are returned for all.", "Return them per head.", lambda call: (_second(lambda c, w: w[..., :1, :, :].expand(w.shape)), _second(lambda c, w: w[..., 0, :, :]), _second(lambda c, w: w[..., -1:, :, :].expand(w.shape)))),
        Fault("weights_per_key_head", "The weights of one query head of each group are returned.", "Return them per query head.", lambda call: (_second(lambda c, w: w[..., :: c.case.heads // (c.case.kv_heads or c.case.heads), :, :]),), lambda call: call.case.kv_heads is not None),
        Fault("weights_before_softmax", "The scores are returned in place of the weights.", "Return what the softmax gives.", lambda call: (_second(lambda c, w: c.kept["masked"]), _second(lambda c, w: c.kept["scores"]), _second(lambda c, w: c.kept["scores"] / c("scale")), _second(lambda c, w: c.kept["masked"].clamp(min=-1e9)))),
        Fault("weights_in_logarithms", "The logarithms of the weights are returned.", "Return the weights.", lambda call: (_second(lambda c, w: w.log()),)),
        Fault("weights_not_normalised", "The returned weights are relative to the largest of their row, or not normalised.", "Divide by the sum of the row.", lambda call: (_second(_unnormalised), _second(lambda c, w: c.kept["masked"].exp()))),
        Fault("weights_transposed", "The returned weights are transposed.", "Return (..., L, S).", lambda call: (_second(lambda c, w: w.transpose(-2, -1)), _second(lambda c, w: w.transpose(-2, -3)))),
        Fault("weights_returned_unmasked", "The returned weights were computed without the mask.", "Return the weights that met the value.", lambda call: (_second(lambda c, w: torch.softmax(c.kept["scores"], -1)),)),
        Fault("weights_returned_unscaled", "The returned weights are those of unscaled scores.", "Return the weights that met the value.", lambda call: (_second(lambda c, w: normalise(c, c.kept["masked"] / c("scale"))),)),
        Fault("weights_rounded_for_the_eye", "Small returned weights are cleared, or their digits are cut.", "Return the weights that met the value.", lambda call: (*(_cleared(n) for n in (0.1, 0.05, 0.01, 1e-3, 1e-4)), *(f(n) for f in (_digits, _rounded_digits) for n in (2, 3, 4, 5, 6)))),
        Fault("weights_of_another_sample", "The returned weights belong to another batch element or head.", "Return each its own.", lambda call: (_second(lambda c, w: w.roll(1, 0)), _second(lambda c, w: w.flip(0)), _second(lambda c, w: w.flip(-3)), _second(lambda c, w: w.roll(1, -3)), _second(lambda c, w: w[:1].expand(w.shape)))),
        Fault("weights_come_first", "The weights are returned first and the output second.", "Return (output, weights).", lambda call: (_second(lambda c, w: c.kept["output"]),)),
    ),
    *where(
        lambda call: call.second == "averaged weights",
        Fault("averaged_weights_summed", "The weights are summed over the heads, or are those of one head.", "Average over the heads.", lambda call: (_second(lambda c, w: w.sum(-3)), _second(lambda c, w: w[..., 0, :, :]), _second(lambda c, w: w.amax(-3)))),
    ),
    *where(
        lambda call: call.second in ("lse", "lse2"),
        Fault("lse_in_another_base", "The logsumexp is in another base than declared.", "Multiply by log(2), or declare second='lse2'.", lambda call: (_lse(lambda c, t: t * math.log2(math.e)), _lse(lambda c, t: t), _lse(lambda c, t: t / math.log(10)))),
        Fault("lse_without_row_maximum", "The logsumexp lacks the row maximum.", "Add the maximum to the logarithm of the sum.", lambda call: (_lse(lambda c, t: t - _top(c)), _lse(lambda c, t: _top(c)))),
        Fault("lse_of_hidden_keys_too", "Hidden keys count in the logsumexp.", "Take it over the allowed keys.", lambda call: (_lse(lambda c, t: torch.logsumexp(c.kept["scores"], -1)),)),
        Fault("lse_unscaled", "The logsumexp is of unscaled scores.", "Take it of the scaled ones.", lambda call: (_lse(lambda c, t: torch.logsumexp(c.kept["masked"] / c("scale"), -1)),)),
        Fault("lse_is_the_sum", "The sum of exponentials is returned, or the sign is wrong.", "Return its logarithm.", lambda call: (_lse(lambda c, t: t.exp()), _lse(lambda c, t: -t), _lse(lambda c, t: (t - _top(c)).exp()))),
    ),
)  # fmt: skip
