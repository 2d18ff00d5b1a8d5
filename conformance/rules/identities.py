"""Identities of the gradients: what follows from the definition without computing it."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases.case import MASKED, PLAIN, SMALL_MASKED, SQUARE, Case, Mask, vary
from ..cases.inputs import Inputs
from ..conventions.table import ALL_KINDS, TRIANGLES
from ..oracle.bounds import units
from ..oracle.comparing import Departure, NotApplicable
from ..oracle.expectations import Near
from ..rulebook import rule
from ..trials.trial import INPUT_NAMES, Trial

DIFFERENTIABLE = {"gradient": ("once", "twice")}
SEPARATE = {**DIFFERENTIABLE, "inputs": "cross"}
FORWARD = ("train",)


def _vanishes(trial: Trial, name: str, found: Tensor, why: str, inputs: Inputs | None = None) -> None:
    """Compare a gradient with zero, within the rounding that the exact one leaves."""
    allowed = trial.expected_gradients(inputs)[name].allowed
    trial.near(f"gradient of the {name} {why}", found, Near(torch.zeros_like(allowed), allowed), inputs)


@rule(
    "IDENTITY-001",
    source="Rows of weights sum to one, so a constant value gives one slope to all keys of a row; a lost mean term shows",
    cases=(
        vary(PLAIN, "one value for all keys", values="constant value"),
        vary(MASKED, "one value for all keys, masked", values="constant value"),
        Case("one value for all keys, past a block", batch=1, heads=2, queries=17, keys=33, values="constant value"),
    ),
    modes=FORWARD,
    dtypes="exact",
    needs=SEPARATE,
)
def constant_value_leaves_query_and_key_without_gradient(trial: Trial) -> None:
    """Where all keys have one value, the gradients of query and key are zero within rounding."""
    found = trial.input_gradients(trial.run())
    for name in ("query", "key"):
        _vanishes(trial, name, found[name], "under a constant value")


@rule(
    "IDENTITY-002",
    source="Score gradients of a row sum to zero: equal keys take the query's gradient away, zero queries the keys'",
    cases=(
        Case("all keys equal", values="equal keys"),
        Case("all keys equal, masked", values="equal keys", mask=Mask("random", "LS")),
        Case("all queries zero", values="zero query"),
        Case("all queries zero, masked", values="zero query", mask=Mask("random", "BHLS", ALL_KINDS)),
    ),
    modes=FORWARD,
    dtypes="exact",
    needs=SEPARATE,
)
def equal_keys_and_zero_queries_stop_gradients(trial: Trial) -> None:
    """Equal keys leave the query without a gradient, and zero queries the key, within rounding."""
    found = trial.input_gradients(trial.run())
    if trial.case.values == "equal keys":
        _vanishes(trial, "query", found["query"], "under equal keys")
    else:
        _vanishes(trial, "key", found["key"], "under zero queries")


@rule(
    "IDENTITY-003",
    source="A constant added to all scores of a row changes nothing, so the gradient of a bias sums to zero over the keys",
    cases=(
        Case("bias per score", bias="BHLS"),
        Case("bias per score, masked", bias="BHLS", mask=Mask("random", "LS")),
        Case("bias per score past a block", batch=1, heads=2, queries=17, keys=33, bias="BHLS"),
        Case("bias per score of grouped heads", kv_heads=2, bias="BHLS"),
    ),
    modes=FORWARD,
    dtypes="exact",
    needs={**SEPARATE, "options": "bias"},
)
def bias_gradient_sums_to_zero_over_the_keys(trial: Trial) -> None:
    """The gradient of a bias sums to zero over the keys of a row, and is zero where a key is hidden."""
    found = trial.input_gradients(trial.run())["bias"].detach().double()
    allowed = trial.expected_gradients()["bias"].allowed
    sums = found.sum(-1)
    trial.near("sum of the bias gradient over keys", sums, Near(torch.zeros_like(sums), allowed.sum(-1)))
    seen = trial.expectation().truth.allowed
    hidden = torch.where(seen, 0.0, found)
    trial.near("bias gradient of hidden keys", hidden, Near(torch.zeros_like(hidden), allowed))


@rule(
    "IDENTITY-004",
    source="NaN * 0 in a backward pass; keys that nobody sees, and rows that see nothing, take no part in the output",
    cases=(
        Case("three keys hidden from all", mask=Mask("tail hidden", "LS")),
        Case("padded keys", mask=Mask("padding", "B11S", (*ALL_KINDS, "lengths"))),
        Case("hidden behind a block", batch=1, heads=2, queries=17, keys=36, mask=Mask("tail hidden", "LS")),
        Case("a row that sees nothing", mask=Mask("empty row", "LS", ALL_KINDS)),
        Case("a batch element that sees nothing", mask=Mask("empty row", "B11S", ALL_KINDS)),
    ),
    modes=FORWARD,
    dtypes="exact",
    needs=SEPARATE,
)
def hidden_keys_and_empty_rows_get_no_gradient(trial: Trial) -> None:
    """A key that nobody sees gets no gradient for itself and its value, and where empty rows give zeros neither does their query."""
    if trial.case.may_have_empty_rows and trial.capabilities.empty_row != "zeros":
        raise NotApplicable(f"empty_row={trial.capabilities.empty_row!r}")
    found = trial.input_gradients(trial.run())
    truth = trial.expectation().truth
    unseen = ~truth.allowed.any(-2)
    for name in ("key", "value"):
        _nothing(trial, name, found[name], _everywhere(trial, unseen), "of hidden keys")
    _nothing(trial, "query", found["query"], _everywhere(trial, truth.empty.squeeze(-1)), "of empty rows")


def _everywhere(trial: Trial, places: Tensor) -> Tensor:
    """Reduce marks (..., H, N) of heads to the axes of an input: a module's input is of no use only where all heads mark it."""
    if trial.is_module:
        return places.all(1)
    return places


def _nothing(trial: Trial, name: str, found: Tensor, places: Tensor, which: str) -> None:
    allowed = trial.expected_gradients()[name].allowed
    kept = torch.where(places.unsqueeze(-1), found.detach().double(), 0.0)
    trial.near(f"gradient of the {name} {which}", kept, Near(torch.zeros_like(kept), allowed))


@rule(
    "IDENTITY-005",
    source="A causal backward pass off by one, or without the triangle: rows that lose nothing pull no gradient to later keys",
    cases=(
        Case("later rows without a loss", causal=True, queries=6, keys=6),
        Case("later rows without a loss, L < S", causal=True),
        Case("later rows without a loss, past a block", causal=True, batch=1, heads=2, queries=34, keys=34),
    ),
    modes=FORWARD,
    dtypes="exact",
    needs={**SEPARATE, "causal": TRIANGLES},
)
def rows_without_a_loss_pull_no_gradient_to_later_keys(trial: Trial) -> None:
    """With causal, where the later rows have no loss, their queries and the keys that only they see get no gradient."""
    half = trial.case.queries // 2
    upstream = trial.inputs.upstream.clone()
    upstream[..., half:, :] = 0
    inputs = trial.inputs.changed(upstream=upstream)
    result = trial.run()
    found, expected = trial.input_gradients(result, inputs), trial.expected_gradients(inputs)
    seen = trial.expectation().truth.allowed[..., :half, :].any(-2)
    for name, idle in (("query", torch.arange(trial.case.queries) >= half), ("key", ~seen), ("value", ~seen)):
        marks = _everywhere(trial, idle) if name != "query" else idle
        near = expected[name]
        kept = torch.where(marks.unsqueeze(-1), found[name].detach().double(), 0.0)
        trial.near(f"gradient of the {name} of no use", kept, Near(torch.zeros_like(kept), near.allowed), inputs)
    for name, near in expected.items():
        if name in found:
            trial.near(f"gradient of the {name}", found[name], near, inputs)


@rule(
    "IDENTITY-006",
    source="A backward pass is linear in what reaches it; clipping, saved upstreams and stale buffers are not",
    cases=(PLAIN, SMALL_MASKED),
    modes=FORWARD,
    dtypes="exact",
    needs=DIFFERENTIABLE,
)
def gradients_are_linear_in_the_upstream(trial: Trial) -> None:
    """The gradient for 64 g + h / 4 is 64 times that for g and a quarter of that for h, where g and h fill other rows."""
    result, upstream = trial.run(), trial.inputs.upstream
    even = (torch.arange(upstream.shape[-2]) % 2 == 0).unsqueeze(-1)
    parts = [torch.where(even, upstream, 0.0), torch.where(even, 0.0, upstream)]
    both = torch.where(even, 64 * upstream, upstream / 4)
    sent = [trial.inputs.changed(upstream=part) for part in (*parts, both)]
    first, second, together = (trial.input_gradients(result, inputs) for inputs in sent)
    rounding = 8 * units(trial.dtype).output
    for name, near in trial.expected_sums().items():
        if name in together:
            halves = 64 * first[name].detach().double(), second[name].detach().double() / 4
            allowed = 160 * near.allowed + rounding * (halves[0].abs() + halves[1].abs())
            what = f"gradient of the {name} for 64 g + h / 4"
            trial.near(what, together[name], Near(halves[0] + halves[1], allowed), sent[2])


@rule(
    "IDENTITY-007",
    source="A difference of the output itself in one direction: forward and backward belong to one function",
    cases=(
        PLAIN,
        MASKED,
        Case("difference, causal", causal=True, queries=6, keys=6),
        Case("difference, 4 heads over 2", kv_heads=2),
        Case("difference with a bias", bias="BHLS"),
        Case("difference under cap 1", softcap=1.0),
        Case("difference within a window", window=3, queries=6, keys=6),
    ),
    modes=FORWARD,
    needs={**SEPARATE, "dtypes": "fp64", "precision": ("eager", "fused", "upcast", "tf32")},
    dtypes="once",
)
def gradients_are_slopes_of_the_output(trial: Trial) -> None:
    """The gradient times a direction is the slope of the output in that direction, for each input."""
    inputs, upstream, step = trial.inputs, trial.inputs.upstream, 1e-6
    found = trial.input_gradients(trial.run())
    for position, (name, gradient) in enumerate(found.items()):
        tensor: Tensor = getattr(inputs, name)
        generator = torch.Generator().manual_seed(29 + position)
        direction = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
        ahead, behind = (
            trial.run(inputs.changed(**{name: tensor + sign * step * direction})).output.detach() for sign in (1, -1)
        )
        slope = float(((ahead - behind).double() * upstream).sum() / (2 * step))
        along = float((gradient.detach().double() * direction).sum())
        if not abs(along - slope) <= 1e-6 * (1 + abs(slope)):
            text = f"<direction, gradient of the {name}> is {along:.9g}, the slope of the output {slope:.9g}"
            raise Departure(text, inputs=inputs)


@rule(
    "IDENTITY-008",
    source="One leaf in several places: autograd adds what a fused backward pass may overwrite",
    cases=(SQUARE, vary(SQUARE, "lengths equal, masked", mask=Mask("random", "LS", ALL_KINDS))),
    modes=FORWARD,
    dtypes="exact",
    needs=SEPARATE,
)
def one_tensor_gets_what_three_copies_get(trial: Trial) -> None:
    """One tensor for query, key and value gets the sum of the gradients that three copies of it get."""
    shared = trial.at(vary(trial.case, f"{trial.case.name}, one tensor", shared="qkv"))
    tensor = shared.inputs.query
    copies = trial.inputs.changed(
        query=tensor, key=tensor, value=tensor, allowed=shared.inputs.allowed, parameters=shared.inputs.parameters,
        upstream=shared.inputs.upstream,
    )  # fmt: skip
    apart = trial.input_gradients(trial.run(copies), copies)
    whole = shared.input_gradients(shared.run())
    error = shared.expected_sums()["query"].allowed
    total = sum((apart[name].detach().double() for name in INPUT_NAMES), torch.zeros(()).double())
    trial.near("gradient of one tensor for all", whole["query"], Near(total, 2 * error), shared.inputs)
