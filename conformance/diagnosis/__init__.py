"""From a failure to its fault.

faults         what is known: a name, a sentence, a repair, and the stages of attention that the fault replaces
stages         attention in stages, each of which a fault may replace
matching       whether what came back equals what a fault computes
measuring      factors, temperatures and roundings, where no known fault does
narrowing      what a case needs for a failure to show
diagnostician  the search over all of them, with a memory for one implementation
"""

from __future__ import annotations

from .diagnostician import Diagnostician

__all__ = ["Diagnostician"]
