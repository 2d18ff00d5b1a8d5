"""One vector proven: the listing, the float64 oracle and the fifty-digit oracle agree, or nothing is written.

What is stored is the fifty-digit result rounded once to float64, so that it depends on no library and no machine.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from attention_conformance.cases.case import Case
from attention_conformance.cases.inputs import ROLES, Inputs
from attention_conformance.dtypes import UNIT_ROUNDOFF, torch_dtype
from attention_conformance.oracle.definition import fold
from attention_conformance.oracle.expectations import Expectation, Near
from attention_conformance.oracle.gradients import expected_gradients
from attention_conformance.references import REFERENCES
from tests.goldens import exact_arrays
from tests.goldens.recipe import MUST, Odd, Recipe, numbers, ordinary, written_mask

PROFILES: Mapping[str, tuple[str, ...]] = {
    "fp64": ("eager", "softmax32"),
    "fp32": ("eager", "tf32"),
    "bf16": ("eager", "fused", "upcast"),
    "fp16": ("eager", "fused", "upcast"),
}
"""The precision profiles that differ from `eager` in each dtype; all others are as `eager` there."""


def profiles_of(recipe: Recipe, dtype: str) -> tuple[str, ...]:
    """Return the profiles whose allowances a vector states; what only the documents answer is `eager`, as they are."""
    return PROFILES[dtype] if recipe.agreement == MUST else ("eager",)


class NotProven(AssertionError):
    """The listing, the oracle and the fifty digits do not agree on a vector; nothing is written then."""


@dataclass(frozen=True)
class Sent:
    """The call itself: tensors in the shapes in which the reference gets them, the mask in the form that is stored."""

    tensors: Mapping[str, Tensor]
    form: str | None
    mask: Tensor | None
    upstream: Tensor
    parameters: Mapping[str, Tensor]


@dataclass(frozen=True)
class Result:
    """One expected result: the values in row-major order and, per dtype and profile, the allowance of each."""

    shape: tuple[int, ...]
    values: tuple[float, ...]
    allowed: Mapping[str, Mapping[str, tuple[float, ...]]]


@dataclass(frozen=True)
class Proven:
    """A vector as it is written."""

    recipe: Recipe
    sent: Sent
    results: Mapping[str, Result]


@lru_cache(maxsize=256)
def prove(recipe: Recipe) -> Proven:
    """Return the vector of a recipe. Raises NotProven where the ways to it do not agree."""
    inputs = ordinary(recipe)
    sent, plain = _calls(recipe, inputs)
    seen = listing(recipe, sent, recipe.dtypes[0])
    if recipe.odd is not None and recipe.odd.all_nan:
        return Proven(recipe, sent, _all_nan(recipe, seen))
    found: dict[str, Result] = {}
    exact = exact_arrays.results(Expectation(plain, recipe.setting()))
    near = {dtype: _allowances(recipe, plain, dtype) for dtype in recipe.dtypes}
    for name, tensor in seen.items():
        found[name] = _one(recipe, name, exact[name], near, tensor)
    return Proven(recipe, sent, found)


def _one(
    recipe: Recipe,
    name: str,
    exact: exact_arrays.Array,
    near: Mapping[str, Mapping[str, Mapping[str, Near]]],
    seen: Tensor,
) -> Result:
    shape = tuple(seen.shape)
    value = torch.tensor(exact_arrays.floats(exact), dtype=torch.float64).reshape(exact.shape)
    value = back(recipe, value, shape)
    if recipe.odd is not None and recipe.odd.listing_nan:
        value = torch.where(seen.isnan(), float("nan"), value)
    allowed: dict[str, dict[str, tuple[float, ...]]] = {}
    for dtype, profiles in near.items():
        allowed[dtype] = {}
        for profile, table in profiles.items():
            own = _fitted(recipe, table[name], shape, dtype)
            allowance = torch.where(value.isnan(), 0.0, own.allowed)
            allowed[dtype][profile] = tuple(allowance.reshape(-1).tolist())
            if dtype == recipe.dtypes[0] and profile == "eager":
                _agree(
                    recipe,
                    f"{name} of the float64 oracle",
                    torch.where(value.isnan(), value, own.value),
                    value,
                    allowance,
                )
                _agree(recipe, f"{name} of the listing", seen, value, allowance)
    return Result(shape, tuple((value + 0.0).reshape(-1).tolist()), allowed)


def _agree(recipe: Recipe, what: str, found: Tensor, value: Tensor, allowed: Tensor) -> None:
    if not torch.equal(found.isnan(), value.isnan()):
        raise NotProven(f"{recipe.id}: {what} is NaN elsewhere than the fifty digits say; look at the recipe")
    beyond = (found - value).abs() > allowed
    if bool(beyond.any()):
        worst = float((found - value).abs()[beyond].max())
        raise NotProven(f"{recipe.id}: {what} is {worst:.3g} away from fifty digits, more than the bound allows")


def _allowances(recipe: Recipe, plain: Inputs, dtype: str) -> dict[str, dict[str, Near]]:
    found: dict[str, dict[str, Near]] = {}
    for profile in profiles_of(recipe, dtype):
        expectation = Expectation(replace(plain, dtype=dtype), replace(recipe.setting(), precision=profile))
        found[profile] = {
            "output": expectation.output,
            "weights": expectation.weights,
            **expected_gradients(expectation),
        }
    return found


def _fitted(recipe: Recipe, near: Near, shape: tuple[int, ...], dtype: str) -> Near:
    value, allowed = back(recipe, near.value, shape), back(recipe, near.allowed, shape)
    if near.value.numel() != value.numel():
        # A sum over axes that the call broadcasts rounds once more.
        allowed = allowed + 2 * UNIT_ROUNDOFF[dtype] * value.abs()
    return Near(value, allowed)


def back(recipe: Recipe, plain: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a result of the ordinary problem in the shape that the call has: reshaped, summed or repeated."""
    if recipe.leftover and plain.dim() == 4 and len(shape) == 3:
        plain = plain.transpose(1, 2).flatten(2)
    if plain.numel() == math.prod(shape):
        return plain.reshape(shape)
    if plain.numel() > math.prod(shape):
        return fold(plain, shape)
    return plain.expand(shape).clone()


def _all_nan(recipe: Recipe, seen: Mapping[str, Tensor]) -> dict[str, Result]:
    """Return what the listing answers where no number is right: NaN in every element."""
    if not all(bool(tensor.isnan().all()) for tensor in seen.values()):
        raise NotProven(f"{recipe.id}: the listing gives numbers where the recipe says NaN throughout")
    found = {}
    for name, tensor in seen.items():
        zeros = (0.0,) * tensor.numel()
        allowed = {dtype: dict.fromkeys(profiles_of(recipe, dtype), zeros) for dtype in recipe.dtypes}
        found[name] = Result(tuple(tensor.shape), (float("nan"),) * tensor.numel(), allowed)
    return found


# The call and the ordinary problem to which it belongs


def _calls(recipe: Recipe, inputs: Inputs) -> tuple[Sent, Inputs]:
    odd = recipe.odd or Odd()
    written = written_mask(recipe, inputs)
    tensors: dict[str, Tensor | None] = {name: getattr(inputs, name) for name in ("query", "key", "value")}
    form, tensors["mask"] = written or (None, None)
    sent = odd.sent(dict(tensors))
    if recipe.odd is not None and sent["mask"] is not None:
        form = odd.form
    plain = inputs if recipe.odd is None else _plain(recipe, inputs, odd.plain(dict(sent)))
    upstream = inputs.upstream
    if recipe.odd is not None:
        upstream = _upstream(recipe, plain)
        spread = torch.zeros(1).double()
        plain = plain.changed(upstream=_to_plain(recipe, upstream, plain), upstream_weights=spread)
    leaves = {name: tensor for name, tensor in sent.items() if name != "mask" and tensor is not None}
    return Sent(leaves, form, sent["mask"], upstream, _parameters(recipe, inputs)), plain


def _plain(recipe: Recipe, inputs: Inputs, tensors: Mapping[str, Tensor | None]) -> Inputs:
    query, key, value = (tensors[name] for name in ("query", "key", "value"))
    assert query is not None
    assert key is not None
    assert value is not None
    sizes: dict[str, int] = {"batch": query.shape[0], "queries": query.shape[-2], "keys": key.shape[-2]}
    if not recipe.setting().module:
        sizes |= {"heads": query.shape[1], "width": query.shape[-1], "value_width": value.shape[-1]}
    case: Case = replace(inputs.case, **sizes)  # type: ignore[arg-type]
    parameters = inputs.parameters if recipe.setting().module else None
    return inputs.changed(
        case=case, query=query, key=key, value=value, allowed=tensors.get("allowed"), finite=None, parameters=parameters
    )


def _upstream(recipe: Recipe, plain: Inputs) -> Tensor:
    """Draw the upstream gradient of an odd call in the shape of what it returns."""
    shape = (*plain.query.shape[:-1], plain.value.shape[-1])
    if recipe.leftover:
        shape = (recipe.batch, recipe.queries, recipe.heads * recipe.width + recipe.leftover)
    return numbers(f"{recipe.id} upstream", shape)


def _to_plain(recipe: Recipe, upstream: Tensor, plain: Inputs) -> Tensor:
    if not recipe.leftover:
        return upstream
    batch, heads, length, width = plain.query.shape
    return upstream.reshape(batch, length, heads, width).transpose(1, 2)


def _parameters(recipe: Recipe, inputs: Inputs) -> dict[str, Tensor]:
    """Return the parameters that the reference has, by role: document 2's projections are as wide as a head."""
    drawn, structure = inputs.parameters, recipe.setting().structure
    if drawn is None:
        return {}
    found = {}
    for role in ROLES:
        own = drawn.head if structure.shared and role != "output" else drawn.full
        found[f"{role}.weight"] = own[role]
        if role in structure.biases:
            found[f"{role}.bias"] = drawn.bias[role]
    if recipe.leftover:
        size = recipe.heads * recipe.width + recipe.leftover
        return {name: torch.eye(size).double() if "weight" in name else torch.zeros(size).double() for name in found}
    return found


# The listing

_NAMES: Mapping[str, Mapping[str, str]] = {
    "MultiHeadAttention": {"query": "W_q", "key": "W_k", "value": "W_v", "output": "W_o"},
    "SelfAttention": {"query": "queries", "key": "keys", "value": "values", "output": "fc_out"},
}


def listing(recipe: Recipe, sent: Sent, dtype: str) -> dict[str, Tensor]:
    """Run the document's code in a dtype and return output, weights and gradients by name, as float64."""
    own = torch_dtype(dtype)
    leaves = {name: tensor.to(own, copy=True).requires_grad_() for name, tensor in sent.tensors.items()}
    wanted: dict[str, Tensor] = dict(leaves)
    reference = REFERENCES[recipe.reference]
    mask = _for_the_listing(sent, own)
    if recipe.is_module:
        model = recipe.heads * recipe.width + recipe.leftover
        module = reference.load()(model, recipe.heads).to(own)
        with torch.no_grad():
            for name, tensor in sent.parameters.items():
                role, kind = name.split(".")
                parameter = module.get_parameter(f"{_NAMES[recipe.reference][role]}.{kind}")
                parameter.copy_(tensor)
                if not recipe.leftover:
                    wanted[name] = parameter
        returned = module(*(leaves[name] for name in reference.arguments), mask)
    elif sent.form == "additive" and sent.mask is not None and bool((sent.mask.nan_to_num(neginf=0.0) != 0).any()):
        returned = reference.load()(*_with_bias_as_features(leaves, sent.mask.to(own)), leaves["value"], mask)
    else:
        returned = reference.load()(leaves["query"], leaves["key"], leaves["value"], mask)
    output, weights = returned if isinstance(returned, tuple) else (returned, None)
    gradients = torch.autograd.grad(output, list(wanted.values()), sent.upstream.to(own))
    found = (
        {"output": output}
        | ({} if weights is None else {"weights": weights})
        | dict(zip(wanted, gradients, strict=True))
    )
    return {name: tensor.detach().double() for name, tensor in found.items()}


def _for_the_listing(sent: Sent, dtype: torch.dtype) -> Tensor | None:
    """Return the mask in a form that the documents read: boolean or number."""
    if sent.mask is None or sent.form in ("bool", "number"):
        return sent.mask
    if sent.form == "additive":
        return sent.mask != float("-inf")
    keys = sent.tensors["key"].shape[-2]
    return torch.arange(keys) < sent.mask[:, None, None, None]


def _with_bias_as_features(leaves: Mapping[str, Tensor], mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return query and key with a feature more per query, through which a finite mask (L, S) adds to the scores.

    The documents' function adds nothing to its scores, but its product does: one-hot rows meet the mask's own rows.
    """
    query, key = leaves["query"], leaves["key"]
    queries, width = query.shape[-2:]
    root = math.sqrt(width + queries)
    extra = torch.eye(queries, dtype=query.dtype).expand(*query.shape[:-1], queries)
    rows = mask.nan_to_num(neginf=0.0).mT.expand(*key.shape[:-1], queries)
    return torch.cat((query * (root / math.sqrt(width)), root * extra), -1), torch.cat((key, rows), -1)
