"""Which rules are planned in which dtypes, and what is left out under its reason."""

from __future__ import annotations

import pytest

from attention_conformance import Outcome, check
from attention_conformance.capabilities import Capabilities
from attention_conformance.conventions.table import CONVENTIONS
from attention_conformance.implementation import describe
from attention_conformance.records import Key
from attention_conformance.references import REFERENCES
from attention_conformance.rulebook import catalogue, families
from attention_conformance.selection import dtypes_of, plan
from tests.kernels import attend
from tests.zoo.sound import SOUND

HALVES = ("fp32", "bf16", "fp16")


def test_everything_is_planned_once_in_the_order_of_the_catalogue() -> None:
    keys = plan(describe(attend))
    assert len(set(keys)) == len(keys)
    order = [*catalogue()]
    assert [order.index(key.rule) for key in keys] == sorted(order.index(key.rule) for key in keys)


def test_the_thorough_tier_adds_its_rules_and_nothing_else() -> None:
    implementation = describe(attend)
    added = set(plan(implementation, tier="thorough")) - set(plan(implementation))
    assert {key.rule for key in added} == {
        rule.id for rule in catalogue().values() if rule.thorough and "kernel" in rule.kinds
    }


@pytest.mark.parametrize("reference", REFERENCES)
def test_only_rules_of_its_kind_are_planned(reference: str) -> None:
    implementation = describe(REFERENCES[reference].load())
    planned = {key.rule for key in plan(implementation)}
    kind = REFERENCES[reference].kind
    assert planned == {rule.id for rule in catalogue().values() if kind in rule.kinds and not rule.thorough}


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        ("all", HALVES),
        ("exact", ("fp32",)),
        ("wide", ("fp32", "bf16")),
        ("first", ("fp32",)),
        ("once", (None,)),
    ],
)
def test_a_rule_runs_in_the_dtypes_that_it_names(dtypes: str, expected: tuple[str | None, ...]) -> None:
    own = Capabilities(dtypes=HALVES)
    rules = [rule for rule in catalogue().values() if rule.dtypes == dtypes]
    assert {dtypes_of(rule, own) for rule in rules} <= {expected}


@pytest.mark.parametrize("family", families())
def test_a_family_selects_its_rules(family: str) -> None:
    implementation = describe(attend)
    selected = plan(implementation, tier="thorough", select=[family])
    assert selected == tuple(key for key in plan(implementation, tier="thorough") if key.rule.startswith(family + "-"))


def test_a_selection_joins_names_and_meets_dtypes() -> None:
    implementation = describe(attend)
    assert plan(implementation, select=["SHAPE-001", "MASK-003", "fp32"]) == (
        Key("SHAPE-001", "fp32"),
        Key("MASK-003", "fp32"),
    )
    assert {key.dtype for key in plan(implementation, select=["bf16"])} == {"bf16", None}


def test_a_selected_rule_has_the_outcome_of_a_full_run() -> None:
    whole = {record.key: record.outcome for record in check(attend, dtypes=("fp32",))}
    for rule in ("MASK-003", "GRADIENT-001", "OPTIONS-001"):
        for record in check(attend, dtypes=("fp32",), select=[rule]):
            assert record.outcome == whole[record.key]


def test_what_is_not_offered_is_not_applicable_under_its_name() -> None:
    for rule, reason in (("OPTIONS-001", "options=()"), ("CAUSAL-003", "causal=None"), ("MASK-003", "mask=()")):
        (record,) = check(attend, dtypes=("fp32",), mask=(), select=[rule])
        assert (record.outcome, record.message) == (Outcome.NOT_APPLICABLE, reason)


@pytest.mark.parametrize("capability", CONVENTIONS)
def test_every_answer_to_a_convention_is_given_by_some_sound_program(capability: str) -> None:
    given = {getattr(describe(p.target, **p.capabilities).capabilities, capability) for p in SOUND}
    assert set(CONVENTIONS[capability].answers) <= given
