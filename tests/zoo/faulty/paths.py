"""Faults of one path only: compiled, exported, mapped, under autocast, in inference or forward mode."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ..mutant import GRADIENT, MIXED, PATHS, STATE, Population
from .parts import Pair, attend, scaled
from .sound_modules import MultiHead

mutants = Population()

MHA = "MultiHeadAttention"


@mutants.add("PORTABILITY", kind=PATHS, repeats="B013 B041")
def compiled_path_ignores_the_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the mask while it is compiled or exported."""
    return attend(query, key, value, None if torch.compiler.is_compiling() else mask)


@mutants.add("PORTABILITY", kind=PATHS, repeats="B219 B221", reference=MHA)
class CompiledPathScalesDifferently(MultiHead):
    """Scales by 1/sqrt(d_k + 1) while it is compiled or exported."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        scale = (self.d_k + 1) ** -0.5 if torch.compiler.is_compiling() else None
        return attend(query, key, value, mask, scale=scale)


@mutants.add("PORTABILITY", kind=PATHS, repeats="B224")
def exported_program_hides_keys_past_the_traced_length(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Hides in an exported program the keys behind the length that it was traced with."""
    keys = key.size(-2)
    traced = getattr(getattr(keys, "node", None), "hint", None)
    if traced is not None:
        seen = torch.arange(keys) < int(traced)
        mask = seen if mask is None else (mask != 0) & seen
    return attend(query, key, value, mask)


class _FirstMaskForAll(torch.autograd.Function):
    """Attention with a rule for vmap that looks at one mask only."""

    @staticmethod
    def forward(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        return attend(query, key, value, mask)[0]

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        query, key, value, mask = ctx.saved_tensors
        with torch.enable_grad():
            leaves = [tensor.detach().requires_grad_() for tensor in (query, key, value)]
            output = attend(*leaves, mask)[0]
        return (*torch.autograd.grad(output, leaves, gradients[0]), None)

    @staticmethod
    def vmap(info: Any, axes: tuple[int | None, ...], *tensors: Tensor) -> tuple[Tensor, int]:
        moved = [
            tensor.expand(info.batch_size, *tensor.shape) if axis is None else tensor.movedim(axis, 0)
            for tensor, axis in zip(tensors, axes, strict=True)
        ]
        return _FirstMaskForAll.apply(*moved[:3], moved[3][0]), 0  # type: ignore[no-untyped-call]


@mutants.add("PORTABILITY", kind=PATHS, repeats="B223", gradient="once")
def mapped_calls_share_the_first_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Uses the first mask for every element of a mapped axis."""
    if mask is None:
        return attend(query, key, value)[0]
    return _FirstMaskForAll.apply(query, key, value, mask)  # type: ignore[no-untyped-call, no-any-return]


@mutants.add("PORTABILITY", kind=PATHS, repeats="B226")
def inference_mode_drops_the_last_key(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Drops the last of several keys in inference mode, and not under no_grad."""
    if torch.is_inference_mode_enabled() and key.size(-2) > 1:
        key, value, mask = key[..., :-1, :], value[..., :-1, :], None if mask is None else mask[..., :-1]
    return attend(query, key, value, mask)


@mutants.add("PORTABILITY", kind=MIXED, repeats="B184 B256")
def denominator_summed_in_bf16_under_autocast(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Adds up the denominator in bf16, one key after the other, under autocast."""
    if not torch.is_autocast_enabled("cpu"):
        return attend(query, key, value, mask)

    def normalise(scores: Tensor) -> Tensor:
        exponentials = torch.exp(scores.float() - scores.float().amax(-1, keepdim=True)).bfloat16()
        total = torch.zeros_like(exponentials[..., :1])
        for place in range(exponentials.size(-1)):
            total = total + exponentials[..., place : place + 1]
        return exponentials / total

    return attend(query, key, value, mask, normalise=normalise)


@mutants.add("PORTABILITY", kind=MIXED, repeats="B257")
def fp16_returned_under_autocast(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns fp16 under autocast to bf16."""
    output, weights = attend(query, key, value, mask)
    return output.half() if torch.is_autocast_enabled("cpu") else output, weights


class _KeyTangentForgotten(torch.autograd.Function):
    """The scores, with a rule for forward mode that forgets the tangent of the key."""

    @staticmethod
    def forward(query: Tensor, key: Tensor) -> Tensor:
        return scaled(query, key)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        query, key = ctx.saved_tensors
        slope = gradients[0] * query.size(-1) ** -0.5
        return _folded(slope @ key, query), _folded(slope.transpose(-2, -1) @ query, key)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        _, key = ctx.saved_tensors
        return scaled(tangents[0], key)


def _folded(gradient: Tensor, tensor: Tensor) -> Tensor:
    return gradient.sum_to_size(tensor.shape)


@mutants.add("PORTABILITY", kind=GRADIENT, gradient="once")
def forward_mode_forgets_the_key(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Leaves the key out of the derivative in forward mode."""
    return attend(query, key, value, mask, score=_KeyTangentForgotten.apply)


@mutants.add("PORTABILITY", kind=STATE, reference=MHA)
class OwnParametersInFunctionalCalls(MultiHead):
    """Reads the weight of the query out of a list beside the registered ones, past what a functional call hands over."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.weights: list[nn.Parameter] = [self.W_q.weight]

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        projected = nn.functional.linear(query, self.weights[0], self.W_q.bias)
        return projected, self.W_k(key), self.W_v(value)
