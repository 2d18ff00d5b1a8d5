"""Every pair of colours of the style sheet is legible, in light and in dark (WCAG 2.2, level AA)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files

import pytest

STYLE = files("attention_conformance.report").joinpath("page.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{([^}]*)\}", STYLE)[:2]
)

TEXT, SHAPES = 4.5, 3.0
"""Least contrast of text, and of what else has to be seen."""


def pairs() -> Iterator[tuple[str, str, float]]:
    """Yield what stands on what, and the least contrast."""
    for name in LIGHT:
        if name.endswith("-ink"):
            yield name, name.replace("-ink", "-ground"), TEXT
    for ground in ("ground", "panel"):
        yield from ((ink, ground, TEXT) for ink in ("ink", "muted", "link", "bad-ink"))
        yield "focus", ground, SHAPES
    yield from ((name, "ground", SHAPES) for name in ("mark", "good-ink", "muted"))


def luminance(colour: str) -> float:
    shares = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize(("ink", "ground", "least"), list(pairs()))
def test_it_is_legible(scheme: dict[str, str], ink: str, ground: str, least: float) -> None:
    assert contrast(scheme[ink], scheme[ground]) >= least


def test_both_schemes_have_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()
    assert len(LIGHT) > 30


def test_contrast_is_what_the_guideline_says() -> None:
    assert contrast("#ffffff", "#000000") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_rules_take_their_colours_from_the_schemes() -> None:
    rules = re.sub(r":root \{[^}]*\}", "", STYLE)
    assert not re.findall(r"(?:color|background|stroke|fill): #\w+", rules)
    assert set(re.findall(r"var\(--([\w-]+)\)", rules)) <= LIGHT.keys()
