"""The exponent with which something grows in L: the slope of a straight line through the logarithms."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 3
"""Sizes that a line with an uncertainty needs."""


@dataclass(frozen=True)
class Growth:
    """`values ~ L ** exponent` over `sizes`; `error` is one standard error of the exponent."""

    exponent: float
    error: float
    sizes: tuple[int, ...]

    def text(self) -> str:
        """Return the exponent with its uncertainty."""
        return f"{self.exponent:.2f} ± {max(self.error, 0.005):.2f}"


def larger(count: int) -> int:
    """Return how many of `count` sizes, the largest, are fitted: the larger half, three at least.

    At small sizes the overhead of a call hides how it grows.
    """
    return max(FEWEST, math.ceil(count / 2))


def fit(sizes: Sequence[int], values: Sequence[float], noise: Sequence[float] = ()) -> Growth | None:
    """Fit the larger sizes by least squares in the logarithms; None for fewer than three, or values of zero.

    `noise` is the relative standard error of each value. The uncertainty is the larger of two: what the distances
    from the line say (which is little with few sizes), and what the noise of the values makes of the slope.
    """
    pairs = sorted(zip(sizes, values, noise or [0.0] * len(sizes), strict=True))[-larger(len(sizes)) :]
    if len(pairs) < FEWEST or any(value <= 0 for _, value, _ in pairs):
        return None
    x = [math.log(size) for size, _, _ in pairs]
    y = [math.log(value) for _, value, _ in pairs]
    middle = statistics.fmean(x)
    spread = sum((each - middle) ** 2 for each in x)
    if spread == 0:
        return None
    slope = sum((each - middle) * height for each, height in zip(x, y, strict=True)) / spread
    offset = statistics.fmean(y) - slope * middle
    left = sum((height - offset - slope * each) ** 2 for each, height in zip(x, y, strict=True))
    by_distance = math.sqrt(left / (len(pairs) - 2) / spread)
    by_noise = math.sqrt(sum(((each - middle) * error) ** 2 for each, (_, _, error) in zip(x, pairs, strict=True)))
    return Growth(slope, max(by_distance, by_noise / spread), tuple(size for size, _, _ in pairs))


def noise_of(seconds: Sequence[float]) -> float:
    """Return the relative standard error of the median of some rounds, from their quartiles.

    For normal noise the quartiles are 1.349 standard deviations apart, and the median is 1.2533 times as uncertain as
    the mean.
    """
    middle = statistics.median(seconds)
    if len(seconds) < 2 or middle <= 0:
        return 0.0
    low, _, high = statistics.quantiles(seconds, n=4, method="inclusive")
    return 1.2533 * (high - low) / 1.349 / middle / math.sqrt(len(seconds))
