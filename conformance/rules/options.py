"""Options: what is offered beyond the plain call, where it is declared.

An option that is ignored disagrees with the expectation: no option here leaves the result as it was, but for a dropout
of zero, an option of None and a window longer than the keys.
"""

from __future__ import annotations

import re
from dataclasses import replace

import torch
from torch import Tensor

from ..cases.case import SMALL, Case, Mask, vary
from ..conventions.table import ALL_KINDS
from ..experiments.dropping import counting, require_binomial, require_close, seeded
from ..foreign.edge import Raised
from ..oracle.bounds import units
from ..oracle.comparing import Departure, NotApplicable, require_equal
from ..rulebook import rule
from ..trials.trial import Trial

_BIAS_AXES = ("LS", "11LS", "1HLS", "B1LS", "BHLS", "B11S")


@rule(
    "OPTIONS-001",
    source="Reports of a scale that one path ignores (huggingface/transformers#44380, lucidrains/x-transformers#244)",
    cases=(
        Case("scale 1", scale=1.0),
        Case("scale 0.5, masked", scale=0.5, mask=Mask("random", "LS")),
        Case("scale 0.05", scale=0.05, width=16),
        Case("scale 0", scale=0.0),
        Case("scale 0, masked", scale=0.0, mask=Mask("random", "LS")),
        Case("negative scale", scale=-0.25),
        Case("negative scale, masked", scale=-0.6, mask=Mask("random", "BHLS", ALL_KINDS)),
        Case("scale 2, an integer", scale=2, width=4),
        Case("scale 2, causal", scale=2.0, width=4, causal=True, queries=6, keys=6),
        Case("scale 0.25, causal and masked", scale=0.25, causal=True, queries=6, keys=6, mask=Mask("padding", "B11S")),
    ),
    needs={"options": "scale"},
)
def passed_scale_replaces_the_default(trial: Trial) -> None:
    """A scale that is passed multiplies the scores instead of the default; zero and negative ones are scales as well.

    Scale zero makes every allowed key count alike, whatever the query.
    """
    trial.agrees(trial.run())


@rule(
    "OPTIONS-002",
    source="Known kind of fault: mask fill value or place; a finite bias is added after the scale (tenstorrent/tt-metal#42891)",
    cases=tuple(Case(f"bias {axes}", bias=axes) for axes in _BIAS_AXES)
    + (
        Case("bias and mask", bias="1HLS", mask=Mask("random", "LS")),
        Case("bias and an empty row", bias="BHLS", mask=Mask("empty row", "LS")),
        Case("bias and key padding", bias="11LS", mask=Mask("padding", "B11S", (*ALL_KINDS, "lengths"))),
    ),
    needs={"options": "bias"},
)
def bias_is_added_to_the_scaled_scores(trial: Trial) -> None:
    """A bias of any broadcast shape is added to the scaled scores before the softmax."""
    trial.agrees(trial.run())


@rule(
    "OPTIONS-003",
    source="Reports of a bias without a gradient, or for batch 1 only (jax-ml/jax#27184, jax-ml/jax#30593)",
    cases=tuple(Case(f"gradient of a bias {axes}", bias=axes) for axes in _BIAS_AXES)
    + (
        Case("gradient of a bias, masked", bias="1HLS", mask=Mask("random", "LS")),
        Case("gradient of a bias of sharp scores", bias="BHLS", values="sharp", width=16),
        Case("gradient of a bias past a block", bias="1HLS", heads=2, queries=17, keys=33),
    ),
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
        Case("window 1, causal, L < S", window=1, causal=True),
        Case("window 2, causal, L < S", window=2, causal=True),
        Case("window 3, L longer", window=3, queries=7, keys=5),
        Case("window longer than S", window=20),
        Case("window longer than S, causal", window=9, causal=True, queries=6, keys=6),
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
        Case("cap 30, huge scores", softcap=30.0, values="huge scores", width=16),
        Case("cap 1, key padding", softcap=1.0, mask=Mask("padding", "B11S", (*ALL_KINDS, "lengths"))),
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
        Case("gradient under cap 5, sharp", softcap=5.0, values="sharp", width=16),
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
        Case("gradient, 6 heads over 2, mask per head", heads=6, kv_heads=2, mask=Mask("random", "BHLS", ALL_KINDS)),
        Case("gradient, 4 heads over 2, causal", kv_heads=2, causal=True, queries=6, keys=6),
    ),
    needs={"heads": "grouped", "gradient": ("once", "twice")},
    kinds=("kernel",),
    modes=("train",),
)
def gradients_of_shared_heads_are_summed(trial: Trial) -> None:
    """The gradient of a shared key and value head is the sum over its query heads."""
    trial.gradients_agree(trial.run())


@rule(
    "OPTIONS-009",
    source="Vaswani et al. 2017, section 5.4; dropout without rescale, on the output, or always on",
    cases=(counting(0.5), counting(0.2), counting(0.05)),
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
    result = seeded(trial, inputs)
    torch.manual_seed(14)
    found = trial.input_gradients(result)
    upstream = inputs.upstream.double()
    by_value = (inputs.value.double() * found["value"]).sum()
    by_output = (result.output.detach() * upstream).sum()
    require_close("<value, its gradient>", by_value, by_output, inputs)
    step = 1e-6
    for seed, name in ((5, "query"), (6, "key")):
        tensor: Tensor = getattr(inputs, name)
        direction = torch.randn(tensor.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        ahead, behind = (
            seeded(trial, inputs.changed(**{name: tensor + sign * step * direction})).output for sign in (1, -1)
        )
        difference = ((ahead - behind).detach() * upstream).sum() / (2 * step)
        require_close(f"<direction, gradient of the {name}>", (direction * found[name]).sum(), difference, inputs)


@rule(
    "OPTIONS-013",
    source="A backward pass that takes the default where the forward pass took the option",
    cases=(
        Case("gradient under scale 0.6", scale=0.6),
        Case("gradient under a negative scale, masked", scale=-0.3, mask=Mask("random", "LS")),
        Case("gradient under scale 0", scale=0.0),
        Case("gradient within a window", window=3, queries=6, keys=6),
        Case("gradient within a causal window", window=3, queries=9, keys=9, causal=True),
        Case("gradient within a window past a block", window=5, batch=1, heads=2, queries=37, keys=37),
    ),
    modes=("train",),
    needs={"options": ("scale", "window"), "gradient": ("once", "twice")},
)
def gradients_follow_scale_and_window(trial: Trial) -> None:
    """The gradients follow a passed scale and a window as the output does."""
    trial.gradients_agree(trial.run())


_PAIRS = (
    Case("grouped heads and a window", kv_heads=2, window=3, queries=6, keys=6),
    Case("grouped heads under cap 1", kv_heads=2, softcap=1.0),
    Case("grouped heads and a bias per query head", kv_heads=2, bias="1HLS"),
    Case("grouped heads and a scale", kv_heads=2, scale=0.6),
    Case("causal, bias and mask", causal=True, bias="1HLS", queries=6, keys=6, mask=Mask("padding", "B11S", ALL_KINDS)),
    Case("causal and bias", causal=True, bias="BHLS", queries=6, keys=6),
    Case("window under cap 1", window=3, softcap=1.0, queries=6, keys=6),
    Case("window and bias", window=3, bias="1HLS", queries=6, keys=6),
    Case("window and scale", window=3, scale=0.6, queries=6, keys=6),
    Case("scale under cap 1", scale=0.6, softcap=1.0),
    Case("negative scale under cap 1", scale=-0.6, softcap=1.0),
    Case("scale and bias", scale=0.6, bias="BHLS"),
    Case("scale 0 and bias", scale=0.0, bias="BHLS"),
    Case("grouped heads, causal window, mask", kv_heads=2, causal=True, window=4, queries=6, keys=6,
         mask=Mask("padding", "B11S", ALL_KINDS)),
    Case("scale, cap 1 and bias, causal", scale=0.6, softcap=1.0, bias="1HLS", causal=True, queries=6, keys=6),
)  # fmt: skip

_REFUSAL = re.compile(
    r"(?i)support|implement|both|together|combin|at the same time|incompatible|mutually|only one|can ?not|must not"
)
"""What an error says that refuses two options together, where its type does not; another error is a fault."""


def _is_refusal(error: Raised) -> bool:
    return error.kind in ("ValueError", "NotImplementedError", "AssertionError") or bool(_REFUSAL.search(error.text))


@rule(
    "OPTIONS-014",
    source="Each option alone is right and two together are not: a path for one forgets the other (huggingface/transformers#44380)",
    cases=_PAIRS,
)
def options_hold_together(trial: Trial) -> None:
    """Options that are passed together all hold, in the output and in the gradients; what cannot be combined is refused."""
    case = trial.case
    if case.causal and case.bias is not None and trial.capabilities.causal_with_mask != "and":
        raise NotApplicable(f"causal_with_mask={trial.capabilities.causal_with_mask!r}")
    try:
        result = trial.run()
    except Raised as refusal:
        if _is_refusal(refusal):
            raise NotApplicable("the options are refused together") from None
        raise
    trial.agrees(result)
    if trial.mode == "train" and trial.capabilities.gradient != "none":
        trial.gradients_agree(result)


@rule(
    "OPTIONS-015",
    source="An option passed as None is an option not passed; torch's own functions read it so",
    cases=(SMALL, vary(SMALL, "small, masked, options None", mask=Mask("random", "LS"))),
    needs={"options": ("scale", "bias", "window", "softcap")},
)
def option_of_none_is_no_option(trial: Trial) -> None:
    """An option that is passed as None, where None is taken, changes nothing."""
    taken = 0
    for name in ("scale", "bias", "window", "softcap"):
        if name not in trial.capabilities.options:
            continue
        delivered = trial.subject.deliver(trial.inputs)
        delivered = replace(delivered, options={**delivered.options, name: None})
        try:
            result = trial.subject.call(delivered, trial.inputs)
        except Raised:
            continue
        taken += 1
        near, ignore = trial.expectation().output, trial.expectation().unspecified_rows
        trial.near(f"output with {name}=None", result.output, near, ignore=ignore)
    if not taken:
        raise NotApplicable("no option is taken as None")


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
    first = seeded(trial, inputs).output
    second = seeded(trial, inputs.changed(**moved)).output
    require_equal(what="output after hidden keys were changed", actual=second, expected=first, inputs=inputs)
