"""Shapes: what comes back has the size that the inputs ask for, whatever the sizes are."""

from __future__ import annotations

from ..cases import COINCIDING, PLAIN, SQUARE, Case, vary
from ..comparing import require_dtype, require_finite, require_shape
from ..rulebook import rule
from ..trial import Trial


@rule("SHAPE-001", source="Document 1, section 2 (shape of the output)", cases=(PLAIN,), smoke=True, depends=())
def output_has_the_shape_of_query_and_value(trial: Trial) -> None:
    """The output has the leading axes and length of the query, the width of the value, and the dtype of the inputs."""
    result = trial.run()
    expected = trial.expectation().output.value
    require_shape(what="output", actual=result.output, shape=tuple(expected.shape), inputs=trial.inputs)
    require_dtype(what="output", actual=result.output, dtype=trial.dtype, inputs=trial.inputs)


@rule("SHAPE-002", source="Document 1: a softmax of finite scores is finite", cases=(PLAIN,), smoke=True, depends=())
def output_of_ordinary_inputs_is_finite(trial: Trial) -> None:
    """The output of ordinary inputs is finite."""
    require_finite(what="output", actual=trial.run().output, inputs=trial.inputs)
