"""The population of faulty implementations, one file per place of the fault.

`MUTANTS` holds them all. Every one departs from its reference in a single respect and is sound otherwise.
"""

from __future__ import annotations

from ..mutant import Mutant
from . import (
    blocks,
    broadcast,
    causal,
    dropout,
    edges,
    empty_rows,
    errors,
    fills,
    gradient_flow,
    gradients,
    groups,
    identities,
    masks,
    memory,
    mixing,
    module_state,
    modules,
    option_pairs,
    options,
    paths,
    precision,
    probes,
    projections,
    scale,
    searched,
    second_results,
    shapes,
    softmax,
    state,
    storage,
    training,
    weights,
    windows,
)

MUTANTS: tuple[Mutant, ...] = (
    *scale.mutants,
    *softmax.mutants,
    *masks.mutants,
    *fills.mutants,
    *broadcast.mutants,
    *empty_rows.mutants,
    *causal.mutants,
    *options.mutants,
    *windows.mutants,
    *groups.mutants,
    *dropout.mutants,
    *shapes.mutants,
    *weights.mutants,
    *memory.mutants,
    *blocks.mutants,
    *precision.mutants,
    *gradients.mutants,
    *gradient_flow.mutants,
    *state.mutants,
    *mixing.mutants,
    *errors.mutants,
    *probes.mutants,
    *edges.mutants,
    *modules.mutants,
    *projections.mutants,
    *module_state.mutants,
    *identities.mutants,
    *second_results.mutants,
    *option_pairs.mutants,
    *training.mutants,
    *paths.mutants,
    *searched.mutants,
    *storage.mutants,
)

TRACES = state.TRACES | edges.TRACES
"""Names of those that change a setting of the whole process: run them in a process of their own, or restore it."""

ARGUABLE = frozenset(
    {
        "masked_nan_leaks",
        "qk_overflow_before_scale_fp16",
        "weights_returned_after_dropout",
    }
)
"""Names of those whose behaviour well-known implementations share. A rule that rejects them says why it may."""
