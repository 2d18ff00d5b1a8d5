"""Shapes: what comes back has the size that the inputs ask for, and the right values at every size."""

from __future__ import annotations

from ..cases.case import COINCIDING, PLAIN, SQUARE, Case, Mask
from ..conventions.reading import declaration, read
from ..conventions.table import CONVENTIONS
from ..foreign.edge import Raised, WrongResult, foreign
from ..oracle.comparing import Departure, NotApplicable, require_dtype, require_finite, require_shape
from ..rulebook import rule
from ..trials.trial import Trial

ONES = (
    Case("batch 1", batch=1),
    Case("one head", heads=1),
    Case("one query", queries=1),
    Case("one key", keys=1),
    Case("one of everything", batch=1, heads=1, queries=1, keys=1),
    Case("one query, one head, masked", heads=1, queries=1, mask=Mask("random", "LS")),
)

LENGTHS = tuple(
    Case(f"{queries} queries, {keys} keys", batch=1, heads=2, queries=queries, keys=keys, value_width=5)
    for queries, keys in ((15, 16), (16, 17), (17, 31), (33, 32), (4, 63), (64, 65), (3, 129), (130, 7))
    + ((31, 15), (32, 64), (63, 33), (65, 5), (3, 127), (2, 128), (127, 3), (128, 2), (129, 4))
)

LONG = tuple(
    Case(f"{queries} queries, {keys} keys", batch=1, heads=1, queries=queries, keys=keys, value_width=5)
    for queries, keys in ((2, 255), (2, 256), (2, 257), (255, 3), (256, 2), (257, 3), (260, 3), (1, 511), (2, 1023))
)

SQUARES = tuple(
    Case(f"{length} queries and keys", batch=1, heads=1, queries=length, keys=length, value_width=5)
    for length in (15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257)
)

VERY_LONG = tuple(
    Case(f"{queries} queries, {keys} keys", batch=1, heads=1, queries=queries, keys=keys, value_width=5)
    for queries, keys in ((1, 1025), (1, 2049), (1030, 3))
)


@rule("SHAPE-001", source="Document 1, section 2 (shape of the output)", cases=(PLAIN,), smoke=True, depends=())
def output_has_the_shape_of_query_and_value(trial: Trial) -> None:
    """The output has the leading axes and length of the query, the width of the value, and the dtype of the inputs."""
    try:
        result = trial.run()
        expected = trial.expectation().output.value
        require_shape(what="output", actual=result.output, shape=tuple(expected.shape), inputs=trial.inputs)
        require_dtype(what="output", actual=result.output, dtype=trial.dtype, inputs=trial.inputs)
    except (Departure, Raised, WrongResult) as problem:
        # Axes in another order are the likeliest reason, and then nothing else can be said.
        reading = read(trial, CONVENTIONS["layout"])
        if not reading.changes:
            raise
        declare = declaration(reading.changes)
        raise Departure(f"{problem}; with {declare} it agrees", inputs=trial.inputs, declare=declare) from problem


@rule("SHAPE-002", source="Document 1: a softmax of finite scores is finite", cases=(PLAIN,), smoke=True, depends=())
def output_of_ordinary_inputs_is_finite(trial: Trial) -> None:
    """The output of ordinary inputs is finite."""
    require_finite(what="output", actual=trial.run().output, inputs=trial.inputs)


@rule("SHAPE-005", source="Sizes of 1 are squeezed or broadcast by mistake (a known kind of fault: layout)", cases=ONES)
def sizes_of_one_change_nothing(trial: Trial) -> None:
    """An axis of size 1 is treated like any other size."""
    trial.agrees(trial.run())


@rule(
    "SHAPE-006",
    source="Sizes that coincide hide and provoke exchanged axes (a known kind of fault: layout, head split)",
    cases=(
        SQUARE,
        COINCIDING,
        Case("L = H", queries=4, keys=7),
        Case("B = L", batch=5, queries=5),
        Case("B = S", batch=3, queries=5, keys=3),
        Case("L = D", queries=8, keys=5),
        Case("S = D", queries=5, keys=8),
        Case("B = H", batch=4, queries=3),
        Case("S = H", queries=5, keys=4),
    ),
)
def coinciding_sizes_are_told_apart(trial: Trial) -> None:
    """Axes of equal size are told apart."""
    trial.agrees(trial.run())


@rule(
    "SHAPE-007",
    source="Kernels of D padded to 8, of E taken as D, of at most 64 features (a known kind of fault: value dim, scale)",
    cases=(
        Case("odd width below 8", width=5, value_width=3),
        Case("odd width above 8", width=11, value_width=13),
        Case("width 1", width=1, value_width=2),
        Case("value wider than key", width=4, value_width=9),
        Case("value width 1", value_width=1),
        Case("width 40", batch=1, heads=2, width=40, value_width=24),
        Case("width 65", batch=1, heads=2, width=65, value_width=70),
        Case("width 128", batch=1, heads=2, width=128, value_width=130),
    ),
)
def widths_of_any_size_are_read_whole(trial: Trial) -> None:
    """Every feature of query, key and value counts, at odd widths and at widths past a block."""
    trial.agrees(trial.run())


@rule(
    "SHAPE-008",
    source="Tails of blocks scored 0 or dropped (a known kind of fault: block tails, index width)",
    cases=LENGTHS,
)
def lengths_around_blocks_are_read_whole(trial: Trial) -> None:
    """Every key and query counts at lengths below, at and past a block."""
    trial.agrees(trial.run())


@rule(
    "SHAPE-009", source="Index arithmetic that wraps (a known kind of fault: large sizes)", cases=LONG, dtypes="first"
)
def long_inputs_are_read_whole(trial: Trial) -> None:
    """Every key and query counts at lengths past several blocks."""
    trial.agrees(trial.run())


@rule(
    "SHAPE-014",
    source="Index arithmetic that wraps (a known kind of fault: large sizes); modules often have a largest length",
    cases=VERY_LONG,
    dtypes="first",
    kinds=("kernel",),
)
def very_long_inputs_are_read_whole(trial: Trial) -> None:
    """A kernel reads every key and query at lengths above 1024."""
    trial.agrees(trial.run())


@rule(
    "SHAPE-010",
    source="Document 1, section 2: (batch_size, ..., seq_len, d_k)",
    cases=(
        Case("two axes", leading=""),
        Case("three axes", leading="B"),
        Case("five axes", leading="GBH"),
        Case("two axes, masked", leading="", mask=Mask("random", "LS")),
        Case("three axes, B = L = S", leading="B", batch=5, queries=5, keys=5),
        Case("three axes, masked", leading="B", mask=Mask("random", "LS")),
        Case("three axes, B = H", leading="B", batch=4),
        Case("five axes, B = H = L", leading="GBH", batch=4, queries=4),
        Case("five axes, masked", leading="GBH", mask=Mask("random", "LS")),
    ),
    kinds=("kernel",),
)
def any_number_of_leading_axes_is_kept(trial: Trial) -> None:
    """Any number of leading axes is kept, none included."""
    trial.agrees(trial.run())


@rule(
    "SHAPE-011",
    source="Document 1 broadcasts by torch.matmul",
    cases=(
        Case("key and value of batch and head 1", broadcast=("key", "value")),
        Case("query of batch and head 1", broadcast=("query",)),
        Case("value of batch and head 1", broadcast=("value",)),
    ),
    kinds=("kernel",),
    needs={"layout": "...LD"},
)
def leading_axes_broadcast(trial: Trial) -> None:
    """Leading axes of size 1 broadcast against those of the other inputs."""
    trial.agrees(trial.run())


@rule(
    "SHAPE-012",
    source="Empty batches and empty queries occur in packed and distributed training (a known kind of fault: zero-size input)",
    cases=(Case("no queries", queries=0), Case("empty batch", batch=0)),
    dtypes="first",
    kinds=("kernel",),
)
def empty_inputs_give_empty_outputs(trial: Trial) -> None:
    """No queries give an output of length 0, and an empty batch an empty output."""
    no_keys = trial.capabilities.no_keys
    if trial.inputs.key.shape[-2] == 0 and no_keys in ("error", "unspecified"):
        raise NotApplicable(f"no_keys={no_keys!r}")
    trial.agrees(trial.run())


@rule(
    "SHAPE-013",
    source="Document 1's module raises for an empty batch: the length cannot be told from no elements",
    cases=(Case("module, no queries", queries=0), Case("module, empty batch", batch=0)),
    dtypes="first",
    kinds=("module",),
)
def empty_inputs_of_a_module_give_empty_outputs_or_raise(trial: Trial) -> None:
    """No queries and an empty batch give a module an output of that size or an error, never other numbers."""
    try:
        result = trial.run()
    except Raised:
        return
    trial.agrees(result)


@rule(
    "SHAPE-015",
    source="Tails of blocks where both lengths end at one (a known kind of fault: block tails)",
    cases=SQUARES,
    thorough=True,
)
def equal_lengths_around_blocks_are_read_whole(trial: Trial) -> None:
    """Every key and query counts where both lengths lie below, at or past a block."""
    trial.agrees(trial.run())


@rule(
    "SHAPE-016",
    source="Reports of a backward pass that fails for an empty batch (pytorch/pytorch#195812)",
    cases=(
        Case("gradient of no queries", queries=0),
        Case("gradient of an empty batch", batch=0),
        Case("gradient of no keys", keys=0),
    ),
    dtypes="first",
    modes=("train",),
    needs={"gradient": ("once", "twice"), "no_keys": "zeros"},
)
def gradients_of_empty_inputs_are_zero(trial: Trial) -> None:
    """Without queries, keys or batch elements every gradient that arrives is zero, and none is NaN.

    A module may raise for empty inputs, and a result that depends on nothing needs no gradient.
    """
    try:
        result = trial.run()
    except Raised:
        if trial.is_module:
            return
        raise
    if not result.output.requires_grad:
        return
    sent = list(dict.fromkeys((result.delivered.query, result.delivered.key, result.delivered.value)))
    foreign(result.output.sum().backward)
    for tensor in sent:
        if tensor.grad is not None and bool((tensor.grad != 0).any()):
            raise Departure("a gradient of empty inputs is not zero", inputs=trial.inputs, ratio=float("inf"))
