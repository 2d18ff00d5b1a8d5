"""What the plugin's tests share: kernels for a user's repository, and how a run of it is read."""

from __future__ import annotations

import textwrap

# What an inner run would import anew each time, because pytester forgets the modules of a run when it ends.
import hypothesis  # noqa: F401
import pytest

import attention_conformance.collecting.collection  # noqa: F401

KERNELS = '''
import torch


def attend(query, key, value, mask=None, *, scale=None, softmax_over=-1, hides=False):
    """The documents' kernel, with one place for each fault."""
    scores = query @ key.transpose(-1, -2) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = scores.masked_fill((mask != 0) if hides else (mask == 0), -1e9)
    weights = scores.softmax(softmax_over)
    return weights @ value, weights


def without_scale(query, key, value, mask=None):
    return attend(query, key, value, mask, scale=1.0)


def with_another_scale(query, key, value, mask=None):
    return attend(query, key, value, mask, scale=0.2)


def with_the_mask_turned_round(query, key, value, mask=None):
    return attend(query, key, value, mask, hides=True)


def over_the_queries(query, key, value, mask=None):
    return attend(query, key, value, mask, softmax_over=-2)


def with_zeros_in_empty_rows(query, key, value, mask=None):
    output, weights = attend(query, key, value, mask)
    if mask is not None:
        empty = (mask == 0).all(-1, keepdim=True)
        output, weights = output.masked_fill(empty, 0.0), weights.masked_fill(empty, 0.0)
    return output, weights
'''


ALONE = tuple(f"-pno:{name}" for name in ("hypothesispytest", "syrupy", "benchmark", "cacheprovider"))
"""Arguments that keep other plugins, which are slow to import, out of a new process."""


def repository(pytester: pytest.Pytester, test_module: str, name: str = "test_attention") -> None:
    """Write a user's repository: `kernels.py`, and one test module that starts with the imports it needs."""
    header = "import pytest\nimport kernels\nfrom attention_conformance import Deviation, register\n"
    pytester.makepyfile(kernels=KERNELS, **{name: header + textwrap.dedent(test_module)})


def run(pytester: pytest.Pytester, *arguments: str) -> Run:
    """Run pytest in this process, where torch and the oracle are warm."""
    return Run(pytester.inline_run(*arguments))


class Run:
    """The reports of one run by name of the item, the ids left after selection, and the exit status."""

    def __init__(self, recorder: pytest.HookRecorder) -> None:
        self.status = recorder.ret
        found = recorder.getreports("pytest_runtest_logreport")
        self.reports = {report.nodeid.partition("::")[2]: report for report in found if report.when == "call"}
        finished = recorder.getcalls("pytest_collection_finish")
        self.collected = [item.nodeid for call in finished for item in call.session.items]

    def with_outcome(self, outcome: str) -> set[str]:
        """Return the names of the items with an outcome; `xfailed` is a skipped one with a reason to depart."""
        return {name for name, report in self.reports.items() if outcome_of(report) == outcome}

    def text(self, name: str) -> str:
        """Return the failure text of an item."""
        return str(self.reports[name].longreprtext)


def outcome_of(report: pytest.TestReport) -> str:
    """Return passed, failed, skipped or xfailed."""
    return "xfailed" if report.skipped and hasattr(report, "wasxfail") else str(report.outcome)
