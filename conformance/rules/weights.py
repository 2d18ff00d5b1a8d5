"""Weights: the second result, where there is one."""

from __future__ import annotations

import torch

from ..bounds import rounds, units
from ..cases import MASKED, PER_HEAD, PLAIN, Case, Mask
from ..comparing import Departure, require_equal
from ..conventions import ALL_KINDS, second_agrees
from ..expectations import Near
from ..rulebook import rule
from ..trial import Trial

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
    ),
    needs=ANY_SECOND,
)
def second_result_agrees_with_the_definition(trial: Trial) -> None:
    """The second result agrees with the definition for every size and mask."""
    second_agrees(trial)


@rule(
    "WEIGHTS-003",
    source="weights are a distribution over the allowed keys",
    cases=(PLAIN, MASKED, Case("weights with a mask per batch", mask=Mask("random", "B1LS"))),
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
