"""Faults of the backward pass. The result is right; only the gradients tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..stages import INFINITY, Call, Saved, Stages, hide, instead, normalise
from .causality import other_corner
from .fault import Fault, Variants, each, of, one, where
from .storage import read_as_dense

Change = Callable[[Call, Tensor], Tensor]


def _same(call: Call, tensor: Tensor) -> Tensor:
    return tensor


@dataclass(frozen=True)
class Derived:
    """The gradients of attention, written out; each part is what sound code computes unless it is replaced."""

    weights: Callable[[Call, Saved], Tensor] = lambda call, saved: saved.weights
    mean: Callable[[Saved, Tensor, Tensor], Tensor] = lambda saved, weights, slopes: (weights * slopes).sum(
        -1, keepdim=True
    )
    scores: Callable[[Call, Saved, Tensor, Tensor], Tensor] = lambda call, saved, weights, centred: weights * centred
    upstream: Change = _same
    query: Change = _same
    key: Change = _same
    value: Change = _same
    value_weights: Callable[[Call, Saved], Tensor] | None = None
    through_weights: bool = True
    forgotten: tuple[str, ...] = ()

    def __call__(self, call: Call, saved: Saved, upstream: Tensor, of_weights: Tensor | None) -> tuple[Tensor, ...]:
        g = self.upstream(call, upstream)
        weights = self.weights(call, saved)
        slopes = g @ saved.value.transpose(-2, -1)
        if of_weights is not None and self.through_weights:
            slopes = slopes + of_weights
        scores = self.scores(call, saved, weights, slopes - self.mean(saved, weights, slopes))
        visible = _visible(call, self.forgotten)
        inner = (scores if visible is None else scores.masked_fill(~visible, 0.0)) * call("scale")
        if call.case.softcap is not None:
            scaled = call("product", saved.query, saved.key) * call("scale")
            inner = inner * (1 - torch.tanh(scaled / call.case.softcap) ** 2)
        by_value = weights if self.value_weights is None else self.value_weights(call, saved)
        return (
            self.query(call, inner @ saved.key),
            self.key(call, inner.transpose(-2, -1) @ saved.query),
            self.value(call, by_value.transpose(-2, -1) @ g),
        )


def _derived(**parts: object) -> Stages:
    return {"backward": Derived(**parts)}  # type: ignore[arg-type]


def _visible(call: Call, forgotten: tuple[str, ...]) -> Tensor | None:
    """What mask, triangle and window allow, without those that are forgotten."""
    allowed: Tensor | None = None
    for part in (call(name) for name in ("mask", "causal", "window") if name not in forgotten):
        if part is not None:
            allowed = part if allowed is None else allowed & part
    return allowed


def _again(*dropped: str) -> Callable[[Call, Saved], Tensor]:
    """The weights, computed again without some of what hides keys, from the same logsumexp or from their own."""

    def weights(call: Call, saved: Saved) -> Tensor:
        scores = call("scores", call("product", saved.query, saved.key))
        return normalise(call, hide(call, scores, _visible(call, dropped)))

    return weights


def _again_shared_normaliser(*dropped: str) -> Callable[[Call, Saved], Tensor]:
    def weights(call: Call, saved: Saved) -> Tensor:
        scores = call("scores", call("product", saved.query, saved.key))
        total = torch.logsumexp(call.kept["masked"], -1, keepdim=True)
        hidden = hide(call, scores, _visible(call, dropped))
        return torch.exp(hidden - torch.where(torch.isfinite(total), total, INFINITY))

    return weights


def _forgetting(*dropped: str) -> Variants:
    """The weights of the backward pass, of the value's gradient, or of the others are computed again without some part."""
    own, shared = _again(*dropped), _again_shared_normaliser(*dropped)
    parts: tuple[dict[str, object], ...] = (
        {"weights": own, "forgotten": dropped}, {"weights": shared, "forgotten": dropped}, {"value_weights": own}, {"value_weights": shared},
        {"weights": own, "forgotten": dropped, "value_weights": lambda c, s: s.weights},
        {"weights": shared, "forgotten": dropped, "value_weights": lambda c, s: s.weights},
    )  # fmt: skip
    return lambda call: (_derived(**part) for part in parts)


def _hidden_zero(call: Call, saved: Saved) -> Tensor:
    scores, allowed = call("scores", call("product", saved.query, saved.key)), call("allowed")
    return torch.softmax(scores if allowed is None else scores.masked_fill(~allowed, 0.0), -1)


def _unnormalised(call: Call, saved: Saved) -> Tensor:
    masked = call.kept["masked"]
    return torch.exp(masked - masked.amax(-1, keepdim=True))


def _kept_rows(axis: int, keep: Callable[[Tensor, int], Tensor]) -> Change:
    def change(call: Call, tensor: Tensor) -> Tensor:
        place = torch.arange(tensor.shape[axis])
        shape = [1] * tensor.dim()
        shape[axis] = -1
        return torch.where(keep(place, tensor.shape[axis]).reshape(shape), tensor, 0.0)

    return change


def _last_lost(name: str | tuple[str, ...]) -> Stages:
    names = (name,) if isinstance(name, str) else name
    return _derived(**dict.fromkeys(names, _kept_rows(-2, lambda place, size: place < size - 1)))


def _scaled(names: tuple[str, ...], number: Callable[[Call], float]) -> Stages:
    return _derived(**dict.fromkeys(names, lambda call, tensor: tensor * number(call)))


_NAMES = (("query",), ("key",), ("value",), ("query", "key"), ("query", "key", "value"), ("key", "value"))


def _factors(number: Callable[[Call], float], names: tuple[tuple[str, ...], ...] = _NAMES) -> Variants:
    return lambda call: (_scaled(group, number) for group in names)


def _averaged(count: int) -> Variants:
    return _factors(lambda call: 1 / count)


def _miswritten(name: str) -> Stages:
    """The gradient stands in memory as the transposed heads of the input do."""
    return _derived(**{name: lambda call, gradient: gradient.transpose(-3, -2).reshape(gradient.shape)})


def _upstream(change: Change) -> Stages:
    return _derived(upstream=change)


def _leaking(step: int, factor: float) -> Stages:
    return _upstream(lambda call, g: g + factor * g.roll(step, -2))


def _misread(call: Call, tensor: Tensor) -> Tensor:
    return read_as_dense(call.inputs.upstream).double()


def _one_of_group(pick: str) -> Stages:
    """A shared head's gradient comes from one query head of its group, or is their mean."""

    def group(call: Call, role: str, tensor: Tensor) -> Tensor:
        kv, heads = call.case.kv_heads, call.case.heads
        if kv is None:
            return tensor
        full = tensor.repeat_interleave(heads // kv, -3)
        place = torch.arange(heads) % (heads // kv)
        chosen = {"first": place == 0, "last": place == heads // kv - 1}.get(pick)
        factor = (
            torch.full((heads, 1, 1), kv / heads, dtype=torch.float64)
            if chosen is None
            else chosen.double().reshape(-1, 1, 1)
        )
        return instead(full, full * factor)

    return {"group": group}


def _saturated(most: float, names: tuple[str, ...]) -> Stages:
    return _derived(**dict.fromkeys(names, lambda call, tensor: tensor.clamp(-most, most)))


def _both(call: Call, saved: Saved, upstream: Tensor, of_weights: Tensor | None) -> tuple[Tensor, ...]:
    query, key, value = Derived()(call, saved, upstream, of_weights)
    return key, query, value


def _detached_weights(call: Call, weights: Tensor) -> Tensor:
    return weights.detach()


FAULTS = (
    Fault(
        "gradient_without_row_sum", "The gradient of the softmax lacks its mean: dS = P * dP.", "dS = P * (dP - sum(P * dP)).",
        lambda call: (_derived(mean=lambda s, w, slopes: torch.zeros_like(slopes[..., :1])),),
    ),
    Fault(
        "gradient_with_wrong_row_sum", "The mean that is subtracted in the gradient of the softmax is wrong.", "Subtract sum(P * dP), which is sum(O * dO).",
        lambda call: (
            _derived(mean=lambda s, w, slopes: slopes.mean(-1, keepdim=True)), _derived(mean=lambda s, w, slopes: slopes.sum(-1, keepdim=True)),
            _derived(mean=lambda s, w, slopes: 2 * (w * slopes).sum(-1, keepdim=True)), _derived(mean=lambda s, w, slopes: -(w * slopes).sum(-1, keepdim=True)),
            _derived(mean=lambda s, w, slopes: (w * slopes).sum(-2, keepdim=True)), _derived(mean=lambda s, w, slopes: (s.output * s.output).sum(-1, keepdim=True)),
        ),
    ),
    Fault(
        "gradient_with_squared_weights", "The gradient of the scores is multiplied by the weights twice, or not at all.", "dS = P * (dP - sum(P * dP)).",
        lambda call: (_derived(scores=lambda c, s, w, centred: w * w * centred), _derived(scores=lambda c, s, w, centred: centred), _derived(scores=lambda c, s, w, centred: w * (1 - w) * centred)),
    ),
    Fault("backward_without_mask", "The backward pass is computed without the mask.", "Mask the scores again where they are recomputed.", _forgetting("mask"), lambda call: call.inputs.allowed is not None),
    Fault("backward_without_causal_mask", "The backward pass is computed without the causal triangle.", "Mask the scores again where they are recomputed.", _forgetting("causal"), lambda call: call("causal") is not None),
    Fault("backward_without_window", "The backward pass is computed without the window.", "Mask the scores again where they are recomputed.", _forgetting("window"), lambda call: call.case.window is not None),
    Fault(
        "backward_aligned_otherwise", "The backward pass aligns the causal triangle with the other corner.", "Align both passes alike.",
        lambda call: (_derived(weights=_other_corner, forgotten=("causal",)),), lambda call: call("causal") is not None and call.queries != call.keys,
    ),
    Fault("hidden_scores_zero_in_backward", "Hidden keys score zero in the backward pass.", "Fill them with -inf there as well.", lambda call: (_derived(weights=_hidden_zero), _derived(weights=_hidden_zero, forgotten=("mask", "causal", "window"))), lambda call: call("allowed") is not None),
    Fault("value_gradient_from_unnormalised_weights", "The gradient of the value takes exponentials for weights.", "Divide by the sum of the row.", lambda call: (_derived(value_weights=_unnormalised), _derived(weights=_unnormalised))),
    Fault("gradient_not_scaled", "The gradient of query or key lacks the scale.", "Multiply both by the scale.", _factors(lambda call: 1 / float(call("scale")), (("key",), ("query",), ("query", "key")))),
    Fault("gradient_scaled_twice", "The gradient of query or key is scaled twice.", "Multiply by the scale once.", _factors(lambda call: float(call("scale")), (("key",), ("query",), ("query", "key")))),
    Fault("gradient_scaled_by_one_more_than_width", "The gradient of query or key is scaled by 1/sqrt(D + 1).", "Scale by 1/sqrt(D).", _factors(lambda call: (call.case.width / (call.case.width + 1)) ** 0.5, (("query",), ("key",), ("query", "key")))),
    Fault("gradient_averaged_over_queries", "A gradient is averaged over the queries (or keys, or the batch).", "Sum it.", lambda call: (s for n in (call.queries, call.keys, call.case.batch, call.case.heads) if n > 1 for s in _averaged(n)(call))),
    Fault("gradient_halved_or_doubled", "A gradient is half or twice what it is to be.", "Add every contribution once.", lambda call: (*_factors(lambda c: 0.5)(call), *_factors(lambda c: 2.0)(call))),
    Fault("gradient_sign_flipped", "A gradient has the wrong sign.", "Keep the sign.", _factors(lambda call: -1.0)),
    Fault("gradient_zero", "A gradient is zero.", "Compute it.", _factors(lambda call: 0.0)),
    Fault("query_and_key_gradients_exchanged", "The gradients of query and key are exchanged.", "Return them in the order of the inputs.", one(backward=_both)),
    Fault("only_value_learns", "The weights carry no gradient: query and key get none from the output.", "Keep the weights in the graph.", lambda call: ({"weigh": _detached_weights},)),
    Fault("weights_gradient_ignored", "The gradient that comes in through the weights is ignored.", "Add it to dP.", lambda call: (_derived(through_weights=False),)),
    Fault("last_key_gets_no_gradient", "The last key (or value, or query) gets no gradient.", "Write every row.", each(_last_lost, ("key", "value"), "key", "value", "query"), lambda call: call.keys > 1),
    Fault(
        "gradient_of_tail_missing", "Rows after the last whole block get no gradient or give none.", "Handle the tail in the backward pass.",
        lambda call: (s for n in (2, 4, 8, 16, 32, 64, 128) for s in _tails(n)),
    ),
    Fault(
        "gradient_beyond_some_length_missing", "Queries or keys beyond a fixed length give or get no gradient.", "Loop over every block.",
        lambda call: (s for n in (2, 4, 8, 16, 32, 64, 128) for s in _beyond(n)),
    ),
    Fault(
        "later_heads_get_no_gradient", "Some heads or batch elements get no gradient.", "Write every head.",
        lambda call: (_derived(**dict.fromkeys(names, _kept_rows(axis, lambda place, size: place < 1))) for axis in (-3, 0) for names in _NAMES), lambda call: call.case.leading not in ("", "B"),
    ),
    Fault("upstream_gradient_read_as_contiguous", "The strides of the upstream gradient are ignored.", "Use its strides, or call contiguous().", lambda call: (_upstream(_misread),), lambda call: not call.inputs.upstream.is_contiguous()),
    Fault("gradient_written_as_contiguous", "The gradient of an input that is a view is written as if the view were contiguous.", "Write it by the strides of the input.", each(_miswritten, "query", "key", "value"), lambda call: call.case.memory != "contiguous"),
    Fault("future_rows_leak_into_gradient", "The upstream gradient of a row enters a neighbouring row.", "Keep rows apart.", of(*(_leaking(step, factor) for step in (1, -1) for factor in (1e-3, 1e-2, 0.1, 0.5, 1.0)))),
    Fault("gradient_clipped", "A gradient is clipped.", "Return it as it is.", lambda call: (_saturated(n, names) for n in (0.1, 0.5, 1.0, 10.0) for names in _NAMES)),
    *where(
        lambda call: call.case.kv_heads is not None,
        Fault("gqa_kv_gradient_not_summed", "The gradient of a shared head comes from one query head of its group.", "Sum over the group.", each(_one_of_group, "first", "last")),
        Fault("gqa_kv_gradient_averaged", "The gradient of a shared head is the mean over its group.", "Sum over the group.", each(_one_of_group, "mean")),
    ),
    Fault(
        "softcap_gradient_straight_through", "The derivative of the tanh is left out of the gradient.", "Multiply by 1 - tanh(s / c)^2.",
        one(cap=lambda call, scores: instead(call.case.softcap * torch.tanh(scores / call.case.softcap), scores)), lambda call: call.case.softcap is not None,
    ),
    Fault(
        "bias_gradient_from_one_sample", "The gradient of a shared bias comes from one batch element (or head, or row) in place of the sum.", "Sum over the axes along which it was broadcast.",
        lambda call: (_bias_from(axis, mean) for axis in (-4, -3, -2) for mean in (False, True)), lambda call: call.inputs.bias is not None,
    ),
)  # fmt: skip


def _other_corner(call: Call, saved: Saved) -> Tensor:
    scores = call("scores", call("product", saved.query, saved.key))
    return normalise(call, hide(call, scores, other_corner(call)))


def _tails(size: int) -> tuple[Stages, ...]:
    whole = _kept_rows(-2, lambda place, n: place < n // size * size)
    return (
        _upstream(whole),
        _derived(key=whole, value=whole),
        _derived(value=whole),
        _derived(key=whole),
        _derived(query=whole),
    )


def _beyond(size: int) -> tuple[Stages, ...]:
    first = _kept_rows(-2, lambda place, n: place < size)
    return (
        _upstream(first),
        _derived(key=first, value=first),
        _derived(value=first),
        _derived(key=first),
        _derived(query=first),
    )


def _bias_from(axis: int, mean: bool) -> Stages:
    """Along one axis of the scores the bias gets the gradient of the first index, or the mean over all."""

    def bias(call: Call, scores: Tensor) -> Tensor:
        own = call("added")
        size = scores.shape[axis]
        place = torch.arange(size).reshape(-1, *[1] * (-axis - 1))
        factor = torch.full(place.shape, 1 / size, dtype=torch.float64) if mean else (place == 0).double()
        full = own.expand(scores.shape)
        return scores + instead(full, full * factor)

    return {"bias": bias}
