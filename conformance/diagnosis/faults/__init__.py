"""Known faults as data, one file per place of the fault. `diagnosis` reads these tables, and nothing else does."""

from __future__ import annotations

from . import backward, causality, empty_rows, keys, masking, projections, reading, results, scores, softmax
from .fault import Fault, Told
from .told import HINTS, RAISED, TOLD

FORWARD: tuple[Fault, ...] = (
    *projections.FAULTS,
    *scores.FAULTS,
    *empty_rows.FAULTS,
    *causality.FAULTS,
    *masking.FAULTS,
    *reading.FAULTS,
    *keys.FAULTS,
    *softmax.FAULTS,
)
"""What shows in the output, the commonest first."""

BACKWARD: tuple[Fault, ...] = (*empty_rows.GRADIENT, *backward.FAULTS)
"""What shows in gradients only."""

SECOND: tuple[Fault, ...] = results.FAULTS
"""What shows in the second result only."""

FAULTS = (*FORWARD, *BACKWARD, *SECOND)

__all__ = ["BACKWARD", "FAULTS", "FORWARD", "HINTS", "RAISED", "SECOND", "TOLD", "Fault", "Told"]
