"""Options: what is offered beyond the plain call, where it is declared."""

from __future__ import annotations

import torch
from torch import Tensor

from ..cases import Case, Mask
from ..comparing import Departure
from ..conventions import ALL_KINDS
from ..inputs import Inputs
from ..rulebook import rule
from ..subject import Result
from ..trial import Trial

_BIAS_AXES = ("LS", "11LS", "1HLS", "B1LS", "BHLS", "B11S")


@rule(
    "OPTIONS-001",
    source="Reports of a scale that one path ignores (huggingface/transformers#44380, lucidrains/x-transformers#244)",
    cases=(
        Case("scale 1", scale=1.0),
        Case("scale 0.5, masked", scale=0.5, mask=Mask("random", "LS")),
        Case("scale 0.05", scale=0.05, width=16),
    ),
    needs={"options": "scale"},
)
def passed_scale_replaces_the_default(trial: Trial) -> None:
    """A scale that is passed multiplies the scores instead of the default."""
    trial.agrees(trial.run())


@rule(
    "OPTIONS-002",
    source="Known kind of fault: mask fill value or place; a finite bias is added after the scale (tenstorrent/tt-metal#42891)",
    cases=tuple(Case(f"bias {axes}", bias=axes) for axes in _BIAS_AXES)
    + (
        Case("bias and mask", bias="1HLS", mask=Mask("random", "LS")),
        Case("bias and an empty row", bias="BHLS", mask=Mask("empty row", "LS")),
    ),
    needs={"options": "bias"},
)
def bias_is_added_to_the_scaled_scores(trial: Trial) -> None:
    """A bias of any broadcast shape is added to the scaled scores before the softmax."""
    trial.agrees(trial.run())


@rule(
    "OPTIONS-003",
    source="Reports of a bias without a gradient, or for batch 1 only (jax-ml/jax#27184, jax-ml/jax#30593)",
    cases=tuple(Case(f"gradient of a bias {axes}", bias=axes) for axes in _BIAS_AXES),
    modes=("train",),
    needs={"options": "bias", "gradient": ("once", "twice")},
)
def bias_gets_its_gradient(trial: Trial) -> None:
    """The bias gets its gradient, summed over the axes along which it was broadcast."""
    trial.gradients_agree(trial.run())


@rule(
    "OPTIONS-004",
    source="Known kind of fault: sliding window off by one (huggingface/transformers#39408, zml/zml#763)",
    cases=(
        Case("window 1", window=1, queries=6, keys=6),
        Case("window 2", window=2, queries=6, keys=6),
        Case("window 3, S longer", window=3, queries=5, keys=7),
        Case("window as long as L", window=6, queries=6, keys=6),
        Case("window 4, causal", window=4, queries=9, keys=9, causal=True),
        Case("window 3 and a mask", window=3, queries=6, keys=6, mask=Mask("random", "LS", ALL_KINDS)),
        Case("window past a block", window=5, batch=1, heads=2, queries=37, keys=37),
    ),
    needs={"options": "window"},
)
def window_keeps_the_keys_less_than_its_width_away(trial: Trial) -> None:
    """A window w keeps the keys at a distance less than w from the query's position, its own included."""
    trial.agrees(trial.run())


@rule(
    "OPTIONS-005",
    source="Known kind of fault: softcap lost or misplaced; cap 1 shows what cap 50 hides (onnx/onnx#7865, sgl-project/sgl-kernel-xpu#491)",
    cases=(
        Case("cap 1", softcap=1.0),
        Case("cap 1, masked", softcap=1.0, mask=Mask("random", "LS")),
        Case("cap 5, sharp", softcap=5.0, values="sharp"),
        Case("cap 1, additive mask", softcap=1.0, mask=Mask("random", "LS", ("additive",), finite=True)),
        Case("cap 1 and a bias", softcap=1.0, bias="BHLS"),
        Case("cap 1, causal", softcap=1.0, causal=True, queries=6, keys=6),
    ),
    needs={"options": "softcap"},
)
def softcap_bends_the_scores_before_the_mask(trial: Trial) -> None:
    """A soft cap c turns each scaled score s into c tanh(s / c), before bias and mask."""
    trial.agrees(trial.run())


@rule(
    "OPTIONS-006",
    source="Backward of tanh forgotten",
    cases=(
        Case("gradient under cap 1", softcap=1.0),
        Case("gradient under cap 1, masked", softcap=1.0, mask=Mask("random", "LS")),
    ),
    modes=("train",),
    needs={"options": "softcap", "gradient": ("once", "twice")},
)
def softcap_bends_the_gradients_as_well(trial: Trial) -> None:
    """The gradients pass through the soft cap by its derivative."""
    trial.gradients_agree(trial.run())


@rule(
    "OPTIONS-007",
    source="Known kind of fault: GQA head grouping; consecutive, not interleaved (onnx/onnx#7274, apple/axlearn#842)",
    cases=(
        Case("4 heads over 2", kv_heads=2),
        Case("6 heads over 3", heads=6, kv_heads=3),
        Case("6 heads over 2, masked", heads=6, kv_heads=2, mask=Mask("random", "BHLS", ALL_KINDS)),
        Case("4 heads over 1", kv_heads=1),
        Case("4 heads over 2, causal", kv_heads=2, causal=True, queries=6, keys=6),
        Case("4 heads over 2, padded", kv_heads=2, mask=Mask("padding", "B11S", (*ALL_KINDS, "lengths"))),
    ),
    needs={"heads": "grouped"},
    kinds=("kernel",),
)
def grouped_heads_share_consecutively(trial: Trial) -> None:
    """With grouped heads consecutive query heads share one key and value head."""
    trial.agrees(trial.run())


@rule(
    "OPTIONS-008",
    source="dK and dV of one query head per group only (XunhaoLai/native-sparse-attention-triton#27)",
    cases=(
        Case("gradient, 4 heads over 2", kv_heads=2),
        Case("gradient, 6 heads over 3", heads=6, kv_heads=3),
        Case("gradient, 4 heads over 1, masked", kv_heads=1, mask=Mask("random", "LS", ALL_KINDS)),
    ),
    needs={"heads": "grouped", "gradient": ("once", "twice")},
    kinds=("kernel",),
    modes=("train",),
)
def gradients_of_shared_heads_are_summed(trial: Trial) -> None:
    """The gradient of a shared key and value head is the sum over its query heads."""
    trial.gradients_agree(trial.run())


def _counting(rate: float) -> Case:
    return Case(
        f"dropout {rate}",
        dropout=rate,
        values="ones value, zero query",
        batch=4,
        heads=4,
        queries=64,
        keys=32,
        width=4,
        value_width=1,
    )


@rule(
    "OPTIONS-009",
    source="Vaswani et al. 2017, section 5.4; dropout without rescale, on the output, or always on",
    cases=(_counting(0.5), _counting(0.2)),
    needs={"options": "dropout"},
    modes=("train",),
    dtypes="first",
)
def dropout_keeps_the_mean_and_the_rate(trial: Trial) -> None:
    """Dropout q removes each weight with probability q, on its own in every row, and divides the rest by 1 - q.

    With equal weights and ones as values an output is a count of kept keys over (1 - q) S, so rate and factor show.
    """
    case, inputs = trial.case, trial.inputs
    rate, keys = float(case.dropout or 0.0), case.keys
    torch.manual_seed(11)
    output = trial.run().output.detach().double()[..., 0]
    kept = output * (1 - rate) * keys
    if float((kept - kept.round()).abs().max()) > 0.01:
        raise Departure(
            "with equal weights an output is no multiple of 1 / ((1 - q) S): weights are not dropped whole",
            inputs=inputs,
        )
    single = (rate / (1 - rate) / keys) ** 0.5
    deviation = float(output.mean() - 1) / (single / output.numel() ** 0.5)
    if abs(deviation) > 6:
        raise Departure(
            f"the mean output is {float(output.mean()):.4g}, expected 1: {deviation:.1f} standard deviations away",
            inputs=inputs,
        )
    spread = float(output.std()) / single
    if not 0.8 < spread < 1.25:
        raise Departure(
            f"outputs spread {spread:.3g} times as much as dropping each weight with probability {rate} makes them",
            inputs=inputs,
        )
    rows = output.flatten(0, -2)
    alike = [pair for pair in ((0, 1), (0, rows.shape[0] - 1)) if torch.equal(rows[pair[0]], rows[pair[1]])]
    if alike or torch.equal(output[..., 0], output[..., 1]):
        raise Departure("the same weights are dropped in several heads, batch elements or rows", inputs=inputs)


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
    """With the same seed dropout removes the same weights, and with another seed other ones."""
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(trial.run().output.detach())
    if not torch.equal(outputs[0], outputs[1]):
        raise Departure("the same seed gave two different results", inputs=trial.inputs)
    if torch.equal(outputs[0], outputs[2]):
        raise Departure("another seed gave the same result: nothing is dropped", inputs=trial.inputs)


@rule(
    "OPTIONS-012",
    source="Reports of a backward pass with other dropped weights or another factor (NVIDIA/apex#816, pytorch/pytorch#190758); <V, dV> = <O, dO>",
    cases=(Case("gradient under dropout", dropout=0.3),),
    needs={"options": "dropout", "gradient": ("once", "twice"), "dtypes": "fp64"},
    modes=("train",),
    dtypes="once",
    kinds=("kernel",),
)
def gradients_see_the_dropped_weights(trial: Trial) -> None:
    """The backward pass drops the weights that the forward pass dropped, with the same factor.

    Two identities show it: <value, its gradient> equals <output, upstream>, and a difference in the direction of the
    query, drawn with the same seed, equals <direction, its gradient>.
    """
    inputs = trial.inputs
    result = _seeded(trial, inputs)
    found = trial.input_gradients(result)
    upstream = inputs.upstream.double()
    by_value = (inputs.value.double() * found["value"]).sum()
    by_output = (result.output.detach() * upstream).sum()
    _close("<value, its gradient>", by_value, by_output, inputs)
    direction = torch.randn(inputs.query.shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    step = 1e-6
    ahead, behind = (
        _seeded(trial, inputs.changed(query=inputs.query + sign * step * direction)).output for sign in (1, -1)
    )
    difference = ((ahead - behind).detach() * upstream).sum() / (2 * step)
    _close("<direction, gradient of the query>", (direction * found["query"]).sum(), difference, inputs)


def _seeded(trial: Trial, inputs: Inputs) -> Result:
    torch.manual_seed(13)
    return trial.run(inputs)


def _close(what: str, found: Tensor, expected: Tensor, inputs: Inputs) -> None:
    error = abs(float(found - expected))
    if error > 1e-6 * (1 + abs(float(expected))):
        raise Departure(f"{what} is {float(found):.9g}, expected {float(expected):.9g}", inputs=inputs)
