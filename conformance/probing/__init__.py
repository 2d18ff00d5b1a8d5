"""Finds out by experiment what an implementation does: every capability, with what was seen.

Answers are tried as convention rules try them: the case is delivered and expected as an answer says, and the answer
holds if the results agree within the bound. Where none does, the table of known faults is asked.
"""

from __future__ import annotations

from collections.abc import Callable

from ..foreign.edge import telling_interrupts_apart
from ..foreign.process_state import process_state_kept
from ..implementation import Implementation
from .calls import settle_call
from .causality import settle_causality
from .finding import Finding, Profile, in_order
from .masking import settle_masks
from .numbers import settle_numbers
from .options import settle_options
from .prober import Prober
from .results import settle_results
from .sizes import settle_sizes

__all__ = ["Finding", "Profile", "probe"]


_IN_ORDER = (settle_sizes, settle_masks, settle_results, settle_causality, settle_options, settle_numbers)
"""What is asked once a call is answered: each question under the answers before it."""


def probe(implementation: Implementation, beat: Callable[[str], None] = lambda text: None) -> Profile:
    """Return what experiments show, whatever was declared; only the way to call it is taken as given.

    `beat` is told the name of each case before it is tried.

    Raises UnknownParameters where a module's projections are not recognised.
    """
    prober = Prober(implementation.undeclared, beat)
    with telling_interrupts_apart(), process_state_kept():
        if settle_call(prober):
            for settle in _IN_ORDER:
                settle(prober)
    return Profile(implementation, in_order({**prober.findings, **prober.judged}), tuple(prober.remarks))
