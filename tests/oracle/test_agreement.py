"""Three ways to the same numbers: the oracle, loops over plain numbers, and autograd of the document's code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor

from attention_conformance.cases.case import Case, Mask
from attention_conformance.cases.inputs import ROLES, make
from attention_conformance.cases.values import FAMILIES
from attention_conformance.dtypes import DTYPES
from attention_conformance.oracle import definition as oracle
from attention_conformance.oracle.expectations import Setting, effective, expect, merge_heads, split_heads
from attention_conformance.oracle.gradients import expected_gradients
from attention_conformance.reference.attention import attention

from . import loops

_SIZES = {"batch": 2, "heads": 2, "queries": 5, "keys": 7, "width": 4, "value_width": 3}


def _case(name: str, **changes: object) -> Case:
    return Case(f"agreement, {name}", **{**_SIZES, **changes})  # type: ignore[arg-type]


_EMPTY = Mask("empty row", "BHLS")
KERNELS: tuple[tuple[Case, Setting], ...] = (
    (_case("plain"), Setting()),
    (_case("masked", mask=Mask("random", "BHLS")), Setting()),
    (_case("padding", mask=Mask("padding", "B11S")), Setting()),
    (_case("empty rows, uniform", mask=_EMPTY), Setting()),
    (_case("empty rows, zeros", mask=_EMPTY), Setting(empty_row="zeros")),
    (_case("finite values in the mask", mask=Mask("random", "BHLS", ("additive",), finite=True)), Setting()),
    (_case("causal top-left", causal=True), Setting(causal="top-left")),
    (_case("causal bottom-right", causal=True), Setting(causal="bottom-right")),
    (_case("always causal, L > S", queries=7, keys=4), Setting(causal="always bottom-right")),
    (_case("window", window=2), Setting()),
    (_case("window and causal", window=3, causal=True), Setting(causal="bottom-right")),
    (_case("scale passed", scale=-0.75), Setting()),
    (_case("scale of the model"), Setting(scale="1/sqrt(d_model)")),
    (_case("scale one"), Setting(scale=1.0)),
    (_case("soft cap", softcap=0.8), Setting()),
    (_case("bias per head", bias="1HLS"), Setting()),
    (_case("bias for all", bias="LS", softcap=1.5, mask=Mask("random", "LS")), Setting()),
    (_case("grouped heads", heads=4, kv_heads=2), Setting()),
    (_case("broadcast key", broadcast=("key",)), Setting()),
    (_case("one key", keys=1), Setting()),
    (_case("one of everything", batch=1, heads=1, queries=1, keys=1, width=1, value_width=1), Setting()),
)
MODULES: tuple[tuple[Case, Setting], ...] = (
    (_case("module", value_width=4), Setting(module=True)),
    (_case("module, empty rows", value_width=4, mask=Mask("empty row", "BHLS")), Setting(module=True)),
)


def _heads(case: Case, setting: Setting) -> Iterator[tuple[tuple[int, int], loops.Head]]:
    """Yield each head of a case for the loops, made of the tensors that are sent; masks and scale from scratch."""
    inputs = make(case, False, "fp64")
    groups = case.heads // (case.kv_heads or case.heads)
    for b in range(case.batch):
        for h in range(case.heads):
            key, value = (_pick(tensor, b, h // groups) for tensor in (inputs.key, inputs.value))
            bias = _grid(case, b, h, inputs.bias, inputs.finite)
            allowed = [[_sees(case, setting, i, j) for j in range(case.keys)] for i in range(case.queries)]
            if inputs.allowed is not None:
                mask = inputs.allowed.expand(case.batch, case.heads, case.queries, case.keys)[b, h].tolist()
                allowed = [[a and m for a, m in zip(*rows, strict=True)] for rows in zip(allowed, mask, strict=True)]
            query = _pick(inputs.query, b, h)
            yield (
                (b, h),
                loops.Head(query, key, value, _scale(case, setting), allowed, bias, case.softcap, setting.empty_row),
            )


def _pick(tensor: Tensor, b: int, h: int) -> list[list[float]]:
    found: list[list[float]] = tensor[min(b, tensor.size(0) - 1), min(h, tensor.size(1) - 1)].tolist()
    return found


def _grid(case: Case, b: int, h: int, *parts: Tensor | None) -> list[list[float]] | None:
    present = [part for part in parts if part is not None]
    if not present:
        return None
    shape = (case.batch, case.heads, case.queries, case.keys)
    found: list[list[float]] = sum((part.expand(shape) for part in present), torch.zeros(()).double())[b, h].tolist()
    return found


def _scale(case: Case, setting: Setting) -> float:
    if case.scale is not None:
        return case.scale
    if setting.scale == "1/sqrt(D)":
        return 1 / math.sqrt(case.width)
    return 1 / math.sqrt(case.heads * case.width) if isinstance(setting.scale, str) else setting.scale


def _sees(case: Case, setting: Setting, i: int, j: int) -> bool:
    corner = setting.causal or "top-left"
    position = i + case.keys - case.queries if "bottom-right" in corner else i
    causal = case.causal or "always" in corner
    return (not causal or j <= position) and (case.window is None or abs(position - j) < case.window)


def _close(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize(("case", "setting"), KERNELS, ids=lambda value: getattr(value, "name", None))
def test_output_weights_and_logsumexp_are_those_of_the_loops(case: Case, setting: Setting) -> None:
    expectation = expect(case, setting, "fp64")
    for place, head in _heads(case, setting):
        rows = range(case.queries)
        _close(expectation.output.value[place], _tensor([loops.output(head, i) for i in rows]))
        _close(expectation.weights.value[place], _tensor([loops.weights(head, i) for i in rows]))
        _close(expectation.logsumexp.value[place], _tensor([loops.logsumexp(head, i) for i in rows]))


def _tensor(numbers: object) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize(("case", "setting"), KERNELS, ids=lambda value: getattr(value, "name", None))
def test_gradients_are_those_of_the_loops(case: Case, setting: Setting) -> None:
    inputs, expected = make(case, False, "fp64"), expected_gradients(expect(case, setting, "fp64"))
    sums = {name: torch.zeros_like(getattr(inputs, name)) for name in ("query", "key", "value")}
    groups = case.heads // (case.kv_heads or case.heads)
    scores = torch.zeros(case.batch, case.heads, case.queries, case.keys, dtype=torch.float64)
    for (b, h), head in _heads(case, setting):
        found = loops.gradients(head, inputs.upstream[b, h].tolist())
        scores[b, h] = _tensor(found.scores)
        for name, total in sums.items():
            own = h if name == "query" else h // groups
            place = (min(b, total.size(0) - 1), min(own, total.size(1) - 1))
            total[place] += _tensor(getattr(found, name))
    for name, total in sums.items():
        _close(expected[name].value, total)
    if inputs.bias is not None:
        _close(expected["bias"].value, oracle.fold(scores, inputs.bias.shape))


@pytest.mark.parametrize("through", ["output", "weights"])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_values_agrees_with_autograd_of_the_document(family: str, through: str) -> None:
    case = _case(f"values {family}", width=8, value_width=8, queries=8, keys=8, values=family)
    inputs, expected = make(case, False, "fp64"), expected_gradients(expect(case, Setting(), "fp64"), through)
    sent = [tensor.clone().requires_grad_() for tensor in (inputs.query, inputs.key, inputs.value)]
    results = dict(zip(("output", "weights"), attention(*sent), strict=True))
    upstream = inputs.upstream if through == "output" else inputs.upstream_weights.expand_as(results["weights"])
    found = torch.autograd.grad(results[through], sent, upstream, allow_unused=True)
    for name, gradient, tensor in zip(("query", "key", "value"), found, sent, strict=True):
        gradient = torch.zeros_like(tensor) if gradient is None else gradient
        near = expected[name]
        assert bool(((gradient - near.value).abs() <= near.allowed).all()), name


@pytest.mark.parametrize(("case", "setting"), MODULES, ids=lambda value: getattr(value, "name", None))
def test_a_module_and_its_parameters_agree_with_autograd(case: Case, setting: Setting) -> None:
    inputs = make(case, True, "fp64")
    assert inputs.parameters is not None
    maps = effective(inputs.parameters, setting.structure, case.heads)
    leaves = {f"{role}.weight": maps[role].weight.clone().requires_grad_() for role in ROLES}
    leaves |= {f"{role}.bias": (maps[role].bias + 0.0).requires_grad_() for role in ROLES}  # type: ignore[operator]
    leaves |= {name: getattr(inputs, name).clone().requires_grad_() for name in ("query", "key", "value")}

    def projected(role: str, tensor: Tensor) -> Tensor:
        return tensor @ leaves[f"{role}.weight"].mT + leaves[f"{role}.bias"]

    parts = (split_heads(projected(name, leaves[name]), case.heads) for name in ("query", "key", "value"))
    result = projected("output", merge_heads(attention(*parts, mask=inputs.allowed)[0]))
    _close(expect(case, setting, "fp64").output.value, result.detach())
    expected = expected_gradients(expect(case, setting, "fp64"))
    found = torch.autograd.grad(result, list(leaves.values()), inputs.upstream)
    for name, gradient in zip(leaves, found, strict=True):
        torch.testing.assert_close(expected[name].value, gradient, rtol=1e-11, atol=1e-12, msg=name)


def _derivative(function: Callable[[Tensor], Tensor], tensor: Tensor, direction: Tensor) -> float:
    step = 1e-5
    return float((function(tensor + step * direction) - function(tensor - step * direction)) / (2 * step))


def test_the_gradient_of_the_logsumexp_is_its_difference_quotient() -> None:
    case, setting = _case("logsumexp", softcap=1.2, mask=Mask("random", "BHLS")), Setting()
    expectation, generator = expect(case, setting, "fp64"), torch.Generator().manual_seed(1)
    problem = expectation.problem
    upstream = torch.randn(2, 2, 5, 1, generator=generator, dtype=torch.float64)
    found = oracle.differentiate_logsumexp(problem, expectation.truth, upstream)

    def loss(query: Tensor) -> Tensor:
        changed = oracle.Problem(
            query, problem.key, problem.value, problem.scale, problem.allowed, softcap=problem.softcap
        )
        return (oracle.solve(changed).logsumexp * upstream).sum()

    direction = torch.randn(problem.query.shape, generator=generator, dtype=torch.float64)
    assert _derivative(loss, problem.query, direction) == pytest.approx(
        float((found.query * direction).sum()), rel=1e-8
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_expectation_is_of_the_very_numbers_that_are_sent(dtype: str) -> None:
    case = _case("rounded inputs")
    inputs, expectation = make(case, False, dtype), expect(case, Setting(), dtype)
    for name in ("query", "key", "value"):
        assert torch.equal(getattr(expectation.problem, name), getattr(inputs, name).double())
