"""Takes for declared what a probe finds out, where nothing was declared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..capabilities import FIELDS
from ..implementation import Implementation
from . import probe


def infer(
    implementation: Implementation, beat: Callable[[str], None] = lambda text: None
) -> tuple[Implementation, Mapping[str, str]]:
    """Return the implementation under what a probe found, and the evidence of each answer that differs from the
    reference's. What was declared stays; where nothing explains what is seen, the reference's answer stays as well.

    Raises UnknownParameters where a module's projections are not recognised.
    """
    profile = probe(implementation, beat)
    open_names = [name for name in FIELDS if name not in implementation.given]
    answers = {name: profile.answers[name] for name in open_names if name in profile.answers}
    differing = [name for name in open_names if name in profile.differing]
    evidence = {each.capability: each.evidence for each in profile.findings}
    return (
        replace(
            implementation,
            capabilities=replace(implementation.capabilities, **answers),
            declared=tuple(dict.fromkeys((*implementation.declared, *differing))),
        ),
        {name: evidence[name] for name in differing},
    )
