"""The keywords of `register` that declare capabilities, for editors and type checkers. `Capabilities` says what they mean.

Vocabularies are checked when they are declared, with a message that names the nearest word; here are the types.
"""

from __future__ import annotations

from typing import TypedDict

Words = tuple[str, ...] | list[str] | set[str] | frozenset[str]
"""A set of words, in any container."""


class Declared(TypedDict, total=False):
    """The fields of `Capabilities`, each of which may be left out."""

    layout: str
    inputs: str
    lengths: str
    widths: str | tuple[int, ...] | list[int]
    value_width: str
    heads: str
    leading: str
    mask: Words
    mask_means: str
    mask_shapes: str | Words
    empty_row: str
    no_keys: str
    causal: str | None
    causal_with_mask: str
    scale: str | float
    second: str | None
    options: Words
    dtypes: Words
    precision: str
    gradient: str
    deterministic: str
