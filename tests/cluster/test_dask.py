"""An audit on a cluster: a local one of Dask, whose workers start the children as this process would."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attention_conformance.auditing.workers import audit_many
from attention_conformance.records import Verdict
from attention_conformance.results import Audited

pytest.importorskip("distributed", reason="tox -e cluster installs it")

HOSTILE = Path(__file__).parents[1] / "cli" / "hostile.py"
TARGETS = (
    "attention_conformance.reference.attention:attention",
    f"{HOSTILE}:segfaults",
    "torch.nn.functional:scaled_dot_product_attention",
    f"{HOSTILE}:exits",
    "nowhere_at_all:f",
)
RULES = ("SHAPE-001", "MASK-003", "fp32")


@pytest.fixture(scope="module")
def executor() -> Iterator[Any]:
    distributed = importlib.import_module("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None, processes=True
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client.get_executor()


def comparable(results: Iterator[Audited]) -> dict[str, object]:
    """Return what is known of each implementation, without what differs from run to run."""
    return {
        each.name: replace(each, records=tuple(replace(record, seconds=0.0) for record in each.records))
        for each in results
    }


def test_a_cluster_says_what_this_machine_says(executor: Any) -> None:
    here = comparable(audit_many(TARGETS, workers=2, select=RULES))
    assert comparable(audit_many(TARGETS, executor, workers=4, select=RULES)) == here
    verdicts = [each.judged.verdict for each in here.values() if isinstance(each, Audited)]
    assert sorted(verdicts) == sorted([Verdict.CONFORMS, Verdict.DECLARED, *[Verdict.BROKEN] * 3])
