"""A published case as a problem for the oracle, with the error that rounding may have left in its numbers.

Written from the operators' specification (ai.onnx Attention 23 to 25, ai.onnx.preview FlexAttention 1). A `Reading`
says how that is understood; the other readings are known differences of releases, and name what a disagreement comes from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy
import torch
from torch import Tensor

from attention_conformance.oracle import bounds
from attention_conformance.oracle.definition import Problem, Truth, raw_scores, solve
from attention_conformance.oracle.expectations import Near

from .published import Published

DTYPES = {"float64": "fp64", "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


class DoesNotMap(Exception):
    """A case that asks for something that is no attention as the oracle knows it."""


@dataclass(frozen=True)
class Reading:
    """How the specification is read. The defaults are what it says since release 1.23."""

    groups: str = "consecutive"
    """`consecutive`: neighbouring query heads share a key head; `tiled`: every n-th does."""

    flat: str = "transposed"
    """`transposed`: an input (B, L, H * D) holds the heads of a position side by side; `reshaped`: it is read as
    (B, H, L, D) in memory."""

    softcap: str = "before mask"
    """Whether the soft cap comes `before mask` and bias, or `after mask`."""

    modes: str = "softcap first"
    """What modes 1 and 2 of the score output hold: after soft cap, after bias (`softcap first`), or exchanged."""


STANDARD = Reading()


@dataclass(frozen=True)
class Compared:
    """One published array and what the oracle says about it."""

    what: str
    dtype: str
    actual: Tensor
    near: Near


@dataclass(frozen=True)
class _Shared:
    """A case in the oracle's terms: 4-axis tensors, and what is needed to read the score output."""

    problem: Problem
    truth: Truth
    unit: bounds.Units
    dtype: str


def compare(case: Published, reading: Reading = STANDARD) -> Iterator[Compared]:
    """Yield every output of a case beside the oracle's. Raises DoesNotMap."""
    modifier = next((name for name in ("score_mod", "prob_mod") if name in case.attributes), None)
    if modifier is not None:
        raise DoesNotMap(f"`{modifier}` changes what is between scores and output by a graph of its own")
    query, key, value = (_heads(case, name, reading) for name in ("Q", "K", "V"))
    past = case.inputs["past_key"].shape[2] if "past_key" in case.inputs else 0
    if past:
        key = torch.cat([_double(case.inputs["past_key"]), key], 2)
        value = torch.cat([_double(case.inputs["past_value"]), value], 2)
    dtype = DTYPES[str(case.inputs["Q"].dtype)]
    shared = _shared(case, reading, (query, key, value), past, dtype)
    for name, array in case.outputs.items():
        near = _expected(name, case, reading, shared, (key, value))
        yield Compared(name, DTYPES[str(array.dtype)], _output(name, case, array, reading), near)


def _double(array: Any) -> Tensor:
    return torch.from_numpy(numpy.asarray(array).astype(numpy.float64))


def _heads(case: Published, name: str, reading: Reading) -> Tensor:
    """Return an input as (B, H, L, D)."""
    tensor = _double(case.inputs[name])
    if tensor.dim() == 4:
        return tensor
    heads = case.attributes["q_num_heads" if name == "Q" else "kv_num_heads"]
    batch, length, _ = tensor.shape
    if reading.flat == "reshaped":
        return tensor.reshape(batch, heads, length, -1)
    return tensor.unflatten(-1, (heads, -1)).transpose(1, 2)


def _output(name: str, case: Published, array: Any, reading: Reading) -> Tensor:
    """Return an output with the axes of the oracle's: the main one of a case of three axes is taken apart."""
    tensor = _double(array)
    if name != "Y" or tensor.dim() == 4:
        return tensor
    heads = case.attributes["q_num_heads"]
    return tensor.unflatten(-1, (heads, -1)).transpose(1, 2)


def _shared(
    case: Published, reading: Reading, tensors: tuple[Tensor, Tensor, Tensor], past: int, dtype: str
) -> _Shared:
    query, key, value = tensors
    repeats = query.shape[1] // key.shape[1]
    key, value = (_repeated(tensor, repeats, reading) for tensor in (key, value))
    allowed = _positions(case, query.shape[2], key.shape[2], past)
    allowed, bias = _masked(case, allowed, key.shape[2])
    scale = case.attributes.get("scale", 1 / math.sqrt(query.shape[-1]))
    softcap = case.attributes.get("softcap") or None
    problem = Problem(query, key, value, scale, allowed, bias, softcap, empty_row="zeros")
    if reading.softcap == "after mask" and softcap is not None:
        problem = _capped_late(problem)
    return _Shared(problem, solve(problem), bounds.units(dtype), dtype)


def _repeated(tensor: Tensor, repeats: int, reading: Reading) -> Tensor:
    if reading.groups == "tiled":
        return tensor.repeat(1, repeats, 1, 1)
    return tensor.repeat_interleave(repeats, 1)


def _positions(case: Published, queries: int, keys: int, past: int) -> Tensor:
    """Return which keys the positions allow, (B or 1, 1, L, S): lengths, causal and windows."""
    lengths = _double(case.inputs["nonpad_kv_seqlen"]).long() if "nonpad_kv_seqlen" in case.inputs else None
    offset = torch.tensor([past]) if lengths is None else lengths - queries
    place = torch.arange(queries).view(1, 1, -1, 1) + offset.view(-1, 1, 1, 1)
    key = torch.arange(keys).view(1, 1, 1, -1)
    allowed = torch.ones(torch.broadcast_shapes(place.shape, key.shape), dtype=torch.bool)
    if lengths is not None:
        allowed = allowed & (key < lengths.view(-1, 1, 1, 1))
    if case.attributes.get("is_causal"):
        allowed = allowed & (key <= place)
    left, right = (case.attributes.get(f"{side}_window_size", -1) for side in ("left", "right"))
    if left >= 0:
        allowed = allowed & (key >= place - left)
    return allowed & (key <= place + right) if right >= 0 else allowed


def _masked(case: Published, allowed: Tensor, keys: int) -> tuple[Tensor, Tensor | None]:
    """Return what positions and mask allow together, and the finite part of a mask that is added."""
    if "attn_mask" not in case.inputs:
        return allowed, None
    mask = case.inputs["attn_mask"]
    missing = keys - mask.shape[-1]  # a mask that ends early hides the rest
    if mask.dtype == numpy.bool_:
        seen = torch.from_numpy(mask.copy())
        return allowed & torch.nn.functional.pad(seen, (0, missing), value=False), None
    added = torch.nn.functional.pad(_double(mask), (0, missing), value=-math.inf)
    return allowed & (added != -math.inf), torch.where(added == -math.inf, 0.0, added)


def _capped_late(problem: Problem) -> Problem:
    """Return the problem whose scores are what a soft cap leaves of score + bias, hidden keys capped like the rest."""
    raw = raw_scores(problem)
    cap = float(problem.softcap or 0.0)
    biased = raw if problem.bias is None else raw + problem.bias
    if problem.allowed is not None:
        biased = torch.where(problem.allowed, biased, -math.inf)
    bias = cap * torch.tanh(biased / cap) - raw
    return Problem(problem.query, problem.key, problem.value, problem.scale, None, bias, None, problem.empty_row)


# What is expected of each output


def _expected(name: str, case: Published, reading: Reading, shared: _Shared, cache: tuple[Tensor, Tensor]) -> Near:
    if name in ("present_key", "present_value"):
        tensor = cache[name == "present_value"]
        return Near(tensor, torch.zeros_like(tensor))
    allowed = bounds.forward(shared.problem, shared.truth, shared.unit)
    if name == "Y":
        return Near(shared.truth.output, allowed.output)
    mode = case.attributes.get("qk_matmul_output_mode", 0)
    if mode == 3:
        return Near(shared.truth.weights, allowed.weights)
    if reading.modes == "exchanged":
        mode = {1: 2, 2: 1}.get(mode, mode)
    return _scores(mode, shared)


def _scores(mode: int, shared: _Shared) -> Near:
    """Return the scores of mode 0 (raw), 1 (after soft cap) or 2 (after bias and mask), and how they may be rounded."""
    problem, unit = shared.problem, shared.unit
    scores = raw_scores(problem)
    products = (problem.query.abs() @ problem.key.abs().mT) * abs(problem.scale)
    error = (2 * unit.inputs + bounds.rounds(problem.query.shape[-1] + 1, unit.sums)) * products
    error = error + 2 * unit.scores * scores.abs() + unit.smallest
    if mode >= 1 and problem.softcap is not None:
        error = error + 4 * unit.scores * scores.abs().clamp(max=problem.softcap)
        scores = problem.softcap * torch.tanh(scores / problem.softcap)
    if mode == 2:
        if problem.bias is not None:
            scores = scores + problem.bias
            error = error + unit.scores * (scores.abs() + problem.bias.abs())
        scores = torch.where(shared.truth.allowed, scores, -math.inf)
    return Near(scores, unit.slack * error)
