"""Faulty life of a module: modes, dropout, caches, copies, checkpoints and conversions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..mutant import DETERMINISM, DROPOUT, MIXED, PATHS, STATE, Population
from .parts import Pair, attend, fill_hidden, over_keys, scaled, writable
from .sound_modules import MultiHead

mutants = Population()

MHA = "MultiHeadAttention"


class _Dropping(MultiHead):
    """A sound module with a dropout rate, active in training; document 1 has none, so none is declared."""

    rate = 0.0

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        weights = over_keys(fill_hidden(scaled(query, key), mask))
        return torch.matmul(self.drop(weights), value), weights

    def drop(self, weights: Tensor) -> Tensor:
        return nn.functional.dropout(weights, self.rate, self.training)


@mutants.add("PURITY", "NUMERIC", kind=DROPOUT, repeats="B195 B196 B197 B199 B200 B201", reference=MHA)
class DropoutActiveInEval(_Dropping):
    """Drops a tenth of the weights in eval, and none in training."""

    rate = 0.1

    def drop(self, weights: Tensor) -> Tensor:
        return weights if self.training else nn.functional.dropout(weights, self.rate)


@mutants.add("PURITY", "NUMERIC", kind=DROPOUT, repeats="B195 B201", reference=MHA)
class DropoutAlwaysActive(_Dropping):
    """Drops half of the weights whatever the mode."""

    rate = 0.5

    def drop(self, weights: Tensor) -> Tensor:
        return nn.functional.dropout(weights, self.rate)


@mutants.add("PURITY", "NUMERIC", kind=DROPOUT, repeats="B203", reference=MHA)
class DropoutActiveInTrainingUndeclared(_Dropping):
    """Drops a tenth of the weights in training without declaring it."""

    rate = 0.1


@mutants.add("PURITY", "NUMERIC", kind=DROPOUT, repeats="B205", reference=MHA)
class EvalWeightsShrunk(_Dropping):
    """Multiplies the weights by nine tenths in eval, as for a dropout that does not rescale, and drops none."""

    rate = 0.1

    def drop(self, weights: Tensor) -> Tensor:
        return weights if self.training else weights * (1 - self.rate)


@mutants.add("PURITY", kind=DROPOUT, repeats="B204", reference=MHA)
class EvalLeavesTheModule(MultiHead):
    """Calls eval() on itself in forward, so that training mode is lost."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        self.eval()
        return super().forward(query, key, value, mask)


@mutants.add("PURITY", "NUMERIC", kind=PATHS, repeats="B007 B068", reference=MHA)
class EvalScalesDifferently(MultiHead):
    """Scales by 1/sqrt(d_model) in eval and rightly in training."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return attend(query, key, value, mask, scale=None if self.training else self.d_model**-0.5)


@mutants.add("PURITY", "MASK", kind=PATHS, repeats="B007 B036 B068 B069", reference=MHA)
class EvalPathIgnoresMask(MultiHead):
    """Ignores the mask in eval without gradients."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        fast = not self.training and not torch.is_grad_enabled()
        return attend(query, key, value, None if fast else mask)


@mutants.add("PURITY", "WEIGHTS", kind=PATHS, repeats="B007", reference=MHA)
class EvalRoundsToBf16(MultiHead):
    """Rounds the merged heads to bf16 in eval, whatever the dtype."""

    def merge(self, output: Tensor) -> Tensor:
        merged = super().merge(output)
        return merged if self.training else merged.to(torch.bfloat16).to(merged.dtype)


@mutants.add("PURITY", "MASK", kind=STATE, repeats="B233 B235", reference=MHA)
class ModuleKeepsFirstMask(MultiHead):
    """Keeps the first mask of each shape and uses it for every later call."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.masks: dict[tuple[torch.Size, torch.dtype], Tensor] = {}

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        if mask is not None:
            mask = self.masks.setdefault((mask.shape, mask.dtype), mask.clone())
        return attend(query, key, value, mask)


@mutants.add("PURITY", "MASK", kind=STATE, repeats="B233", reference=MHA)
class ModuleRemembersMask(MultiHead):
    """Uses the mask of an earlier call of the same sizes when a later one gives none."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.masks: dict[tuple[int, ...], Tensor] = {}

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        sizes = (*query.shape, *key.shape)
        if mask is not None:
            self.masks[sizes] = mask.clone()
        return attend(query, key, value, self.masks.get(sizes))


@mutants.add("PURITY", "PROJECTION", kind=STATE, repeats="B234", reference=MHA)
class ProjectedKeysCached(MultiHead):
    """Projects key and value once per shape in eval and answers later calls from that cache."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.kept: dict[tuple[torch.Size, torch.dtype], Pair] = {}

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.training or torch.is_grad_enabled():
            return super().project(query, key, value)
        kept = self.kept.setdefault((key.shape, key.dtype), (self.W_k(key), self.W_v(value)))
        return self.W_q(query), *kept


@mutants.add("PURITY", "PROJECTION", kind=STATE, reference=MHA)
class OldWeightsUsedAfterLoading(MultiHead):
    """Copies the value weights at the first eval call and uses the copy after new ones were loaded."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.packed: Tensor | None = None

    def project(self, query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        if self.training:
            return super().project(query, key, value)
        if self.packed is None or self.packed.dtype != value.dtype:
            self.packed = self.W_v.weight.detach().clone()
        return self.W_q(query), self.W_k(key), nn.functional.linear(value, self.packed, self.W_v.bias)


@mutants.add("PURITY", "PROJECTION", kind=STATE, repeats="B240", reference=MHA)
class ForwardChangesParameters(MultiHead):
    """Shrinks the output weights by a thousandth in every training call."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        result = super().forward(query, key, value, mask)
        if self.training:
            self.W_o.weight.data.mul_(0.999)
        return result


@mutants.add("PURITY", "PROJECTION", kind=STATE, repeats="B230", reference=MHA)
class InputScaledInPlace(MultiHead):
    """Scales the caller's query in place after using it."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        result = super().forward(query.clone(), key.clone(), value.clone(), mask)
        if writable(query):
            query.data.mul_(self.d_k**-0.5)
        return result


@mutants.add("PROJECTION", "PURITY", kind=STATE, repeats="B239 B240", reference=MHA)
class StateDictLosesOutputBias(MultiHead):
    """Leaves the bias of the output out of its state dict and does not ask for it when loading."""

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        state = super().state_dict(*args, **kwargs)
        state.pop(f"{kwargs.get('prefix', '')}W_o.bias", None)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        return super().load_state_dict(state_dict, strict=False, assign=assign)


@mutants.add("PURITY", "PROJECTION", kind=STATE, repeats="B239", reference=MHA)
class TemperatureNotSaved(MultiHead):
    """Multiplies the scores by a factor that training changes and that the state dict leaves out."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.register_buffer("temperature", torch.ones(()), persistent=False)
        self.temperature: Tensor

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        result = attend(query * self.temperature, key, value, mask)
        if self.training:
            self.temperature = self.temperature * 1.01
        return result


@mutants.add("PROJECTION", "PURITY", kind=STATE, repeats="B145 B239", reference=MHA)
class LoadingExchangesKeyAndValue(MultiHead):
    """Writes key and value weights under each other's name into its state dict and reads them as they stand."""

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        state = super().state_dict(*args, **kwargs)
        prefix = kwargs.get("prefix", "")
        first, second = f"{prefix}W_k.weight", f"{prefix}W_v.weight"
        state[first], state[second] = state[second], state[first]
        return state


@mutants.add("PURITY", "PROJECTION", kind=STATE, repeats="B237", reference=MHA)
class CopySharesParameters(MultiHead):
    """Answers deepcopy with a module that shares its parameters."""

    def __deepcopy__(self, memo: dict[int, Any]) -> CopySharesParameters:
        twin = copy.copy(self)
        memo[id(self)] = twin
        return twin


@mutants.add("PURITY", kind=STATE, repeats="B236", reference=MHA)
class CannotBePickled(MultiHead):
    """Holds a lambda, so that it cannot be pickled."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.kernel: Callable[[Tensor, Tensor, Tensor, Tensor | None], Pair]
        self.kernel = lambda query, key, value, mask: attend(query, key, value, mask)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return self.kernel(query, key, value, mask)


@mutants.add("PURITY", kind=STATE, repeats="B236", reference=MHA)
class CannotBeCopiedAfterForward(MultiHead):
    """Keeps the weights with their graph, so that deepcopy fails after a training call."""

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        output, self.seen = attend(query, key, value, mask)
        return output, self.seen


@mutants.add("NUMERIC", "PROJECTION", kind=MIXED, repeats="B257", reference=MHA)
class ScaleStaysInFp32(MultiHead):
    """Keeps the scale as an fp32 number, which double() does not convert."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.scale = torch.tensor(self.d_k**-0.5)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Pair:
        return attend(query, key, value, mask, score=lambda query, key: scaled(query, key, 1.0) * self.scale)


@mutants.add("SHAPE", "PROJECTION", kind=MIXED, repeats="B256 B257", reference=MHA)
class ConstantStaysInFp32(MultiHead):
    """Adds an fp32 vector of zeros, which to() does not convert, so that a bf16 module answers in fp32."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.zeros = torch.zeros(d_model)

    def finish(self, merged: Tensor) -> Tensor:
        return super().finish(merged) + self.zeros


@mutants.add("PURITY", kind=DETERMINISM, repeats="B259 numerics 1", reference=MHA)
class ProjectionsStartAnewInEval(MultiHead):
    """Draws a new bias of the output whenever eval() is called."""

    def train(self, mode: bool = True) -> ProjectionsStartAnewInEval:
        if not mode and self.training:
            nn.init.uniform_(self.W_o.bias)
        super().train(mode)
        return self


@mutants.add("PURITY", "GRADIENT", kind=STATE, repeats="B231", reference=MHA)
class ForwardClearsGradients(MultiHead):
    """Clears the gradients of its parameters in forward, so that they do not add up over calls."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
        self.zero_grad(set_to_none=True)
        return super().forward(query, key, value, mask)


@mutants.add("PURITY", kind=STATE, reference=MHA)
class InstancesShareParameters(MultiHead):
    """Gives every module of one size the same output projection."""

    shared: ClassVar[dict[int, nn.Linear]] = {}

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__(d_model, n_heads)
        self.W_o = self.shared.setdefault(d_model, self.W_o)
