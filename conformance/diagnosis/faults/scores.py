"""Faults of the scores: their scale, bias and soft cap."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from ...oracle.expectations import scale_of
from ..stages import Call, Stages
from .fault import Fault, each, one, where


def _default(call: Call) -> float:
    """The scale without an option, whatever was passed."""
    if isinstance(call.setting.scale, str):
        width = call.case.width if call.setting.scale == "1/sqrt(D)" else call.case.width * call.case.heads
        return math.sqrt(1 / width)
    return call.setting.scale


def _scaled(number: Callable[[Call], float]) -> Stages:
    """The scale is replaced where none is passed."""
    return {"scale": lambda call: number(call) if call.case.scale is None else call.case.scale}


def _root(size: Callable[[Call], float]) -> Stages:
    return _scaled(lambda call: max(size(call), 1e-9) ** -0.5)


def _padded(step: int) -> Stages:
    return _root(lambda call: math.ceil(call.case.width / step) * step)


def _at_least(least: int) -> Stages:
    return _root(lambda call: max(call.case.width, least))


def _at_most(most: int) -> Stages:
    return _root(lambda call: min(call.case.width, most))


def _log_length(call: Call) -> Iterable[Stages]:
    for base in (8, 16, 32, 64, 128, 256, 512):
        if call.keys > base:
            yield {"scale": lambda c, base=base: _default(c) * math.log(c.keys) / math.log(base)}


SCALE = (
    Fault("scale_missing", "The scores are not scaled.", "Multiply them by 1/sqrt(D).", one(scale=lambda call: 1.0)),
    Fault(
        "scale_by_width_without_root", "The scale is applied twice, or the root is left out: 1/D.",
        "Scale once, by 1/sqrt(D).", lambda call: (_scaled(lambda c: 1 / c.case.width), _scaled(lambda c: _default(c) ** 2)),
    ),
    Fault(
        "scale_by_model_dim", "The scale is taken from the width of all heads together.",
        "Scale by 1/sqrt(D), D the width of one head.", lambda call: (_root(lambda c: c.case.heads * c.case.width),),
    ),
    Fault(
        "scale_by_head_dim", "The scale is taken from the width of one head.",
        "Scale by 1/sqrt(d_model), as this reference does.", lambda call: (_root(lambda c: c.case.width),),
    ),
    Fault(
        "scale_by_one_more_than_width", "The scale is 1/sqrt(D + 1).", "Scale by 1/sqrt(D).",
        lambda call: (_root(lambda c: c.case.width + 1), _root(lambda c: c.case.width - 1)),
    ),
    Fault(
        "scale_by_value_width", "The scale is taken from the width of the value.", "Scale by 1/sqrt(D), D the width of the key.",
        lambda call: (_root(lambda c: c.inputs.value.shape[-1]),),
    ),
    Fault(
        "scale_by_padded_dim", "The scale is taken from the width after padding.", "Scale by the width before padding.",
        lambda call: (
            *(_padded(step) for step in (2, 4, 8, 16, 32, 64, 128)),
            _root(lambda c: 2.0 ** math.ceil(math.log2(c.case.width))),
        ),
    ),
    Fault(
        "scale_by_width_of_at_least", "The scale is taken from a smallest width of the kernel.", "Scale by the true width.",
        each(_at_least, 8, 16, 32, 64),
    ),
    Fault(
        "scale_by_width_of_at_most", "The scale is taken from a largest width of the kernel.", "Scale by the true width.",
        each(_at_most, 32, 64, 128),
    ),
    Fault(
        "scale_by_whole_root", "The root of the width is cut to an integer.", "Keep the fraction of the root.",
        lambda call: (_scaled(lambda c: 1 / max(math.floor(c.case.width**0.5), 1)), _scaled(lambda c: 1 / round(c.case.width**0.5))),
    ),
    Fault(
        "scale_by_head_count", "The scale is taken from the number of heads.", "Scale by 1/sqrt(D).",
        lambda call: (_root(lambda c: c.case.heads), _scaled(lambda c: 1 / c.case.heads)),
    ),
    Fault(
        "scale_from_key_length", "The scale depends on the number of keys.", "Scale by 1/sqrt(D), whatever the length.",
        lambda call: (
            _root(lambda c: c.keys), _scaled(lambda c: 1 / max(c.keys, 1)), _scaled(lambda c: _default(c) * math.log(max(c.keys, 2))),
            *_log_length(call),
        ),
    ),
    Fault(
        "scale_from_query_length", "The scale depends on the number of queries.", "Scale by 1/sqrt(D), whatever the length.",
        lambda call: (_root(lambda c: c.queries), _scaled(lambda c: 1 / max(c.queries, 1))),
    ),
    Fault(
        "scale_inverted", "The scores are multiplied by sqrt(D).", "Divide by the root in place of multiplying.",
        one(scale=lambda call: 1 / (_default(call) if call.case.scale is None else call.case.scale or 1.0)),
    ),
    Fault(
        "scale_sign_flipped", "The scores have the wrong sign: the least similar key weighs most.", "Take the scale positive.",
        one(scale=lambda call: -scale_of(call.setting.scale, call.case)),
    ),
    Fault(
        "softmax_to_base_two", "Powers of two are taken and the factor log2(e) is forgotten, or applied the wrong way.",
        "Multiply the scores by log2(e) once before exp2.",
        each(lambda factor: {"scale": lambda call: scale_of(call.setting.scale, call.case) * factor},
             math.log(2), math.log2(math.e), math.log2(math.e) ** 2),
    ),
    Fault(
        "scale_of_half_or_double", "The scores are half or twice what they are to be.", "Apply the scale once, to the scores.",
        each(lambda factor: {"scale": lambda call: scale_of(call.setting.scale, call.case) * factor}, 0.5, 2.0),
    ),
    Fault(
        "score_of_first_components_only", "Some components of query and key do not count.", "Sum over all D components.",
        lambda call: (_components(slice(0, size)) for size in {call.case.width - 1, call.case.width // 2, call.case.width & ~1, call.case.width // 4 * 4, call.case.width // 8 * 8, call.case.width // 16 * 16, 8, 16, 32, 64} if 0 < size < call.case.width),
        lambda call: call.case.width > 1,
    ),
)  # fmt: skip


def _components(kept: slice) -> Stages:
    return {"product": lambda call, query, key: query[..., kept] @ key[..., kept].transpose(-2, -1)}


SCALE_PASSED = where(
    lambda call: call.case.scale is not None,
    Fault(
        "scale_argument_ignored", "A scale that is passed is ignored.", "Use it in place of the default.",
        one(scale=_default),
    ),
    Fault(
        "scale_argument_times_default", "A scale that is passed is multiplied by the default one.",
        "Use it in place of the default.", one(scale=lambda call: _default(call) * call.case.scale),
    ),
    Fault(
        "scale_argument_loses_its_sign", "The sign of a negative scale is lost.", "Multiply by the scale itself.",
        one(scale=lambda call: abs(call.case.scale)),
    ),
    Fault(
        "scale_argument_inverted", "The scores are divided by the scale that is passed.", "Multiply by it.",
        one(scale=lambda call: 1 / (call.case.scale or 1.0)),
    ),
)  # fmt: skip


def _first(axis: int) -> Stages:
    def stage(call: Call) -> Tensor | None:
        own = call.leaves.get("bias")
        return None if own is None else own.narrow(axis, 0, 1)

    return {"added": stage}


def _rolled(axis: int) -> Stages:
    def stage(call: Call) -> Tensor | None:
        own = call.leaves.get("bias")
        return None if own is None else own.roll(1, axis)

    return {"added": stage}


def _after_softmax(call: Call, weights: Tensor) -> Tensor:
    added = call("added")
    return weights if added is None else weights + added


def _bias_as_mask(keep: Callable[[Tensor], Tensor]) -> Stages:
    def hide(call: Call, scores: Tensor, allowed: Tensor | None) -> Tensor:
        added = call("added")
        kept = keep(added) if added is not None else None
        if kept is not None:
            allowed = kept if allowed is None else allowed & kept
        return scores if allowed is None else scores.masked_fill(~allowed, -math.inf)

    return {"bias": lambda call, scores: scores, "hide": hide}


ADDED = where(
    lambda call: call.inputs.bias is not None or call.inputs.finite is not None,
    Fault(
        "bias_ignored", "Finite additive values are ignored.", "Add them to the scaled scores.",
        one(bias=lambda call, scores: scores),
    ),
    Fault(
        "bias_dropped_if_mask_given", "The bias is dropped when a mask is given.", "Add it, then mask.",
        one(bias=lambda call, scores: scores), lambda call: call.inputs.bias is not None and call.inputs.allowed is not None,
    ),
    Fault(
        "mask_dropped_if_bias_given", "The mask is dropped when a bias is given.", "Add the bias, then mask.",
        one(mask=lambda call: None), lambda call: call.inputs.bias is not None and call.inputs.allowed is not None,
    ),
    Fault(
        "scale_also_on_bias", "The bias (or finite mask) is multiplied by the scale as well.",
        "Scale the products first, then add the bias.",
        one(bias=lambda call, scores: scores + call("added") * call("scale")),
    ),
    Fault(
        "bias_subtracted", "The bias is subtracted.", "Add it.", one(bias=lambda call, scores: scores - call("added")),
    ),
    Fault(
        "bias_added_twice", "The bias is added twice.", "Add it once.", one(bias=lambda call, scores: scores + 2 * call("added")),
    ),
    Fault(
        "bias_divided_by_scale", "The bias is divided by the scale: it is added before the division by sqrt(D).",
        "Add it after scaling.", one(bias=lambda call, scores: scores + call("added") / call("scale")),
    ),
    Fault(
        "bias_after_softmax", "The bias is added to the weights.", "Add it to the scores, before the softmax.",
        one(bias=lambda call, scores: scores, weigh=_after_softmax),
    ),
    Fault(
        "bias_multiplied", "The scores are multiplied by the bias.", "Add it.", one(bias=lambda call, scores: scores * call("added")),
    ),
    Fault(
        "float_bias_thresholded_to_bool", "A finite bias is read as a mask: only whether it is zero, or negative, counts.",
        "Add its values to the scores.",
        each(_bias_as_mask, lambda t: t == 0, lambda t: t != 0, lambda t: t > 0, lambda t: t >= 0, lambda t: t < 0, lambda t: t <= 0),
    ),
    Fault(
        "bias_of_first_head_for_all", "The bias of head 0 (or of batch element 0, or of query 0) serves all.",
        "Index the bias by batch element, head and query.", each(_first, -3, -4, -2),
    ),
    Fault(
        "bias_of_the_next_head", "The bias of another head, batch element or row is used.",
        "Index the bias by batch element, head and query.", each(_rolled, -3, -4, -2, -1),
    ),
    Fault(
        "bias_clamped", "The bias is clamped.", "Add it as it is; -inf hides.",
        each(lambda most: {"bias": lambda call, scores: scores + call("added").clamp(-most, most)}, 1.0, 0.5),
    ),
)  # fmt: skip


def _cap(bend: Callable[[Tensor, float], Tensor]) -> Stages:
    return {"cap": lambda call, scores: scores if call.case.softcap is None else bend(scores, call.case.softcap)}


def _cap_after_mask(call: Call, scores: Tensor, allowed: Tensor | None) -> Tensor:
    limit = call.case.softcap or 1.0
    masked = scores if allowed is None else scores.masked_fill(~allowed, -math.inf)
    return limit * torch.tanh(masked / limit)


def _same(call: Call, scores: Tensor) -> Tensor:
    return scores


CAPPED = where(
    lambda call: call.case.softcap is not None,
    Fault("softcap_ignored", "The soft cap is ignored.", "Turn each scaled score s into c tanh(s / c).", one(cap=_same)),
    Fault(
        "softcap_after_mask", "The soft cap is applied after the mask, so that a hidden key scores -c and is attended.",
        "Cap first, then mask.", one(cap=_same, hide=_cap_after_mask),
    ),
    Fault(
        "softcap_also_on_bias", "The bias is added before the soft cap.", "Cap first, then add the bias.",
        one(scores=lambda call, products: call("cap", call("bias", products * call("scale")))),
    ),
    Fault(
        "softcap_before_scale", "The products are capped before they are scaled.", "Scale first, then cap.",
        one(scores=lambda call, products: call("bias", call("cap", products) * call("scale"))),
    ),
    Fault(
        "softcap_clamps", "Scores are clamped at the cap.", "Use c tanh(s / c).", lambda call: (_cap(lambda s, c: s.clamp(-c, c)),),
    ),
    Fault(
        "softcap_without_factor", "A factor c of c tanh(s / c) is missing.", "Divide by c before and multiply by c after the tanh.",
        lambda call: (_cap(lambda s, c: torch.tanh(s / c)), _cap(lambda s, c: c * torch.tanh(s)), _cap(lambda s, c: torch.tanh(s))),
    ),
    Fault(
        "softcap_fixed", "The cap has a fixed size whatever is passed.", "Use the cap that is passed.",
        each(lambda fixed: _cap(lambda s, c: fixed * torch.tanh(s / fixed)), 50.0, 30.0, 20.0, 10.0, 5.0, 1.0),
    ),
    Fault(
        "softcap_applied_twice", "The soft cap is applied twice.", "Apply it once.",
        lambda call: (_cap(lambda s, c: c * torch.tanh(torch.tanh(s / c))),),
    ),
)  # fmt: skip

FAULTS = SCALE + SCALE_PASSED + ADDED + CAPPED
