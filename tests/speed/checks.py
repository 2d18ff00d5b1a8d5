"""Seconds of a first and of later checks of the documents' kernel, beside scikit-learn's own estimator check."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import torch

from attention_conformance import check
from attention_conformance.reference.attention import attention

_COLD = "from tests.speed.checks import first; first()"


@dataclass(frozen=True)
class Seconds:
    """Some rounds of one thing."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle round."""
        return median(self.rounds)

    def __str__(self) -> str:
        return f"{self.median:.3f} s ({min(self.rounds):.3f} to {max(self.rounds):.3f} in {len(self.rounds)} rounds)"


@dataclass(frozen=True)
class Checks:
    """Rounds of a later check, of scikit-learn's beside it, and of the first check in fresh processes."""

    warm: Seconds
    estimator: Seconds
    cold: Seconds

    @property
    def to_estimator(self) -> Seconds:
        """A later check in units of scikit-learn's, round by round."""
        return Seconds(
            tuple(ours / theirs for ours, theirs in zip(self.warm.rounds, self.estimator.rounds, strict=True))
        )

    @property
    def to_warm(self) -> float:
        """A first check in units of a later one."""
        return self.cold.median / self.warm.median


def timed(function: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def one_check() -> None:
    """Judge the documents' kernel by the default tier, in three dtypes."""
    for _ in check(attention):
        pass


def _estimator_check() -> None:
    from sklearn.linear_model import LogisticRegression
    from sklearn.utils.estimator_checks import check_estimator

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_estimator(LogisticRegression())


def first() -> None:
    """Print the seconds of the first check of this process, torch and the package being imported."""
    torch.set_num_threads(1)
    print(json.dumps(timed(one_check)))


def _cold() -> float:
    ran = subprocess.run([sys.executable, "-c", _COLD], stdout=subprocess.PIPE, check=True, text=True)
    return float(json.loads(ran.stdout))


def measured(rounds: int) -> Checks:
    """Time everything in turn, so that a noisy moment meets all of it."""
    one_check()
    _estimator_check()
    warm, estimator, cold = [], [], []
    for _ in range(rounds):
        warm.append(timed(one_check))
        estimator.append(timed(_estimator_check))
        cold.append(_cold())
    return Checks(Seconds(tuple(warm)), Seconds(tuple(estimator)), Seconds(tuple(cold)))
