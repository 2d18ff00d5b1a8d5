"""Attention in named stages, differentiable and in float64, of which a known fault replaces some.

With the stages as they stand here a call gives what the oracle gives. The oracle stays apart: it judges, this explains.

    read -> project -> split | group -> prepare -> product -> scores (scale, cap, bias) -> hide (mask, causal, window)
         -> normalise -> weigh -> mix -> spread -> merge -> finish          second: beside the output
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..calling.delivered import Delivered
from ..cases import masks
from ..cases.case import Case
from ..cases.inputs import Inputs
from ..dtypes import torch_dtype
from ..oracle.expectations import (
    Projection,
    Setting,
    band,
    effective,
    is_causal,
    merge_heads,
    scale_of,
    split_heads,
    triangle,
)

Stage = Callable[..., Any]
Stages = Mapping[str, Stage]
INFINITY = float("inf")


@dataclass
class Call:
    """One call as the stages see it. `delivered` holds the tensors in canonical axes as they lie in memory; `leaves`
    are the float64 tensors with respect to which gradients are taken; `second` is the declared kind of second result;
    `kept` is what stages leave for one another."""

    inputs: Inputs
    setting: Setting
    delivered: Delivered
    stages: Stages
    second: str | None = None
    leaves: dict[str, Tensor] = field(default_factory=dict)
    kept: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("query", "key", "value", "bias"):
            tensor = getattr(self.inputs, name)
            if tensor is not None:
                self.leaves[name] = tensor.detach().double().requires_grad_()
        drawn = self.inputs.parameters
        if drawn is not None:
            for role, projection in effective(drawn, self.setting.structure, self.case.heads).items():
                self.leaves[f"{role}.weight"] = projection.weight.clone().requires_grad_()
                if projection.bias is not None:
                    self.leaves[f"{role}.bias"] = projection.bias.clone().requires_grad_()

    def __call__(self, stage: str, *arguments: Any) -> Any:
        """Run a stage: the replaced one where there is one."""
        return (self.stages.get(stage) or STAGES[stage])(self, *arguments)

    @property
    def case(self) -> Case:
        """The case of the call."""
        return self.inputs.case

    @property
    def module(self) -> bool:
        """Whether projections stand around the attention."""
        return self.setting.module

    @property
    def queries(self) -> int:
        """L."""
        return int(self.inputs.query.shape[-2])

    @property
    def keys(self) -> int:
        """S."""
        return int(self.inputs.key.shape[-2])

    def projection(self, role: str) -> Projection:
        """The linear map of a role, as leaves."""
        return Projection(self.leaves[f"{role}.weight"], self.leaves.get(f"{role}.bias"))

    def low(self, tensor: Tensor) -> Tensor:
        """Round to the working dtype and back, with the gradient passed straight through."""
        rounded = tensor.detach().to(torch_dtype(self.inputs.dtype)).double()
        return tensor + (rounded - tensor).detach()


def run(call: Call) -> tuple[Tensor, Tensor]:
    """Return output and weights of a call."""
    heads = []
    for role in ("query", "key", "value"):
        tensor = call("read", role)
        if call.module:
            heads.append(call("split", role, call("project", role, tensor)))
        else:
            heads.append(tensor if role == "query" else call("group", role, tensor))
    query, key, value = call("prepare", *heads)
    if "backward" in call.stages:
        output, weights = _Core.apply(call, query, key, value)  # type: ignore[no-untyped-call]
    else:
        output, weights = attend(call, query, key, value)
    output = call("spread", output)
    if call.module:
        output = call("finish", call("merge", output))
    return output, weights


def attend(call: Call, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return output (..., L, E) and weights (..., L, S) of one attention per head."""
    scores = call("scores", call("product", query, key))
    masked = call("hide", scores, call("allowed"))
    weights = call("weigh", call("normalise", masked))
    call.kept |= {"scores": scores, "masked": masked, "weights": weights}
    output = call("mix", weights, value)
    call.kept["output"] = output
    return output, weights


class _Core(torch.autograd.Function):
    """The attention of a call with the gradient that its stage `backward` gives."""

    @staticmethod
    def forward(ctx: Any, call: Call, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        output, weights = attend(call, query, key, value)
        ctx.call = call
        ctx.save_for_backward(query, key, value, output, weights)
        return output, weights

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Any:
        return None, *ctx.call("backward", Saved(*ctx.saved_tensors), upstream[0], upstream[1])


@dataclass(frozen=True)
class Saved:
    """What a backward pass keeps: query, key and value per head, output and weights."""

    query: Tensor
    key: Tensor
    value: Tensor
    output: Tensor
    weights: Tensor


# The stages of sound attention


def read(call: Call, role: str) -> Tensor:
    """The input of a projection, or the tensor of a kernel."""
    return call.leaves[role]


def project(call: Call, role: str, tensor: Tensor) -> Tensor:
    """x W^T + b."""
    projection = call.projection(role)
    result = tensor @ projection.weight.T
    return result if projection.bias is None else result + projection.bias


def split(call: Call, role: str, tensor: Tensor) -> Tensor:
    """(B, L, M) to (B, H, L, D)."""
    return split_heads(tensor, call.case.heads)


def group(call: Call, role: str, tensor: Tensor) -> Tensor:
    """Repeat key and value heads for consecutive query heads."""
    if call.case.kv_heads is None:
        return tensor
    return tensor.repeat_interleave(call.case.heads // call.case.kv_heads, -3)


def prepare(call: Call, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value per head, just before they meet."""
    return query, key, value


def product(call: Call, query: Tensor, key: Tensor) -> Tensor:
    """The products of queries and keys (..., L, S)."""
    return query @ key.transpose(-2, -1)


def scale(call: Call) -> float | Tensor:
    """The factor on the products."""
    return scale_of(call.setting.scale, call.case)


def scores(call: Call, products: Tensor) -> Tensor:
    """Scaled, capped, biased."""
    result: Tensor = call("bias", call("cap", products * call("scale")))
    return result


def cap(call: Call, tensor: Tensor) -> Tensor:
    """c tanh(s / c)."""
    limit = call.case.softcap
    return tensor if limit is None else limit * torch.tanh(tensor / limit)


def bias(call: Call, tensor: Tensor) -> Tensor:
    """Add the bias, and the finite values of an additive mask."""
    added = call("added")
    return tensor if added is None else tensor + added


def added(call: Call) -> Tensor | None:
    """What is added to the scores, trimmed to the axes of a kernel's tensors."""
    own = call.leaves.get("bias")
    finite = None if call.inputs.finite is None else call.inputs.finite.double()
    total = own if finite is None else finite if own is None else own + finite
    return trimmed(call, total)


def mask(call: Call) -> Tensor | None:
    """What the mask allows (b, h, l, s)."""
    return trimmed(call, call.inputs.allowed)


def causal(call: Call) -> Tensor | None:
    """What the causal triangle allows (L, S)."""
    if not is_causal(call.case, call.setting.causal):
        return None
    return triangle(call.queries, call.keys, call.setting.causal or "top-left")


def window(call: Call) -> Tensor | None:
    """What the window allows (L, S)."""
    if call.case.window is None:
        return None
    return band(call.queries, call.keys, call.case.window, call.setting.causal or "top-left")


def allowed(call: Call) -> Tensor | None:
    """Mask, triangle and window together."""
    result: Tensor | None = None
    for part in (call("mask"), call("causal"), call("window")):
        if part is not None:
            result = part if result is None else result & part
    return result


def hide(call: Call, tensor: Tensor, allowed: Tensor | None) -> Tensor:
    """Put minus infinity where a key is hidden."""
    return tensor if allowed is None else tensor.masked_fill(~allowed, -INFINITY)


def normalise(call: Call, masked: Tensor) -> Tensor:
    """Softmax over the keys; an empty row gets the declared answer."""
    empty = (masked == -INFINITY).all(-1, keepdim=True)
    weights = torch.softmax(masked.masked_fill(empty, 0.0), -1)
    answers = {"uniform": 1.0 / max(masked.shape[-1], 1), "zeros": 0.0}
    return torch.where(empty, answers.get(call.setting.empty_row, math.nan), weights)


def weigh(call: Call, weights: Tensor) -> Tensor:
    """The weights as they meet the value."""
    return weights


def mix(call: Call, weights: Tensor, value: Tensor) -> Tensor:
    """Weights times value."""
    return weights @ value


def spread(call: Call, output: Tensor) -> Tensor:
    """The output per head."""
    return output


def merge(call: Call, output: Tensor) -> Tensor:
    """(B, H, L, D) to (B, L, M)."""
    return merge_heads(output)


def finish(call: Call, merged: Tensor) -> Tensor:
    """The output projection, where there is one."""
    return project(call, "output", merged) if call.setting.structure.output else merged


def second(call: Call) -> Tensor:
    """The second result of the declared kind, after the attention was computed."""
    if call.second == "averaged weights":
        return call.kept["weights"].mean(-3)  # type: ignore[no-any-return]
    if call.second in ("lse", "lse2"):
        found = torch.logsumexp(call.kept["masked"], -1)
        return found if call.second == "lse" else found * math.log2(math.e)
    return call.kept["weights"]  # type: ignore[no-any-return]


STAGES: Stages = {
    stage.__name__: stage
    for stage in (
        read, project, split, group, prepare, product, scale, scores, cap, bias, added, mask, causal, window, allowed,
        hide, normalise, weigh, mix, spread, merge, finish, second,
    )
}  # fmt: skip
"""Every stage of sound attention by its name."""


# What several faults need


def trimmed(call: Call, tensor: Tensor | None) -> Tensor | None:
    """Drop leading axes of size 1 that a kernel's tensors do not have."""
    axes = 4 if call.module else max(call.inputs.query.dim(), 2)
    while tensor is not None and tensor.dim() > axes and tensor.shape[0] == 1:
        tensor = tensor[0]
    return tensor


def written_mask(call: Call) -> Tensor | None:
    """The mask as numbers in the form in which it was sent, in canonical axes; None where there is none."""
    wanted, own = call.case.mask, call.inputs.allowed
    if wanted is None or own is None:
        return None
    sent = call.delivered.mask
    form = "bool" if sent is not None and sent.dtype == torch.bool else "additive" if is_additive(call) else "number"
    encoded = masks.encode(own, wanted, form, "attend", torch_dtype(call.inputs.dtype), call.inputs.finite)
    return trimmed(call, encoded.double())


def is_additive(call: Call) -> bool:
    """Say whether the mask was sent as numbers to be added."""
    wanted, sent = call.case.mask, call.delivered.mask
    if wanted is None or sent is None or not sent.is_floating_point():
        return False
    return "number" not in wanted.forms or bool(torch.isinf(sent).any())


def instead(value: Tensor, gradient: Tensor) -> Tensor:
    """Return the value of one tensor with the gradient of another."""
    return gradient + (value - gradient).detach()
