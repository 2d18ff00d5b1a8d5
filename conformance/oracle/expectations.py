"""What a sound implementation returns for given inputs, and how far it may be from that."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from ..cases.case import Case
from ..cases.inputs import ROLES, Drawn, Inputs, digest_of, make
from ..cases.values import AS_THEY_ARE, EXACT_SCORES
from . import bounds
from . import definition as oracle


@dataclass(frozen=True)
class Structure:
    """How a module holds its projections: `shared` ones are head-wide and serve every head, `biases` names the roles
    that have a bias, `kv_heads` is the number of key and value heads where a run of query heads shares one (None: as
    many as heads), and without `output` the merged heads are returned as they are."""

    shared: bool = False
    biases: frozenset[str] = frozenset(ROLES)
    kv_heads: int | None = None
    output: bool = True


@dataclass(frozen=True)
class Setting:
    """The conventions under which an expectation holds; what is not here does not change it."""

    module: bool = False
    scale: str | float = "1/sqrt(D)"
    empty_row: str = "uniform"
    no_keys: str = "zeros"
    causal: str | None = None
    precision: str = "eager"
    structure: Structure = Structure()


@dataclass(frozen=True)
class Near:
    """A value and the largest allowed distance from it, both float64 and of one shape."""

    value: Tensor
    allowed: Tensor

    @cached_property
    def is_finite(self) -> bool:
        """Whether no element of the value is NaN or infinite."""
        # A sum is finite only where everything in it is, and takes a tenth of the steps.
        return math.isfinite(float(self.value.sum())) or bool(torch.isfinite(self.value).all())


@dataclass(frozen=True)
class Projection:
    """One linear map in float64: weight (M, M), bias (M) or None."""

    weight: Tensor
    bias: Tensor | None


@dataclass(frozen=True, eq=False)
class Expectation:
    """The expected results for `inputs` under `setting`, each with its allowance, made when first asked for.

    `roundoff` are the unit roundoffs to assume, by default those of the dtype under the declared precision.
    """

    inputs: Inputs
    setting: Setting
    roundoff: bounds.Units | None = None

    @cached_property
    def unit(self) -> bounds.Units:
        """The unit roundoffs of each stage."""
        return self.roundoff or bounds.units(self.inputs.dtype, self.setting.precision)

    @cached_property
    def projections(self) -> Mapping[str, Projection]:
        """The module's four linear maps; empty for a kernel."""
        drawn = self.inputs.parameters
        return {} if drawn is None else effective(drawn, self.setting.structure, self.inputs.case.heads)

    @cached_property
    def problem(self) -> oracle.Problem:
        """The attention to be solved, after projections and split into heads."""
        inputs, case = self.inputs, self.inputs.case
        query, key, value = (tensor for tensor, _ in self._seen)
        allowed = allowed_of(inputs, self.setting)
        bias = None if inputs.bias is None else inputs.bias.double()
        if inputs.finite is not None:
            bias = inputs.finite.double() if bias is None else bias + inputs.finite.double()
        if not self.setting.module and query.dim() < 4:
            allowed, bias = _trim(allowed, query), _trim(bias, query)
        return oracle.Problem(
            query, key, value, scale_of(self.setting.scale, case), allowed, bias, case.softcap,
            self.setting.empty_row, self.setting.no_keys,
        )  # fmt: skip

    @cached_property
    def _seen(self) -> tuple[tuple[Tensor, Tensor | None], ...]:
        """Query, key and value as the heads see them, each with the error it carries by then."""
        return tuple(self._heads(name) for name in ("query", "key", "value"))

    def _heads(self, name: str) -> tuple[Tensor, Tensor | None]:
        tensor = getattr(self.inputs, name).double()
        case = self.inputs.case
        if not self.setting.module:
            if name != "query" and case.kv_heads is not None:
                tensor = tensor.repeat_interleave(case.heads // case.kv_heads, -3)
            return tensor, None
        projected, error = self._projected(name, tensor, torch.zeros_like(tensor))
        return split_heads(projected, case.heads), split_heads(error, case.heads)

    def _projected(self, role: str, tensor: Tensor, error: Tensor) -> tuple[Tensor, Tensor]:
        projection = self.projections[role]
        result = tensor @ projection.weight.T
        result = result if projection.bias is None else result + projection.bias
        if self.inputs.case.values in AS_THEY_ARE:
            return result, error
        return result, bounds.linear(tensor, error, projection.weight, projection.bias, self.inputs.dtype, result)

    @cached_property
    def carried(self) -> bounds.InputErrors | None:
        """Errors of the projected query, key and value; None for a kernel."""
        if not self.setting.module:
            return None
        query, key, value = (error for _, error in self._seen)
        if query is None or key is None or value is None:
            return None
        return bounds.InputErrors(query, key, value)

    @cached_property
    def truth(self) -> oracle.Truth:
        """The solution per head."""
        return oracle.solve(self.problem)

    @property
    def _has_exact_scores(self) -> bool:
        scale = abs(self.problem.scale)
        # Sound code may also give query and key the root of the scale each: that has to be a power of two as well.
        return self.inputs.case.values in EXACT_SCORES and (scale == 0 or math.log2(scale) % 2 == 0)

    @cached_property
    def forward(self) -> bounds.Allowed:
        """The allowances of the forward pass."""
        return self._allowance(self._has_exact_scores)

    @cached_property
    def for_gradients(self) -> bounds.Allowed:
        """The allowances of the forward pass on which those of the gradients build: nothing is taken for exact."""
        return self._allowance(False) if self._has_exact_scores else self.forward

    def _allowance(self, exact_scores: bool) -> bounds.Allowed:
        return bounds.forward(self.problem, self.truth, self.unit, carried=self.carried, exact_scores=exact_scores)

    @cached_property
    def output(self) -> Near:
        """Output: kernels (..., L, E), modules (B, L, M)."""
        if not self.setting.module:
            return Near(self.truth.output, self.forward.output)
        merged, error = merge_heads(self.truth.output), merge_heads(self.forward.output) / self.unit.slack
        if not self.setting.structure.output:
            return Near(merged, self.unit.slack * error)
        result, allowed = self._projected("output", merged, error)
        return Near(result, self.unit.slack * allowed)

    @cached_property
    def weights(self) -> Near:
        """Attention weights (..., L, S), rounded to the working dtype as they are returned."""
        return Near(self.truth.weights, self.forward.weights + self._returned(self.truth.weights))

    def _returned(self, value: Tensor) -> Tensor:
        rounding: Tensor = 2 * self.unit.slack * self.unit.output * value.abs()
        return rounding

    @cached_property
    def averaged_weights(self) -> Near:
        """Weights averaged over heads (B, L, S)."""
        mean = self.truth.weights.mean(-3)
        return Near(mean, self.weights.allowed.mean(-3) + self._returned(mean) + self.unit.smallest)

    @cached_property
    def logsumexp(self) -> Near:
        """Natural logsumexp of the scores (..., L)."""
        return Near(self.truth.logsumexp.squeeze(-1), self.forward.logsumexp.squeeze(-1))

    @cached_property
    def unspecified_rows(self) -> Tensor | None:
        """Which rows of the output (..., L, 1) no convention fixes; None if all are fixed."""
        if self.setting.empty_row != "unspecified" or not bool(self.truth.empty.any()):
            return None
        return self.empty_rows

    @cached_property
    def empty_rows(self) -> Tensor:
        """Which rows of the output (..., L, 1) have a head without a key."""
        return self.truth.empty.any(1) if self.setting.module else self.truth.empty


@lru_cache(maxsize=256)
def effective(drawn: Drawn, structure: Structure, heads: int) -> Mapping[str, Projection]:
    """Return the four linear maps that a module of this structure computes with the drawn parameters, one for all cases."""
    maps = {}
    for role in ROLES:
        weight, bias = drawn.full[role].double(), drawn.bias[role].double()
        if role == "output" and not structure.output:
            weight = torch.eye(len(weight), dtype=torch.float64)
        elif structure.shared and role != "output":
            weight = torch.kron(torch.eye(heads, dtype=torch.float64), drawn.head[role].double())
        elif role in ("key", "value"):
            weight, bias = repeated(weight, structure, heads), repeated(bias, structure, heads)
        maps[role] = Projection(weight, bias if role in structure.biases else None)
    return maps


def repeated(rows: Tensor, structure: Structure, heads: int) -> Tensor:
    """Return what every head sees of the drawn rows of a key or value projection: those of its group."""
    if structure.kv_heads is None:
        return rows
    grouped: Tensor = rows.unflatten(0, (heads, -1))[: structure.kv_heads]
    return grouped.repeat_interleave(heads // structure.kv_heads, 0).flatten(0, 1)


def summed_over_groups(rows: Tensor, role: str, structure: Structure, heads: int) -> Tensor:
    """Return the gradient of the drawn rows of a projection, from that of what every head sees of them."""
    if structure.kv_heads is None or role not in ("key", "value"):
        return rows
    groups: Tensor = rows.unflatten(0, (structure.kv_heads, heads // structure.kv_heads, -1))
    return groups.sum(1).flatten(0, 1)


def split_heads(tensor: Tensor, heads: int) -> Tensor:
    """(B, L, H * D) to (B, H, L, D)."""
    split: Tensor = tensor.unflatten(-1, (heads, -1))
    return split.transpose(1, 2)


def merge_heads(tensor: Tensor) -> Tensor:
    """(B, H, L, D) to (B, L, H * D)."""
    return tensor.transpose(1, 2).flatten(2)


def scale_of(scale: str | float, case: Case) -> float:
    """Return the factor on the scores; an option of the case wins over the declared default."""
    if case.scale is not None:
        return case.scale
    if isinstance(scale, str):
        return float({"1/sqrt(D)": case.width, "1/sqrt(d_model)": case.heads * case.width}[scale] ** -0.5)
    return scale


def allowed_of(inputs: Inputs, setting: Setting) -> Tensor | None:
    """Combine mask, causal triangle and window into one boolean tensor; None if every key is allowed."""
    parts = [] if inputs.allowed is None else [inputs.allowed]
    sizes, case = inputs.sizes, inputs.case
    alignment = setting.causal or "top-left"
    if is_causal(case, setting.causal):
        parts.append(triangle(sizes["L"], sizes["S"], alignment))
    if case.window is not None:
        parts.append(band(sizes["L"], sizes["S"], case.window, alignment))
    combined = None
    for part in parts:
        combined = part if combined is None else combined & part
    return combined


def is_causal(case: Case, causal: str | None) -> bool:
    """Say whether the call is causal, by its option or because it always is."""
    return case.causal or (causal or "").startswith("always")


def triangle(queries: int, keys: int, alignment: str) -> Tensor:
    """Return which keys a causal call allows, (L, S); `alignment` ends with `top-left` or `bottom-right`."""
    return _distance(queries, keys, alignment) >= 0


def band(queries: int, keys: int, window: int, alignment: str) -> Tensor:
    """Return which keys lie less than `window` away, (L, S)."""
    return _distance(queries, keys, alignment).abs() < window


def _distance(queries: int, keys: int, alignment: str) -> Tensor:
    offset = keys - queries if alignment.endswith("bottom-right") else 0
    return torch.arange(queries)[:, None] + offset - torch.arange(keys)


def _trim(tensor: Tensor | None, query: Tensor) -> Tensor | None:
    """Drop leading axes of size 1 that the query does not have."""
    while tensor is not None and tensor.dim() > max(query.dim(), 2) and tensor.shape[0] == 1:
        tensor = tensor[0]
    return tensor


@lru_cache(maxsize=4096)
def expect(case: Case, setting: Setting, dtype: str) -> Expectation:
    """Return the expectation of a case, shared between implementations of the same conventions."""
    return Expectation(make(case, setting.module, dtype), setting)


@dataclass(frozen=True)
class _Contents:
    """Inputs that are equal where every number in them is; where these lie in memory does not matter."""

    case: Case
    dtype: str
    digest: bytes
    inputs: Inputs = field(compare=False)


def expect_of(inputs: Inputs, setting: Setting) -> Expectation:
    """Return the expectation of inputs that a rule has changed, shared by all that hold the same numbers."""
    return _expect_contents(_Contents(inputs.case, inputs.dtype, digest_of(inputs), inputs), setting)


@lru_cache(maxsize=1024)
def _expect_contents(contents: _Contents, setting: Setting) -> Expectation:
    return Expectation(contents.inputs, setting)
