"""Symmetries: what attention does not depend on. They need no reference, and name the axis that is mixed up."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..cases.case import MASKED, PLAIN, SQUARE, Case, Mask
from ..cases.inputs import Inputs
from ..oracle.comparing import NotApplicable
from ..oracle.expectations import Near
from ..rulebook import rule
from ..trials.trial import Trial

_CROSS = {"inputs": "cross"}
_FREE = {"causal": (None, "top-left", "bottom-right"), "inputs": "cross"}


def _same_within(trial: Trial, what: str, actual: Tensor, other: Tensor, allowed: Tensor, inputs: Inputs) -> None:
    """Two runs of sound code differ by at most the sum of their allowances."""
    trial.near(what, actual, Near(other.detach().double(), 2 * allowed), inputs)


@rule(
    "SYMMETRY-001",
    source="leaks between batch elements are invisible at batch 1",
    cases=(
        Case("three batch elements", batch=3),
        Case("three elements, padded", batch=3, mask=Mask("padding", "B11S")),
        Case("three elements, a mask each", batch=3, mask=Mask("random", "B1LS")),
    ),
)
def batch_elements_do_not_see_each_other(trial: Trial) -> None:
    """Changing all other batch elements, their masks included, changes no bit of this one."""
    inputs = trial.inputs
    first = trial.run()
    for kept in (0, inputs.query.shape[0] - 1):
        keep = (torch.arange(inputs.query.shape[0]) == kept).reshape(-1, *[1] * (inputs.query.dim() - 1))
        changed = inputs.changed(**{name: torch.where(keep, t, t * -2 + 1) for name, t in _qkv(inputs).items()})
        if inputs.allowed is not None:
            own = (torch.arange(inputs.allowed.shape[0]) == kept)[:, None, None, None]
            changed = changed.changed(allowed=inputs.allowed | ~own)
        second = trial.run(changed)
        allowed = trial.expectation().output.allowed[kept]
        trial.unchanged(
            f"batch element {kept} after changing the others", second.output[kept], first.output[kept], allowed, changed
        )


def _qkv(inputs: Inputs) -> dict[str, Tensor]:
    return {"query": inputs.query, "key": inputs.key, "value": inputs.value}


@rule(
    "SYMMETRY-002",
    source="heads that are mixed by a view instead of a transpose",
    cases=(Case("four heads"), Case("four heads, L = S", queries=6, keys=6, value_width=8)),
    kinds=("kernel",),
)
def heads_do_not_see_each_other(trial: Trial) -> None:
    """Changing all other heads changes no bit of this one."""
    inputs = trial.inputs
    first = trial.run()
    for kept in (0, inputs.query.shape[1] - 1):
        keep = (torch.arange(inputs.query.shape[1]) == kept)[:, None, None]
        changed = inputs.changed(**{name: torch.where(keep, t, t * -2 + 1) for name, t in _qkv(inputs).items()})
        second = trial.run(changed)
        allowed = trial.expectation().output.allowed[:, kept]
        trial.unchanged(
            f"head {kept} after changing the others", second.output[:, kept], first.output[:, kept], allowed, changed
        )


@rule(
    "SYMMETRY-003",
    source="softmax over the wrong axis, leaks between rows",
    cases=(PLAIN, MASKED, Case("many queries", batch=1, heads=2, queries=19)),
    needs=_CROSS,
)
def queries_do_not_see_each_other(trial: Trial) -> None:
    """Changing all other queries changes no bit of this row."""
    inputs = trial.inputs
    first = trial.run()
    rows = inputs.query.shape[-2]
    for kept in (0, rows - 1):
        keep = (torch.arange(rows) == kept)[:, None]
        changed = inputs.changed(query=torch.where(keep, inputs.query, inputs.query * -2 + 1))
        second = trial.run(changed)
        allowed = trial.expectation().output.allowed[..., kept, :]
        trial.unchanged(
            f"row {kept} after changing the other queries",
            second.output[..., kept, :],
            first.output[..., kept, :],
            allowed,
            changed,
        )


@rule(
    "SYMMETRY-004",
    source="dropped or doubled tiles, an order that counts",
    cases=(PLAIN, Case("keys past a block", batch=1, heads=2, queries=3, keys=35)),
    needs=_FREE,
)
def order_of_keys_does_not_matter(trial: Trial) -> None:
    """Permuting keys and values together changes the output by rounding only."""
    inputs = trial.inputs
    order = torch.randperm(inputs.key.shape[-2], generator=torch.Generator().manual_seed(3))
    changed = inputs.changed(key=inputs.key[..., order, :], value=inputs.value[..., order, :])
    _same_within(
        trial,
        "output for permuted keys",
        trial.run(changed).output,
        trial.run().output,
        trial.expectation().output.allowed,
        changed,
    )


@rule("SYMMETRY-005", source="positions that leak into the result", cases=(PLAIN,), needs=_FREE)
def permuted_queries_give_permuted_rows(trial: Trial) -> None:
    """Permuting the queries permutes the rows of the output."""
    inputs = trial.inputs
    order = torch.randperm(inputs.query.shape[-2], generator=torch.Generator().manual_seed(4))
    changed = inputs.changed(query=inputs.query[..., order, :])
    _same_within(
        trial,
        "row of a permuted query",
        trial.run(changed).output,
        trial.run().output[..., order, :],
        trial.expectation().output.allowed[..., order, :],
        changed,
    )


@rule(
    "SYMMETRY-006",
    source="dependence on the size of the batch",
    cases=(Case("five batch elements", batch=5), Case("three elements, masked", batch=3, mask=Mask("random", "LS"))),
)
def batch_equals_its_elements_one_by_one(trial: Trial) -> None:
    """Each batch element alone gives what it gives in the batch, up to rounding."""
    inputs = trial.inputs
    whole = trial.run().output
    for element in (0, inputs.query.shape[0] - 1):
        alone = trial.run(_element(inputs, element)).output
        allowed = trial.expectation().output.allowed[element : element + 1]
        _same_within(trial, f"batch element {element} alone", alone, whole[element : element + 1], allowed, inputs)


def _element(inputs: Inputs, element: int) -> Inputs:
    pick = slice(element, element + 1)
    case = replace(inputs.case, batch=1)
    return inputs.changed(case=case, **{name: tensor[pick] for name, tensor in _qkv(inputs).items()})


@rule(
    "SYMMETRY-007",
    source="padding that is counted as keys",
    cases=(Case("tail of keys hidden", keys=9, mask=Mask("tail hidden", "LS", ("bool", "number", "additive"))),),
    needs={**_FREE, "lengths": ("any", "at most")},
)
def hidden_tail_equals_a_shorter_input(trial: Trial) -> None:
    """Hiding the last keys from everybody gives what leaving them out gives."""
    inputs = trial.inputs
    kept = inputs.key.shape[-2] - 3
    case = replace(inputs.case, keys=kept, mask=None)
    shorter = inputs.changed(case=case, allowed=None, key=inputs.key[..., :kept, :], value=inputs.value[..., :kept, :])
    _same_within(
        trial,
        "output without the hidden tail",
        trial.run(shorter).output,
        trial.run().output,
        trial.expectation().output.allowed,
        inputs,
    )


@rule(
    "SYMMETRY-008",
    source="linearity in the value, one column at a time",
    cases=(PLAIN, MASKED),
    kinds=("kernel",),
    needs=_CROSS,
)
def columns_of_the_value_do_not_mix(trial: Trial) -> None:
    """Each column of the output depends on the same column of the value only, and doubling it doubles the result."""
    inputs = trial.inputs
    if inputs.value.shape[-1] < 2:
        raise NotApplicable(f"widths={trial.capabilities.widths!r}")
    first = trial.run()
    keep = torch.arange(inputs.value.shape[-1]) == 0
    changed = inputs.changed(value=torch.where(keep, inputs.value, inputs.value * -2 + 1))
    allowed = trial.expectation().output.allowed[..., 0]
    trial.unchanged(
        "first column after changing the others",
        trial.run(changed).output[..., 0],
        first.output[..., 0],
        allowed,
        changed,
    )
    doubled = inputs.changed(value=inputs.value * 2)
    _same_within(
        trial,
        "output for twice the value",
        trial.run(doubled).output / 2,
        first.output,
        trial.expectation().output.allowed,
        doubled,
    )


@rule(
    "SYMMETRY-009",
    source="Faults that need L = S, and query, key and value of one shape",
    cases=(SQUARE,),
    needs=_CROSS,
)
def query_key_and_value_keep_their_parts(trial: Trial) -> None:
    """Exchanging key and value, or query and key, changes the output as the definition says."""
    inputs = trial.inputs
    if inputs.key.shape != inputs.value.shape:
        raise NotApplicable(f"value_width={trial.capabilities.value_width!r}")
    swapped = inputs.changed(key=inputs.value, value=inputs.key)
    trial.agrees(trial.run(swapped), swapped)
    if inputs.key.shape == inputs.query.shape:
        turned = inputs.changed(query=inputs.key, key=inputs.query)
        trial.agrees(trial.run(turned), turned)


@rule(
    "SYMMETRY-010",
    source="elements that are told apart by their place in the batch",
    cases=(Case("four batch elements", batch=4), Case("four elements, padded", batch=4, mask=Mask("padding", "B11S"))),
)
def order_of_batch_elements_does_not_matter(trial: Trial) -> None:
    """Batch elements in another order give their outputs in that order, up to rounding."""
    inputs = trial.inputs
    order = torch.tensor([2, 0, 3, 1])
    changed = inputs.changed(**{name: tensor[order] for name, tensor in _qkv(inputs).items()})
    if inputs.allowed is not None:
        changed = changed.changed(allowed=inputs.allowed[order])
    expected, allowed = trial.run().output[order], trial.expectation().output.allowed[order]
    _same_within(
        trial, "output for the elements in another order", trial.run(changed).output, expected, allowed, changed
    )


@rule(
    "SYMMETRY-011",
    source="heads that are told apart by their number (a slope or a scale per head)",
    cases=(PLAIN, Case("four heads, a mask each", mask=Mask("random", "1HLS"))),
    kinds=("kernel",),
)
def order_of_heads_does_not_matter(trial: Trial) -> None:
    """Heads in another order give their outputs in that order, up to rounding."""
    inputs = trial.inputs
    order = torch.tensor([2, 0, 3, 1])
    changed = inputs.changed(**{name: tensor[:, order] for name, tensor in _qkv(inputs).items()})
    if inputs.allowed is not None:
        changed = changed.changed(allowed=inputs.allowed[:, order])
    expected, allowed = trial.run().output[:, order], trial.expectation().output.allowed[:, order]
    _same_within(trial, "output for the heads in another order", trial.run(changed).output, expected, allowed, changed)


_BACKWARD = {"gradient": ("once", "twice"), "inputs": "cross"}


@rule(
    "SYMMETRY-012",
    source="gradients that are clipped or normalised over the whole batch",
    cases=(
        Case("gradients of three elements", batch=3),
        Case("gradients, masked", batch=3, mask=Mask("random", "B1LS")),
    ),
    modes=("train",),
    needs=_BACKWARD,
)
def gradients_of_batch_elements_do_not_see_each_other(trial: Trial) -> None:
    """Making all other batch elements and their upstream gradients much larger changes no gradient of this one."""
    inputs = trial.inputs
    first = trial.input_gradients(trial.run())
    keep = (torch.arange(inputs.query.shape[0]) == 1).reshape(-1, *[1] * (inputs.query.dim() - 1))
    names = ("value", "upstream")
    changed = inputs.changed(**{name: torch.where(keep, t, t * -32 + 1) for name, t in _named(inputs, names).items()})
    second = trial.input_gradients(trial.run(changed), changed)
    expected = trial.expected_gradients()
    for name, gradient in first.items():
        _gradient_unchanged(trial, f"gradient of the {name} of batch element 1", second[name][1], gradient[1],
                            expected[name].allowed[1], changed)  # fmt: skip


def _named(inputs: Inputs, names: tuple[str, ...]) -> dict[str, Tensor]:
    return {name: getattr(inputs, name) for name in names}


def _gradient_unchanged(
    trial: Trial, what: str, actual: Tensor, before: Tensor, allowed: Tensor, inputs: Inputs
) -> None:
    """Compare gradients bit for bit, or within both allowances where the backward pass is not deterministic."""
    if trial.capabilities.deterministic == "yes":
        trial.unchanged(what, actual, before, allowed, inputs)
    else:
        _same_within(trial, what, actual, before, allowed, inputs)


@rule(
    "SYMMETRY-013",
    source="gradients that are clipped or normalised over rows",
    cases=(PLAIN, MASKED),
    modes=("train",),
    needs=_BACKWARD,
)
def gradients_of_queries_do_not_see_each_other(trial: Trial) -> None:
    """Making the upstream gradient of all other rows much larger changes no bit of a query's gradient."""
    inputs = trial.inputs
    first = trial.input_gradients(trial.run())["query"][..., 1, :]
    keep = (torch.arange(inputs.upstream.shape[-2]) == 1)[:, None]
    changed = inputs.changed(upstream=torch.where(keep, inputs.upstream, inputs.upstream * -64 + 1))
    second = trial.input_gradients(trial.run(), changed)["query"][..., 1, :]
    allowed = trial.expected_gradients()["query"].allowed[..., 1, :]
    _gradient_unchanged(trial, "gradient of query 1", second, first, allowed, changed)
