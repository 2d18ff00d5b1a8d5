"""The page over torch's versions says what changed, and belongs to the kept results."""

from __future__ import annotations

from dataclasses import replace

from attention_conformance.records import Outcome, Record, Verdict, counts
from attention_conformance.results import Audited, Described, Judged
from attention_conformance.rulebook import catalogue
from tests.survey.history.page import PAGE, page, versions
from tests.survey.history.run import BASE, Version

TARGET = "torch.nn.functional:scaled_dot_product_attention"
HEADER = {"torch": "2.0.0", "python": "3.11.0", "started": "2026-01-01T00:00:00+00:00"}


def _version(torch: str, **outcomes: Outcome) -> Version:
    records = tuple(
        Record(TARGET, rule.replace("_", "-"), dtype, None, outcome, "  seen      it is nan", None, ("declare empty_row='nan'",), 0.0)
        for rule, outcome in outcomes.items()
        for dtype in ("fp64", "fp32")
    )  # fmt: skip
    bad = any(record.bad for record in records)
    judged = Judged(TARGET, Verdict.DEPARTS if bad else Verdict.CONFORMS, counts(records))
    audited = Audited(Described(TARGET, TARGET, reference="attention"), records, judged)
    return Version(torch, {**HEADER, "torch": torch}, {TARGET: audited})


OLD = _version("2.0.0", MASK_001=Outcome.PASSED, MASK_002=Outcome.FAILED, MASK_003=Outcome.NOT_RUN)
NEW = _version("3.0.0", MASK_001=Outcome.PASSED, MASK_002=Outcome.PASSED, MASK_003=Outcome.PASSED)


def test_a_change_is_told_in_words_and_rules_that_came_out_alike_are_left_out() -> None:
    text = page([OLD, NEW])
    assert "- MASK-002 holds under 3.0.0; under 2.0.0 the answer is empty_row='nan'." in text
    assert "- under 2.0.0 1 rule could not be run, because what they rest on departs there." in text
    assert f"| MASK-002 | {catalogue()['MASK-002'].sentence} | departs: empty_row='nan' fits | holds |" in text
    assert "MASK-001" not in text
    assert "MASK-003" not in text
    assert f"| `{TARGET}` | departs, 2 records depart | conforms |" in text


def test_a_rule_that_stops_to_hold_is_told() -> None:
    assert "- MASK-002 holds under 3.0.0; under 2.0.0 the answer is" in page([NEW, OLD])


def test_nothing_changed_is_said() -> None:
    assert "- no rule began or stopped to hold." in page([NEW, replace(NEW, torch="4.0.0")])


def test_the_page_belongs_to_the_kept_results() -> None:
    kept = versions()
    assert len(kept) >= 3
    assert BASE in [version.torch for version in kept]
    assert len({frozenset(version.audited) for version in kept}) == 1
    assert PAGE.read_text(encoding="utf-8") == page(kept), "run python -m tests.survey.history.page"
