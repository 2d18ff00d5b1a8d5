"""Weights: the second result, where there is one."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases.case import MASKED, PER_HEAD, PLAIN, Case, Mask
from ..conventions.table import ALL_KINDS, second_agrees
from ..oracle.bounds import rounds, units
from ..oracle.comparing import Departure, NotApplicable, require_equal
from ..oracle.expectations import Near
from ..rulebook import rule
from ..trials.trial import Trial

PER_HEAD_WEIGHTS = {"second": ("optional weights", "weights")}
ANY_SECOND = {"second": ("optional weights", "weights", "averaged weights", "lse", "lse2")}


@rule(
    "WEIGHTS-002",
    source="Document 1, section 2 (returns output and weights)",
    cases=(
        PLAIN,
        MASKED,
        PER_HEAD,
        Case("weights, L = S", queries=6, keys=6),
        Case("weights, H = L", queries=4),
        Case("weights of sharp scores", values="sharp"),
        Case("weights of one head", heads=1),
        Case("weights of one key", keys=1),
        Case("weights past a block", batch=1, heads=2, queries=17, keys=33),
        Case("weights under padding", batch=3, mask=Mask("padding", "B11S", (*ALL_KINDS, "lengths"))),
    ),
    needs=ANY_SECOND,
)
def second_result_agrees_with_the_definition(trial: Trial) -> None:
    """The second result agrees with the definition for every size and mask."""
    second_agrees(trial)


@rule(
    "WEIGHTS-003",
    source="weights are a distribution over the allowed keys",
    cases=(
        PLAIN,
        MASKED,
        Case("weights with a mask per batch", mask=Mask("random", "B1LS")),
        Case("distribution, causal", causal=True, queries=6, keys=6),
        Case("distribution, one block and a key", batch=1, heads=2, queries=3, keys=257),
        Case("distribution of sharp scores", values="sharp", mask=Mask("random", "BHLS", ALL_KINDS)),
    ),
    needs=PER_HEAD_WEIGHTS,
)
def weights_are_a_distribution_over_the_allowed_keys(trial: Trial) -> None:
    """The weights are not negative, sum to one over the keys, and are exactly zero where a key is hidden."""
    result = trial.run()
    weights = trial.weights(result)
    if bool((weights < 0).any()):
        raise Departure("a weight is negative", inputs=trial.inputs)
    unit = units(trial.dtype, trial.capabilities.precision)
    keys = weights.shape[-1]
    sums = weights.detach().double().sum(-1)
    each = max(unit.weights, unit.output)
    allowed = torch.full_like(sums, keys * each + rounds(keys, unit.normaliser) + 4 * unit.exponent)
    truth = trial.expectation().truth
    empty = truth.empty.squeeze(-1)
    # Normalised by exp(score - logsumexp), a sum errs by the roundings of both, which grow with the scores.
    level = truth.logsumexp.where(~truth.empty, 0.0).abs()
    exponents = torch.where(truth.allowed, (truth.scores - truth.logsumexp).abs(), 0.0)
    allowed = allowed + unit.slack * 8 * unit.normaliser * (level.squeeze(-1) + 1)
    allowed = allowed + unit.slack * 2 * unit.exponent * (truth.weights * exponents).sum(-1)
    trial.near("sum of the weights of a row", sums, Near(torch.ones_like(sums), allowed), ignore=empty)
    hidden = ~truth.allowed & ~truth.empty
    require_equal(
        what="weights of hidden keys",
        actual=torch.where(hidden, weights, 0.0),
        expected=torch.zeros_like(weights),
        inputs=trial.inputs,
    )


@rule(
    "WEIGHTS-004",
    source="stale, averaged or unnormalised weights are returned beside a right output",
    cases=(MASKED, Case("weights per batch and head", mask=Mask("random", "BHLS", ALL_KINDS))),
    needs=PER_HEAD_WEIGHTS,
    kinds=("kernel",),
)
def weights_times_value_give_the_output(trial: Trial) -> None:
    """The returned weights times the value give the returned output."""
    result = trial.run()
    weights = trial.weights(result).detach().double()
    expectation = trial.expectation()
    product = weights @ expectation.problem.value
    slack = expectation.weights.allowed @ expectation.problem.value.abs() + expectation.output.allowed
    trial.near("output", result.output, Near(product, slack))


@rule(
    "WEIGHTS-005",
    source="Weights that are computed a second time, for display, without what the call asked for",
    cases=(
        Case("second result and causal", causal=True),
        Case("second result and causal, L > S", causal=True, queries=7, keys=5),
        Case("second result and a bias", bias="1HLS"),
        Case("second result and a scale", scale=0.6),
        Case("second result and cap 1", softcap=1.0),
        Case("second result and a window", window=3, queries=6, keys=6),
        Case("second result and grouped heads", kv_heads=2),
        Case("second result, 6 heads over 3", heads=6, kv_heads=3, mask=Mask("random", "BHLS", ALL_KINDS)),
        Case(
            "second result, causal and padded", causal=True, queries=6, keys=6, mask=Mask("padding", "B11S", ALL_KINDS)
        ),
    ),
    needs=ANY_SECOND,
)
def second_result_follows_every_option(trial: Trial) -> None:
    """The second result follows causal, bias, scale, soft cap, window and grouped heads as the output does."""
    if bool(trial.expectation().truth.empty.any()):
        raise NotApplicable("a row sees no key there, which is another question")
    second_agrees(trial)


@rule(
    "WEIGHTS-006",
    source="weights and output are one computation; a row is cleaned in the output and not in the weights",
    cases=(
        Case("weights of an empty row", mask=Mask("empty row", "LS", ALL_KINDS)),
        Case("weights of an empty batch element", mask=Mask("empty row", "B11S", ALL_KINDS)),
    ),
    needs={"second": ("optional weights", "weights", "averaged weights"), "empty_row": ("uniform", "zeros")},
)
def weights_of_an_empty_row_are_the_declared_answer(trial: Trial) -> None:
    """The weights of a row that may attend to nothing are those that its output is made of: uniform or zero."""
    second_agrees(trial)


@rule(
    "WEIGHTS-007",
    source="A cast for display, or a constant dtype: fp16 weights beside bf16 inputs, fp32 ones beside fp64",
    cases=(PLAIN, MASKED),
    needs=ANY_SECOND,
)
def second_result_is_not_narrower_than_the_inputs(trial: Trial) -> None:
    """The second result is floating point and has the dtype of the inputs, or a wider one in which a sum was kept."""
    found = trial.run().second
    if found is None:
        raise NotApplicable("no second result is returned")
    inputs = trial.inputs
    wanted = inputs.query.dtype
    wide = {wanted, torch.float32, torch.float64}
    if wanted == torch.float64:
        wide = {torch.float64, torch.float32} if trial.capabilities.precision == "softmax32" else {torch.float64}
    if found.dtype not in wide:
        raise Departure(f"the second result has dtype {found.dtype}, expected {wanted}", inputs=inputs)


@rule(
    "WEIGHTS-008",
    source="weights that share memory: a later step of the caller, or a dropout in place, writes into them",
    cases=(PLAIN, MASKED),
    needs=ANY_SECOND,
    modes=("eval",),
)
def second_result_belongs_to_the_caller(trial: Trial) -> None:
    """Writing into the second result changes neither the output nor what the next call returns."""
    result = trial.run()
    if result.second is None:
        raise NotApplicable("no second result is returned")
    trial.agrees(result)
    if _writable(result.second):
        result.second.detach().fill_(7.0)
    trial.agrees(result)
    again = trial.run()
    trial.agrees(again)
    second_agrees(trial)


def _writable(tensor: Tensor) -> bool:
    """Say whether a caller may write into it: no two elements share one address, and no inference mode forbids it."""
    return not tensor.is_inference() and all(
        stride != 0 or size <= 1 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


@rule(
    "WEIGHTS-009",
    source="A logsumexp without its row maximum, or of a sum that overflowed, misleads whoever merges blocks by it",
    cases=(
        Case("logsumexp of huge scores", values="huge scores", width=16),
        Case("logsumexp of low scores", values="scores -64", width=16),
        Case("logsumexp of very low scores", values="scores -32768", width=16),
        Case("logsumexp of high scores, masked", values="scores 120", width=16, mask=Mask("random", "LS")),
        Case("logsumexp of zero queries", values="zero query", keys=33),
        Case("logsumexp past a block", value_width=1, keys=65, queries=3),
    ),
    needs={"second": ("lse", "lse2")},
    dtypes="wide",
)
def logsumexp_holds_for_every_level_of_scores(trial: Trial) -> None:
    """A logsumexp is right wherever the scores lie: thousands, far below zero, or all alike."""
    second_agrees(trial)
