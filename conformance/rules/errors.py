"""Errors: bad input raises; it never gets a silent answer."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ..cases.case import Case, Mask
from ..cases.inputs import Inputs
from ..cases.layouts import KERNEL_LAYOUTS, hides_heads
from ..foreign.edge import Raised
from ..oracle.comparing import Departure, NotApplicable, require_shape
from ..rulebook import rule
from ..trials.trial import Trial

_BASE = Case("bad input", batch=2, heads=4, queries=5, keys=6, width=8, value_width=8)


def _must_raise(trial: Trial, inputs: Inputs, what: str) -> None:
    """Call with tensors that do not fit together; any exception will do, a result will not."""
    try:
        result = trial.run(inputs)
    except Raised:
        return
    raise Departure(f"{what} gave an output of shape {tuple(result.output.shape)} instead of an error", inputs=inputs)


@rule(
    "ERRORS-001",
    source="q k^T is defined for equal widths only",
    cases=(_BASE,),
    dtypes="once",
    depends=(),
    needs={"inputs": "cross"},
)
def key_narrower_than_the_query_raises(trial: Trial) -> None:
    """A key narrower than the query is an error."""
    inputs = trial.inputs
    width = inputs.key.shape[-1] - 1
    if width == 0:
        return
    _must_raise(
        trial,
        inputs.changed(key=_resized(inputs.key, -1, width)),
        f"a key of width {width} for a query of width {width + 1}",
    )


@rule(
    "ERRORS-002",
    source="Each key has one value; torch's CPU kernel for D = E does not look",
    cases=(replace(_BASE, name="bad input, E differs from D", value_width=5),),
    dtypes="once",
    depends=(),
    needs={"inputs": "cross"},
    kinds=("kernel",),
)
def fewer_values_than_keys_raise(trial: Trial) -> None:
    """Fewer values than keys are an error."""
    if trial.inputs.value.shape[-1] == trial.inputs.key.shape[-1]:
        raise NotApplicable(f"value_width={trial.capabilities.value_width!r}")
    inputs = trial.inputs
    length = inputs.value.shape[-2] - 1
    _must_raise(
        trial, inputs.changed(value=_resized(inputs.value, -2, length)), f"{length + 1} keys with {length} values"
    )


@rule(
    "ERRORS-007",
    source="What no loop reads is not missed: longer values, wider keys",
    cases=(_BASE,),
    dtypes="once",
    depends=(),
    needs={"inputs": "cross"},
    thorough=True,
)
def inputs_that_exceed_their_counterpart_raise(trial: Trial) -> None:
    """Values longer or shorter than the keys, and keys wider than the query, are an error and not cropped."""
    inputs = trial.inputs
    wider = inputs.key.shape[-1] + 8
    _must_raise(
        trial,
        inputs.changed(key=_resized(inputs.key, -1, wider)),
        f"a key of width {wider} for a query of width {wider - 8}",
    )
    for length in (inputs.value.shape[-2] - 1, inputs.value.shape[-2] + 2):
        value = _resized(inputs.value, -2, length)
        _must_raise(trial, inputs.changed(value=value), f"{inputs.key.shape[-2]} keys with {length} values")


@rule(
    "ERRORS-003",
    source="Batches of 2 and 3 do not broadcast; folded into the length they mix sequences",
    cases=(_BASE,),
    dtypes="once",
    depends=(),
    needs={"inputs": "cross"},
)
def different_batches_raise(trial: Trial) -> None:
    """A key and value of another batch size than the query are an error, larger or smaller."""
    inputs = trial.inputs
    for queries, keys in ((2, 3), (2, 4), (4, 2)):
        changed = inputs.changed(
            query=_resized(inputs.query, 0, queries),
            key=_resized(inputs.key, 0, keys),
            value=_resized(inputs.value, 0, keys),
        )
        _must_raise(trial, changed, f"a query batch of {queries} with a key batch of {keys}")


@rule(
    "ERRORS-009",
    source="Each key has one value, in its own batch element",
    cases=(_BASE,),
    dtypes="once",
    depends=(),
    needs={"inputs": "cross"},
)
def value_of_a_smaller_batch_than_the_key_raises(trial: Trial) -> None:
    """A value of fewer batch elements than the key is an error.

    One of more elements is not asked for: a loop over the elements never meets the last.
    """
    inputs = trial.inputs
    for keys, values in ((4, 3), (3, 2)):
        changed = inputs.changed(
            query=_resized(inputs.query, 0, keys),
            key=_resized(inputs.key, 0, keys),
            value=_resized(inputs.value, 0, values),
        )
        _must_raise(trial, changed, f"a key batch of {keys} with a value batch of {values}")


@rule(
    "ERRORS-004",
    source="Heads of 4 and 3 neither broadcast nor group",
    cases=(_BASE,),
    dtypes="once",
    depends=(),
    kinds=("kernel",),
    needs={"inputs": "cross", "layout": tuple(word for word in KERNEL_LAYOUTS if not hides_heads(word))},
)
def different_heads_raise(trial: Trial) -> None:
    """A number of key heads that does not divide the number of query heads, or differs from that of value heads, is an error."""
    inputs = trial.inputs
    if inputs.query.dim() < 4:
        return
    key, value = _resized(inputs.key, 1, 3), _resized(inputs.value, 1, 3)
    _must_raise(trial, inputs.changed(key=key, value=value), f"{inputs.query.shape[1]} query heads with 3 key heads")
    _must_raise(trial, inputs.changed(value=value), f"{inputs.key.shape[1]} key heads with 3 value heads")
    query = _resized(inputs.query, 1, 6)
    _must_raise(trial, inputs.changed(query=query), f"6 query heads with {inputs.key.shape[1]} key heads")


_BAD_MASKS = {
    "LS": ((5, 7), (5, 5), (6, 6), (4, 6), (6, 5)),
    "B1LS": ((3, 1, 5, 6), (2, 2, 5, 6), (2, 1, 6, 5)),
    "BHLS": ((3, 4, 5, 6), (2, 2, 5, 6), (2, 3, 5, 6)),
}
"""Shapes of masks that fit no batch 2, heads 4, length 5 and 6 keys, by the pattern they are near to."""


@rule(
    "ERRORS-005",
    source="A mask of another size is read out of bounds, reshaped or cropped (flashinfer-ai/flashinfer#3176)",
    cases=tuple(replace(_BASE, name=f"bad mask {axes}", mask=Mask("random", axes)) for axes in _BAD_MASKS),
    dtypes="once",
    depends=(),
)
def masks_that_do_not_broadcast_raise(trial: Trial) -> None:
    """A mask that does not broadcast to (..., L, S) is an error: longer, shorter, transposed, of other batch or heads."""
    delivered = trial.subject.deliver(trial.inputs)
    mask, sizes = delivered.mask, trial.inputs.sizes
    wanted = trial.case.mask
    if mask is None or wanted is None or mask.dim() != len(wanted.axes) or sizes["L"] != 5 or sizes["S"] != 6:
        raise NotApplicable(f"mask_shapes={trial.capabilities.mask_shapes!r}")
    for shape in _BAD_MASKS[wanted.axes]:
        wrong = torch.ones(shape, dtype=mask.dtype)
        try:
            result = trial.subject.call(replace(delivered, mask=wrong), trial.inputs)
        except Raised:
            continue
        raise Departure(
            f"a mask of shape {shape} for batch {sizes['B']}, {sizes['H']} heads, {sizes['L']} queries and "
            f"{sizes['S']} keys gave an output of shape {tuple(result.output.shape)} instead of an error",
            inputs=trial.inputs,
        )


@rule(
    "ERRORS-006",
    source="Document 1 does not check it, document 2 asserts it",
    cases=(Case("d_model 10, 4 heads, length 4", heads=4, queries=4, keys=4),),
    dtypes="once",
    depends=(),
    kinds=("module",),
    needs={"widths": "any", "inputs": "cross", "causal": (None, "top-left", "bottom-right")},
)
def model_width_that_heads_do_not_divide_raises(trial: Trial) -> None:
    """A d_model that the number of heads does not divide is an error, or leaves every position whole.

    Reshaped into heads it may fit again at some lengths, and features of one position become another's: then the
    order of keys matters.
    """
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(2, 4, 10, generator=generator, dtype=torch.float64).to(trial.inputs.query.dtype)
    turned = x[:, [2, 0, 3, 1]]
    inputs = trial.inputs.changed(query=x, key=x, value=x)
    try:
        module = trial.subject.build(10, 4).train(trial.mode == "train")
        first = trial.subject.run(inputs, module)
        second = trial.subject.run(inputs.changed(key=turned, value=turned), module)
    except Raised:
        return
    require_shape(what="output for d_model 10 with 4 heads", actual=first.output, shape=(2, 4, 10), inputs=inputs)
    if not torch.allclose(first.output, second.output, 1e-3, 1e-3):
        raise Departure(
            "d_model 10 with 4 heads gave an output that depends on the order of the keys, instead of an error",
            inputs=inputs,
        )


def _resized(tensor: Tensor, axis: int, size: int) -> Tensor:
    """Return `tensor` cut or repeated along one axis."""
    have = tensor.shape[axis]
    index = torch.arange(size) % have
    return tensor.index_select(axis % tensor.dim(), index)


@rule("ERRORS-008", source="A linear map has one width", cases=(_BASE,), dtypes="once", depends=(), kinds=("module",))
def inputs_of_another_width_than_the_module_raise(trial: Trial) -> None:
    """Inputs wider or narrower than d_model are an error."""
    inputs = trial.inputs
    for width in (inputs.query.shape[-1] + 4, inputs.query.shape[-1] - 4):
        resized = {name: _resized(getattr(inputs, name), -1, width) for name in ("query", "key", "value")}
        _must_raise(trial, inputs.changed(**resized), f"inputs of width {width} for d_model {inputs.query.shape[-1]}")
