"""Made-up results, for what prints and stores them."""

from __future__ import annotations

from typing import Any

from attention_conformance.records import Outcome, Record, Verdict, counts
from attention_conformance.results import Audited, Described, Header, Judged, diagnoses

HEADER = Header(
    version="0", catalogue="c", tier="default", torch="2", device="cpu", python="3", platform="p", seed=0,
    environment="e", label=None, started="2026-01-01T00:00:00+00:00",
)  # fmt: skip


def record(rule: str = "MASK-003", dtype: str | None = "fp32", outcome: str = "passed", **fields: Any) -> Record:
    """Return a record of the implementation `kernels:attend`."""
    base: dict[str, Any] = {"case": None, "message": "", "ratio": None, "diagnosis": (), "seconds": 0.5}
    return Record("kernels:attend", rule, dtype, outcome=Outcome(outcome), **{**base, **fields})


def audited(*records: Record, verdict: str = "departs", stale: tuple[str, ...] = ()) -> Audited:
    """Return the implementation `kernels:attend` with these records."""
    judged = Judged("kernels:attend", Verdict(verdict), counts(records), diagnoses(records), stale)
    return Audited(Described("kernels:attend", "kernels:attend", reference="attention"), records, judged)
