"""A badge as data that shields.io and its kin read from a URL (their "endpoint" format)."""

from __future__ import annotations

import json

from ..records import Outcome
from .combining import Combined

_COLOURS = ((100, "brightgreen"), (95, "yellowgreen"), (80, "yellow"), (0, "red"))


def page(combined: Combined) -> str:
    """Return the badge as JSON: the share of applicable records that passed, rounded down, so that 100 % means all."""
    counts = combined.counts
    apart = counts[Outcome.NOT_APPLICABLE]
    applicable = counts.total() - apart
    missing = len(combined.entries) - len(combined.loaded)
    share = 100 * counts[Outcome.PASSED] // applicable if applicable else 0
    told = [f"{share} % of {applicable}" if applicable else "nothing ran"]
    if counts[Outcome.DEVIATION]:
        told.append(f"{counts[Outcome.DEVIATION]} declared deviations")
    if apart:
        told.append(f"{apart} not applicable")
    if missing:
        told.append(f"{missing} not loaded")
        share = min(share, 99)
    colour = next(colour for least, colour in _COLOURS if share >= least) if applicable else "lightgrey"
    fields = {"schemaVersion": 1, "label": "attention conformance", "message": ", ".join(told), "color": colour}
    return json.dumps(fields) + "\n"
