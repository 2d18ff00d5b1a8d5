"""Dropout: weights are dropped whole, at random, and the rest is scaled, where it is declared."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases.case import Case, Mask
from ..cases.inputs import Inputs
from ..conventions.table import ALL_KINDS
from ..experiments.dropping import require_binomial
from ..oracle.bounds import units
from ..oracle.comparing import Departure, require_equal
from ..rulebook import rule
from ..trials.subject import Result
from ..trials.trial import Trial


def _counting(rate: float) -> Case:
    sizes = {"batch": 4, "heads": 4, "queries": 64, "keys": 32, "width": 4, "value_width": 1}
    return Case(f"dropout {rate}", dropout=rate, values="ones value, zero query", **sizes)  # type: ignore[arg-type]


@rule(
    "OPTIONS-009",
    source="Vaswani et al. 2017, section 5.4; dropout without rescale, on the output, or always on",
    cases=(_counting(0.5), _counting(0.2), _counting(0.05)),
    needs={"options": "dropout"},
    modes=("train",),
    dtypes="first",
)
def dropout_keeps_the_mean_and_the_rate(trial: Trial) -> None:
    """Dropout q removes each weight with probability q, on its own in every row, and divides the rest by 1 - q.

    With equal weights and ones as values an output is a count of kept keys over (1 - q) S, so rate and factor show.
    """
    case, inputs = trial.case, trial.inputs
    rate, keys, rounding = float(case.dropout or 0.0), case.keys, 4 * units(trial.dtype).output
    torch.manual_seed(11)
    output = trial.run().output.detach().double()[..., 0]
    require_binomial(output, rate, keys, rounding, inputs)


@rule(
    "OPTIONS-010",
    source="F.scaled_dot_product_attention applies dropout whenever it is passed (pytorch/pytorch#124464)",
    cases=(Case("dropout 0", dropout=0.0), Case("dropout 0, masked", dropout=0.0, mask=Mask("random", "LS"))),
    needs={"options": "dropout"},
)
def dropout_of_zero_changes_nothing(trial: Trial) -> None:
    """A dropout of zero gives what no dropout gives."""
    trial.agrees(trial.run())


@rule(
    "OPTIONS-011",
    source="One seed, one mask",
    cases=(Case("dropout 0.3", dropout=0.3),),
    needs={"options": "dropout"},
    modes=("train",),
    dtypes="first",
)
def dropout_follows_the_random_generator(trial: Trial) -> None:
    """With the same seed dropout removes the same weights, and with another seed, or in the next call, other ones."""
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(trial.run().output.detach())
    if not torch.equal(outputs[0], outputs[1]):
        raise Departure("the same seed gave two different results", inputs=trial.inputs)
    if torch.equal(outputs[0], outputs[2]):
        raise Departure("another seed gave the same result: nothing is dropped", inputs=trial.inputs)
    if torch.equal(outputs[2], trial.run().output):
        raise Departure(
            "the call after gave the same result: each call starts from the seed again", inputs=trial.inputs
        )


@rule(
    "OPTIONS-012",
    source="Reports of a backward pass with other dropped weights or another factor (NVIDIA/apex#816, pytorch/pytorch#190758); <V, dV> = <O, dO>",
    cases=(
        Case("gradient under dropout", dropout=0.3),
        Case("gradient under dropout, masked", dropout=0.3, mask=Mask("random", "LS")),
        Case("gradient under dropout, 4 heads over 2", dropout=0.3, kv_heads=2),
    ),
    needs={"options": "dropout", "gradient": ("once", "twice"), "dtypes": "fp64"},
    modes=("train",),
    dtypes="once",
    kinds=("kernel",),
)
def gradients_see_the_dropped_weights(trial: Trial) -> None:
    """The backward pass drops the weights that the forward pass dropped, with the same factor.

    Two identities show it: <value, its gradient> equals <output, upstream>, and a difference in one direction, drawn
    with the same seed, equals <direction, gradient> for query and key.
    """
    inputs = trial.inputs
    result = _seeded(trial, inputs)
    torch.manual_seed(14)
    found = trial.input_gradients(result)
    upstream = inputs.upstream.double()
    by_value = (inputs.value.double() * found["value"]).sum()
    by_output = (result.output.detach() * upstream).sum()
    _close("<value, its gradient>", by_value, by_output, inputs)
    step = 1e-6
    for seed, name in ((5, "query"), (6, "key")):
        tensor: Tensor = getattr(inputs, name)
        direction = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        ahead, behind = (
            _seeded(trial, inputs.changed(**{name: tensor + sign * step * direction})).output for sign in (1, -1)
        )
        difference = ((ahead - behind).detach() * upstream).sum() / (2 * step)
        _close(f"<direction, gradient of the {name}>", (direction * found[name]).sum(), difference, inputs)


def _seeded(trial: Trial, inputs: Inputs) -> Result:
    torch.manual_seed(13)
    return trial.run(inputs)


def _close(what: str, found: Tensor, expected: Tensor, inputs: Inputs) -> None:
    error = abs(float(found - expected))
    if error > 1e-6 * (1 + abs(float(expected))):
        raise Departure(f"{what} is {float(found):.9g}, expected {float(expected):.9g}", inputs=inputs)


@rule(
    "OPTIONS-016",
    source="Dropout that renormalises, or redistributes what it removed, brings hidden keys back",
    cases=(
        Case("dropout over hidden keys", dropout=0.3, mask=Mask("tail hidden", "LS")),
        Case("dropout over padding", dropout=0.3, mask=Mask("padding", "B11S", (*ALL_KINDS, "lengths"))),
    ),
    needs={"options": "dropout", "deterministic": ("yes", "forward")},
    modes=("train",),
    dtypes="first",
)
def dropout_keeps_hidden_keys_hidden(trial: Trial) -> None:
    """Under dropout a hidden key still takes no part: with the same seed its content changes no bit of the output."""
    inputs = trial.inputs
    hidden = ~trial.expectation().truth.allowed.any(-2)
    hidden = hidden.any(-2) if trial.is_module else hidden
    marks = hidden.unsqueeze(-1)
    moved = {name: torch.where(marks, 50.0, getattr(inputs, name)).to(inputs.key.dtype) for name in ("key", "value")}
    first = _seeded(trial, inputs).output
    second = _seeded(trial, inputs.changed(**moved)).output
    require_equal(what="output after hidden keys were changed", actual=second, expected=first, inputs=inputs)
