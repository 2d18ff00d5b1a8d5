"""Faulty purity: inputs, caches, global settings and chance leave traces from one call to the next.

TRACES names those that leave the process changed: whoever runs them restores it or uses a process of its own.
"""

from __future__ import annotations

import random
import weakref

import torch
from torch import Tensor

from ..mutant import DETERMINISM, PATHS, STATE, Population
from .parts import HIDDEN, Pair, attend, default_scale, over_keys, writable

mutants = Population()

TRACES = frozenset(
    {
        "global_generator_consumed",
        "global_generator_seeded",
        "python_generator_consumed",
        "default_dtype_changed",
        "gradient_mode_switched_off",
        "thread_count_changed",
        "matmul_precision_changed",
        "deterministic_mode_switched_on",
    }
)


def _overwrite(tensor: Tensor, new: Tensor) -> None:
    if writable(tensor):
        tensor.data.copy_(new)


@mutants.add("PURITY", kind=STATE, repeats="B228 B229 B230 B232 numerics 36")
def query_scaled_in_place(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales the caller's query in place; the first answer is right."""
    result = attend(query.clone(), key, value, mask)
    _overwrite(query, query.detach() * default_scale(query))
    return result


@mutants.add("PURITY", kind=STATE, repeats="B228 numerics 36")
def key_centred_in_place(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Subtracts the mean key in place, which no answer shows."""
    result = attend(query, key.clone(), value, mask)
    if key.size(-2):
        _overwrite(key, key.detach() - key.detach().mean(dim=-2, keepdim=True))
    return result


@mutants.add("PURITY", "MASK", kind=STATE, repeats="B228 numerics 36")
def hidden_values_zeroed_in_place(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Zeroes in place the values of keys that no query may attend."""
    result = attend(query, key, value.clone(), mask)
    if mask is not None and mask.dim() > 1 and result[1].numel():
        hidden = (mask == 0).expand(result[1].shape).all(dim=-2).unsqueeze(-1)
        if hidden.shape[:-1] == value.shape[:-1]:
            _overwrite(value, value.detach().masked_fill(hidden, 0.0))
    return result


@mutants.add("PURITY", "MASK", kind=STATE, repeats="B231 numerics 36")
def mask_inverted_in_place(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Turns the caller's mask into its opposite in place, after using it."""
    result = attend(query, key, value, mask)
    if mask is not None:
        _overwrite(mask, (mask == 0).to(mask.dtype))
    return result


@mutants.add("PURITY", "MASK", kind=STATE, repeats="B231 numerics 36")
def number_mask_filled_in_place(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Writes the fill into a floating-point mask of the caller, which then attends everything."""
    result = attend(query, key, value, mask)
    if mask is not None and mask.is_floating_point():
        _overwrite(mask, mask.masked_fill(mask == 0, -10000.0))
    return result


_outputs: dict[tuple[torch.Size, torch.dtype], Tensor] = {}


@mutants.add("PURITY", kind=STATE, repeats="B234")
def output_buffer_reused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Writes every output without gradient into one buffer per shape, over the output of the call before."""
    output, weights = attend(query, key, value, mask)
    if output.requires_grad:
        return output, weights
    buffer = _outputs.setdefault((output.shape, output.dtype), torch.empty_like(output))
    return buffer.copy_(output), weights


_weights: dict[tuple[torch.Size, torch.dtype], Tensor] = {}


@mutants.add("PURITY", "WEIGHTS", kind=STATE, repeats="B234")
def weights_buffer_reused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Writes all weights without gradient into one buffer per shape, over the weights of the call before."""
    output, weights = attend(query, key, value, mask)
    if weights.requires_grad:
        return output, weights
    buffer = _weights.setdefault((weights.shape, weights.dtype), torch.empty_like(weights))
    return output, buffer.copy_(weights)


@mutants.add("PURITY", "MEMORY", kind=STATE, repeats="numerics 36")
def single_key_returns_the_value_itself(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Returns a view of the caller's value where there is one key, so that writing to one changes the other."""
    output, weights = attend(query, key, value, mask)
    return (value.expand(output.shape) if value.size(-2) == 1 else output), weights


_keys: dict[tuple[torch.Size, torch.dtype], Tensor] = {}


@mutants.add("PURITY", kind=STATE, repeats="B233 B234")
def key_cached_by_shape(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Uses the first key of each shape for every later call without gradient."""
    if torch.is_grad_enabled():
        return attend(query, key, value, mask)
    kept = _keys.setdefault((key.shape, key.dtype), key.clone())
    return attend(query, kept, value, mask)


_latest: list[tuple[weakref.ref[Tensor], weakref.ref[Tensor], weakref.ref[Tensor], object, Pair]] = []


@mutants.add("PURITY", kind=STATE, repeats="B233")
def result_cached_by_identity(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Answers with the latest result if the same tensors come again, whatever was written into them since."""
    if torch.is_grad_enabled() and (query.requires_grad or key.requires_grad or value.requires_grad):
        return attend(query, key, value, mask)
    if _latest:
        first, second, third, hidden, result = _latest[0]
        if first() is query and second() is key and third() is value and hidden is mask:
            return result
    result = attend(query, key, value, mask)
    _latest[:] = [(weakref.ref(query), weakref.ref(key), weakref.ref(value), mask, result)]
    return result


_masks: dict[tuple[torch.Size, torch.dtype], Tensor] = {}


@mutants.add("PURITY", "MASK", kind=STATE, repeats="B233 B235 B241")
def mask_cached_by_shape(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Uses the first mask of each shape and dtype for every later call."""
    if mask is not None:
        mask = _masks.setdefault((mask.shape, mask.dtype), mask.clone())
    return attend(query, key, value, mask)


_remembered: dict[tuple[int, ...], Tensor] = {}


@mutants.add("PURITY", "MASK", kind=STATE, repeats="B233")
def mask_outlives_its_call(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Uses the mask of an earlier call of the same sizes when a later one gives none."""
    sizes = (*query.shape, *key.shape)
    if mask is not None:
        _remembered[sizes] = mask.clone()
    return attend(query, key, value, _remembered.get(sizes))


_first_scales: list[float] = []


@mutants.add("PURITY", "NUMERIC", kind=STATE, repeats="B235")
def scale_of_the_first_call(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Computes the scale once, from the width of the first call."""
    if not _first_scales:
        _first_scales.append(default_scale(query))
    return attend(query, key, value, mask, scale=_first_scales[0])


@mutants.add("PURITY", kind=STATE)
def global_generator_consumed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Draws a number from torch's global generator and does not use it."""
    torch.rand(1)
    return attend(query, key, value, mask)


@mutants.add("PURITY", kind=STATE)
def global_generator_seeded(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Seeds torch's global generator."""
    torch.manual_seed(0)
    return attend(query, key, value, mask)


@mutants.add("PURITY", kind=STATE)
def python_generator_consumed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Draws a number from Python's global generator and does not use it."""
    random.random()
    return attend(query, key, value, mask)


@mutants.add("PURITY", kind=STATE)
def default_dtype_changed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Makes the dtype of fp64 inputs the default dtype."""
    if query.dtype == torch.float64:
        torch.set_default_dtype(torch.float64)
    return attend(query, key, value, mask)


@mutants.add("PURITY", "GRADIENT", kind=STATE)
def gradient_mode_switched_off(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Switches gradients off for whatever comes after the call."""
    result = attend(query, key, value, mask)
    torch.set_grad_enabled(False)
    return result


@mutants.add("PURITY", kind=STATE)
def thread_count_changed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Changes the number of threads that torch uses."""
    torch.set_num_threads(2 if torch.get_num_threads() == 1 else 1)
    return attend(query, key, value, mask)


@mutants.add("PURITY", kind=STATE)
def matmul_precision_changed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Lowers the precision of fp32 products for the whole process."""
    torch.set_float32_matmul_precision("medium")
    return attend(query, key, value, mask)


@mutants.add("PURITY", kind=STATE)
def deterministic_mode_switched_on(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Switches deterministic algorithms on for the whole process."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    return attend(query, key, value, mask)


_dice = random.Random(0)


@mutants.add("PURITY", kind=DETERMINISM, repeats="numerics 1")
def result_off_by_chance(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds a few units in the last place, which change from call to call."""
    output, weights = attend(query, key, value, mask)
    return output * (1 + _dice.randint(-1, 1) * 2 * torch.finfo(output.dtype).eps), weights


@mutants.add("PURITY", kind=DETERMINISM, repeats="numerics 1 B259")
def keys_summed_in_random_order(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Adds up the output in another order of the keys at every call."""

    def mix(weights: Tensor, value: Tensor) -> Tensor:
        order = list(range(value.size(-2)))
        _dice.shuffle(order)
        if len(order) != weights.size(-1):
            return torch.matmul(weights, value)
        return torch.matmul(weights[..., order], value[..., order, :])

    return attend(query, key, value, mask, mix=mix)


_calls: list[int] = []


@mutants.add("PURITY", "NUMERIC", kind=DETERMINISM, repeats="numerics 1")
def every_seventh_call_wrong(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Loses the last query in every seventh call."""
    _calls.append(1)
    output, weights = attend(query, key, value, mask)
    if len(_calls) % 7 == 0:
        last = torch.arange(output.size(-2)).unsqueeze(-1) == output.size(-2) - 1
        output = output.masked_fill(last, 0.0)
    return output, weights


@mutants.add("PURITY", "NUMERIC", kind=PATHS, repeats="B219 B221 B226 numerics 1")
def inference_path_scales_differently(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Scales by 1/sqrt(D + 1) on the path without gradients."""
    scale = None if torch.is_grad_enabled() else (query.size(-1) + 1) ** -0.5
    return attend(query, key, value, mask, scale=scale)


@mutants.add("PURITY", "MASK", kind=PATHS, repeats="B007 B068 numerics 1")
def inference_path_ignores_the_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Pair:
    """Ignores the mask on the path without gradients."""
    return attend(query, key, value, mask if torch.is_grad_enabled() else None)


@mutants.add("PURITY", "NUMERIC", kind=PATHS, repeats="B221 B226")
def path_without_needed_gradients_drops_a_key(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None
) -> Pair:
    """Drops the last of several keys when no input needs a gradient."""
    if query.requires_grad or key.requires_grad or value.requires_grad or key.size(-2) < 2:
        return attend(query, key, value, mask)
    last = torch.arange(key.size(-2)) == key.size(-2) - 1
    return attend(query, key, value, mask, normalise=lambda scores: over_keys(scores.masked_fill(last, 2 * HIDDEN)))
