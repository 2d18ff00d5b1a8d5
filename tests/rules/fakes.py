"""Small faulty implementations for rules that reject no mutant of the zoo, each named for its fault."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from attention_conformance.reference.attention import MultiHeadAttention as Document
from tests.zoo.faulty.parts import Pair, attend, band, both
from tests.zoo.faulty.sound_modules import MultiHead
from tests.zoo.mutant import DROPOUT, EMPTY, FLAG, GRADIENT, PATHS, TAILS, ZERO, Mutant, Population

fakes = Population()

_flags: dict[str, bool] = {}


@fakes.add("CAUSAL", kind=FLAG, causal="top-left")
def causal_flag_stays(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, causal: bool = False
) -> Pair:
    """Stays causal at equal lengths after the first causal call."""
    _flags["causal"] = _flags.get("causal", False) or causal
    square = query.size(-2) == key.size(-2)
    if causal or (square and _flags["causal"]):
        mask = both(mask, band(query.size(-2), key.size(-2), causal=True, corner="top-left"))
    return attend(query, key, value, mask)


class _HalvesUpstream(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor) -> Tensor:
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        result = gradients[0].clone()
        gradients[0].mul_(0.5)
        return result


@fakes.add("GRADIENT", kind=GRADIENT, gradient="once")
def upstream_gradient_halved_in_place(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Uses the caller's upstream gradient as scratch memory in the backward pass."""
    output, weights = attend(query, key, value, mask)
    return _HalvesUpstream.apply(output), weights  # type: ignore[no-untyped-call]


@fakes.add("MASK", kind=TAILS, mask=("lengths",))
def one_key_behind_the_length_seen(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Compares positions with the length by <=, so that one key of padding is seen."""
    if mask is None:
        return attend(query, key, value)
    lengths = mask.reshape(-1, *[1] * (query.dim() - 1))
    return attend(query, key, value, torch.arange(key.size(-2)) <= lengths)


@fakes.add("OPTIONS", kind=DROPOUT, options=("dropout",))
def dropout_of_zero_means_a_tenth(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, *, dropout: float | None = None
) -> Pair:
    """Takes a dropout of zero for none given, and none given inside the option for a tenth."""
    weights = attend(query, key, value, mask)[1]
    if dropout is None:
        return weights @ value, weights
    return torch.nn.functional.dropout(weights, dropout or 0.1) @ value, weights


@fakes.add("SHAPE", kind=ZERO, reference="MultiHeadAttention")
class EmptyBatchGivesOneRow(MultiHead):
    """Answers an empty batch with a batch of one, as a kernel that is launched once at least does."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        if query.size(0) == 0:
            query, key, value = (tensor.new_zeros(1, *tensor.shape[1:]) for tensor in (query, key, value))
        return super().forward(query, key, value, mask)


@fakes.add("ERRORS", kind=ZERO, reference="MultiHeadAttention")
class FoldsAnIndivisibleWidth(torch.nn.Module):
    """Splits heads by view without a look at the width, so that features of one position become another's."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.inner = Document(d_model, n_heads)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        return self.inner(query, key, value, mask)


@fakes.add("SHAPE", kind=EMPTY)
def nan_without_a_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Divides by the number of visible keys, which nobody counted where there is no mask."""
    output, weights = attend(query, key, value, mask)
    return (output, weights) if mask is not None else (output * (torch.zeros(()) / 0).to(output.dtype), weights)


@fakes.add("PORTABILITY", kind=PATHS)
def functional_gradient_forgets_the_key(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Detaches the key where torch.func differentiates."""
    functional = torch._C._functorch.is_gradtrackingtensor(key) or torch._C._functorch.is_gradtrackingtensor(query)
    return attend(query, key.detach() if functional else key, value, mask)


FAKES: tuple[Mutant, ...] = tuple(fakes)
