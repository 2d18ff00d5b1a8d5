"""Numbers: the output is as near to the definition as rounding allows, for every family of values."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases.case import PLAIN, SQUARE, Case, vary
from ..dtypes import UNIT_ROUNDOFF, is_half
from ..experiments.coherent import SURE, amount, directions, largest_amounts
from ..oracle.comparing import Departure, NotApplicable, require_finite, require_shape
from ..rulebook import rule
from ..trials.trial import Trial


def _family(*names: str, **sizes: int) -> tuple[Case, ...]:
    return tuple(Case(name, values=name, **{"width": 16, **sizes}) for name in names)  # type: ignore[arg-type]


@rule(
    "NUMERIC-002",
    source="Vaswani et al. 2017, section 3.2.1; first-order rounding analysis",
    cases=(
        PLAIN,
        *_family("signed", "sharp", "flat", "tiny", "large values", "shifted values"),
        Case("width 64", batch=1, heads=2, width=64, queries=9, keys=20),
    ),
)
def output_is_within_the_rounding_bound(trial: Trial) -> None:
    """The output is within the elementwise rounding bound of the definition, for sharp, flat, tiny and large values."""
    trial.agrees(trial.run())


@rule(
    "NUMERIC-003",
    source="Known kind of fault: large magnitudes; exp of a score above 89 overflows fp32",
    cases=(
        *_family("scores 120", "scores -20", "huge scores", "shifted keys", "scores of both signs", "one outlier"),
        Case("very low scores past a block", values="scores -20", batch=1, heads=2, keys=35, width=16),
        Case("large score behind a block", values="huge scores", batch=1, heads=2, keys=35, width=16),
    ),
)
def adding_a_constant_to_all_scores_changes_nothing(trial: Trial) -> None:
    """Scores far above or below zero give the same weights as their differences: the largest is subtracted first.

    Without that exp overflows or underflows; a small number in the denominator or an extra one shows here as well.
    """
    result = trial.run()
    require_finite(what="output", actual=result.output, inputs=trial.inputs)
    trial.agrees(result)


@rule(
    "NUMERIC-004",
    source="scores exact in every dtype, so that only the softmax rounds",
    cases=tuple(
        Case(
            f"two keys, width {width}",
            values="two keys",
            batch=1,
            heads=2,
            queries=3,
            keys=2,
            width=width,
            value_width=4,
        )
        for width in (16, 256)
    ),
)
def scale_is_exact_where_scores_are(trial: Trial) -> None:
    """Where the scores are exact in the working dtype, an error of the scale has nowhere to hide.

    1/sqrt(D + 1) instead of 1/sqrt(D) is invisible in 16 bits on random data and shows here.
    """
    trial.agrees(trial.run())


@rule(
    "NUMERIC-005",
    source="Hadamard-coded keys",
    cases=(
        Case("needles, 16 keys", values="needles", batch=1, heads=2, queries=16, keys=16, width=16, value_width=8),
        Case("needles, 64 keys", values="needles", batch=1, heads=1, queries=64, keys=64, width=64, value_width=8),
        Case("needles, 17 of 32", values="needles", batch=1, heads=2, queries=20, keys=17, width=32, value_width=8),
        Case("needles, 33 of 64", values="needles", batch=1, heads=1, queries=40, keys=33, width=64, value_width=8),
        Case("needles, 128 keys", values="needles", batch=1, heads=1, queries=128, keys=128, width=128, value_width=4),
    ),
)
def every_key_can_be_found(trial: Trial) -> None:
    """A query that is coded for one key returns that key's value, for every position of the key."""
    trial.agrees(trial.run())


@rule(
    "NUMERIC-006",
    source="a lone key has weight one exactly",
    cases=(
        Case("one key, width 16", keys=1, width=16),
        Case("one key, many queries", keys=1, queries=17),
        Case("one key, very low score", keys=1, width=16, values="scores -20"),
    ),
)
def single_key_returns_its_value(trial: Trial) -> None:
    """A single key has weight one: the output is its value, whatever the score."""
    trial.agrees(trial.run())


@rule(
    "NUMERIC-007",
    source="equal scores give the mean",
    cases=_family("equal keys", "zero query", "ramp", "duplicate keys", "constant value", queries=5, keys=10),
)
def equal_scores_give_equal_weights(trial: Trial) -> None:
    """Equal scores give equal weights: the output is the mean of the values, and of a constant value the constant."""
    trial.agrees(trial.run())


def _in_blocks(name: str, keys: int) -> Case:
    return Case(f"{name}, {keys} keys", values=name, batch=1, heads=2, queries=2, keys=keys, width=16, value_width=4)


@rule(
    "NUMERIC-016",
    source="Softmax in blocks (Milakov and Gimelshein 2018): what came before is rescaled when the maximum grows",
    cases=(
        _in_blocks("rising scores", 70),
        _in_blocks("rising scores", 160),
        _in_blocks("steeply rising scores", 40),
        _in_blocks("two levels of scores", 64),
        _in_blocks("two levels of scores", 128),
        _in_blocks("scores of both signs", 35),
        _in_blocks("scores -512", 35),
    ),
)
def order_of_large_and_small_scores_does_not_matter(trial: Trial) -> None:
    """Scores that rise or fall from block to block are weighed like those in any other order.

    In a softmax in blocks, a rescaling that is forgotten, or made with the wrong maximum, shows where each block has
    a larger maximum than the one before; a maximum that starts from 0 shows where all scores are far below it.
    """
    result = trial.run()
    require_finite(what="output", actual=result.output, inputs=trial.inputs)
    trial.agrees(result)


@rule(
    "NUMERIC-017",
    source="Values of bf16 and fp32 that fp16 cannot hold (a known kind of fault: large magnitudes)",
    cases=_family("values beyond fp16", "values of 1e30", "values of 1e-30", "tiny query, large key"),
    dtypes="wide",
    needs={"inputs": "cross"},
)
def whole_range_of_the_dtype_is_used(trial: Trial) -> None:
    """Inputs far above and far below what fp16 can hold are mixed like any others."""
    trial.agrees(trial.run())


def _stagnating(keys: int) -> Case:
    return Case(
        f"{keys} equal keys",
        values="ones value, zero query",
        batch=1,
        heads=1,
        queries=1,
        keys=keys,
        width=4,
        value_width=2,
    )


@rule(
    "NUMERIC-008",
    source="running sums kept in 16 bits stagnate at 256 equal terms",
    cases=(_stagnating(300), _stagnating(1023)),
)
def long_sums_do_not_stagnate(trial: Trial) -> None:
    """Sums over hundreds of keys are kept in at least 32 bits."""
    trial.agrees(trial.run())


@rule(
    "NUMERIC-011",
    source="a row depends on its own query only",
    cases=(PLAIN, SQUARE),
    dtypes="first",
    needs={"inputs": "cross"},
)
def nan_in_a_query_reaches_no_other_row(trial: Trial) -> None:
    """A NaN in a query reaches no other row of the output."""
    inputs = trial.inputs
    result = trial.run(inputs.changed(query=_with_nan(inputs.query)))
    require_finite(what="output of the other rows", actual=result.output[..., 1:, :], inputs=inputs)


@rule(
    "NUMERIC-012",
    source="Report of a kernel that answers zeros for NaN and hides the fault upstream (pytorch/pytorch#141128)",
    cases=(PLAIN, SQUARE),
    dtypes="first",
    needs={"inputs": "cross"},
    thorough=True,
)
def nan_in_a_query_stays_in_its_row(trial: Trial) -> None:
    """A NaN in a query gives NaN in its row, and not numbers that hide it."""
    inputs = trial.inputs
    result = trial.run(inputs.changed(query=_with_nan(inputs.query)))
    if not bool(torch.isnan(result.output[..., 0, :]).all()):
        raise Departure("a query that holds NaN gives a row without NaN", inputs=inputs)


def _with_nan(query: Tensor) -> Tensor:
    query = query.clone()
    query[..., 0, 0] = float("nan")
    return query


@rule(
    "NUMERIC-010",
    source="fp16 sums of ones are exact up to 2048",
    cases=(_stagnating(4096),),
    kinds=("kernel",),
)
def very_long_sums_do_not_stagnate(trial: Trial) -> None:
    """Sums over thousands of keys are kept in at least 32 bits."""
    trial.agrees(trial.run())


@rule(
    "NUMERIC-009",
    source="with the identity as value the output is the weights",
    cases=(
        Case("identity value", values="identity value", keys=7, value_width=7, width=8),
        Case("identity value, sharp width", values="identity value", keys=16, value_width=16, width=16),
    ),
    kinds=("kernel",),
    needs={"value_width": "any"},
)
def weights_read_out_through_the_value_are_right(trial: Trial) -> None:
    """With the identity as value the output is the softmax of the scores, each weight within its own bound."""
    result = trial.run()
    trial.near("output for an identity value", result.output, trial.expectation().output)


_MANY_ROWS = Case("2048 rows", batch=8, heads=4, queries=64, keys=40, width=18, value_width=10, values="many rows")
"""A width that is no power of 4, so that no choice of numbers makes the scores exact."""


def _require_half(trial: Trial) -> None:
    if not is_half(trial.dtype):
        raise NotApplicable(f"dtypes: the bound of each element sees as much in {trial.dtype}")


def _require_no_direction(
    trial: Trial, what: str, error: Tensor, direction: Tensor, allowed: float, moved: str
) -> None:
    found = amount(error, direction)
    unit = UNIT_ROUNDOFF[trial.dtype]
    trial.note(min(abs(found.value) / allowed, found.sure / SURE))
    if abs(found.value) > allowed and found.sure > SURE:
        raise Departure(
            f"{what} errs as if {moved} were multiplied by {1 + found.value:.6g}: {found.value / unit:+.3g} units of "
            f"rounding where {allowed / unit:.3g} are possible, {found.sure:.3g} standard errors away from 1",
            ratio=abs(found.value) / allowed,
            inputs=trial.inputs,
        )


@rule(
    "NUMERIC-013",
    source="Regression of the error on the direction of a fault over 2048 rows; rounding has no direction",
    cases=(_MANY_ROWS,),
)
def errors_point_nowhere(trial: Trial) -> None:
    """In 16 bits the errors of thousands of rows do not add up to another scale, factor or weight of a key.

    1/sqrt(D + 1), or weights that are cut off instead of rounded, stay within the bound of every single element.
    """
    _require_half(trial)
    expectation = trial.expectation()
    result = trial.run()
    require_shape(what="output", actual=result.output, shape=tuple(expectation.output.value.shape))
    require_finite(what="output", actual=result.output, inputs=trial.inputs)
    error = result.output.detach().double() - expectation.output.value
    scores, other = largest_amounts(expectation)
    for moved, direction in directions(trial.case, expectation.setting, trial.dtype).items():
        allowed = scores if moved == "all scores" else other
        _require_no_direction(trial, "the output", error, direction, allowed, moved)


@rule(
    "NUMERIC-014",
    source="Regression of the error of each gradient on the gradient itself; rounding has no direction",
    cases=(vary(_MANY_ROWS, "2048 rows, width 16", width=16),),
    modes=("train",),
    needs={"gradient": ("once", "twice"), "inputs": "cross"},
)
def errors_of_gradients_point_nowhere(trial: Trial) -> None:
    """In 16 bits the errors of a gradient do not add up to another factor on it."""
    _require_half(trial)
    found, expected = trial.input_gradients(trial.run()), trial.expected_gradients()
    # The scale counts twice: as the factor of the gradient, and through the weights.
    scores, _ = largest_amounts(trial.expectation())
    for name, limit in (("query", 2 * scores), ("key", 2 * scores), ("value", scores)):
        require_finite(what=f"gradient of the {name}", actual=found[name], inputs=trial.inputs)
        exact = expected[name].value
        error = found[name].detach().double() - exact
        _require_no_direction(trial, f"the gradient of the {name}", error, exact, limit, "it")


_LONG_GRADIENTS = (
    Case(
        "gradient of 1024 queries, 4 keys",
        batch=1,
        heads=1,
        queries=1024,
        keys=4,
        width=4,
        value_width=4,
        values="equal terms",
    ),
    Case(
        "gradient of 4 queries, 1024 keys",
        batch=1,
        heads=1,
        queries=4,
        keys=1024,
        width=4,
        value_width=4,
        values="equal terms",
    ),
)


@rule(
    "NUMERIC-015",
    source="running sums kept in 16 bits stagnate, in the backward pass over queries (key, value) and keys (query)",
    cases=_LONG_GRADIENTS,
    modes=("train",),
    needs={"gradient": ("once", "twice"), "inputs": "cross"},
)
def long_sums_of_gradients_do_not_stagnate(trial: Trial) -> None:
    """Sums over a thousand queries or keys in the backward pass are kept in at least 32 bits.

    One upstream row in the middle is heavy, so that the sum has left the reach of the light ones whichever end it
    starts from, in fp16 as well.
    """
    _require_half(trial)
    upstream = torch.ones_like(trial.inputs.upstream)
    upstream[..., upstream.shape[-2] // 2, :] = 1 / UNIT_ROUNDOFF[trial.dtype]
    inputs = trial.inputs.changed(upstream=upstream)
    trial.gradients_agree(trial.run(), inputs)
