"""Every known fault, report and property has a rule and a mutant, or a sentence that says why not."""

from __future__ import annotations

import pytest

from attention_conformance.rulebook import catalogue
from tests.zoo.mutant import KINDS

from .coverage import BY_HAND, KEYS, NAMED, PROBES, PROPERTIES, REPORTS, markdown, table
from .measure_power import POPULATION, judged

NOT_JUDGED = 12
"""How many of the keys may have no rule at all."""


def test_every_key_is_covered_or_has_a_reason() -> None:
    assert [key for key in KEYS if key not in table()] == []
    for key, entry in table().items():
        assert entry.why_not or (entry.rules and entry.mutants), key


def test_the_keys_are_all_that_is_known() -> None:
    assert len(KEYS) == len(set(KEYS))
    assert (len(KINDS), len(REPORTS), len(NAMED), len(PROPERTIES), len(PROBES)) == (31, 196, 40, 50, 7)
    assert set(KEYS) == {*KINDS, *REPORTS, *NAMED, *PROPERTIES, *PROBES}
    assert set(BY_HAND) <= set(KEYS)


def test_named_rules_and_mutants_exist() -> None:
    for key, entry in table().items():
        assert set(entry.rules) <= set(catalogue()), key
        assert set(entry.mutants) <= set(POPULATION), key


def test_a_reason_is_a_sentence_and_there_are_few() -> None:
    reasons = {key: entry.why_not for key, entry in table().items() if entry.why_not}
    for key, reason in reasons.items():
        assert len(reason.split()) > 5, key
    assert len([key for key in reasons if not table()[key].rules]) <= NOT_JUDGED


def test_each_kind_of_fault_has_mutants() -> None:
    for kind in KINDS:
        assert table()[kind].mutants, kind


def test_the_table_is_printed_whole() -> None:
    assert markdown().count("\n") == len(KEYS) + 2


@pytest.mark.parametrize("key", [key for key, entry in BY_HAND.items() if entry.mutants])
def test_what_was_entered_by_hand_is_true(key: str) -> None:
    entry = BY_HAND[key]
    for name in entry.mutants:
        assert any(judged(name, rule, None) for rule in entry.rules), f"{key}: none of {entry.rules} rejects {name}"


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted({name for entry in table().values() for name in entry.mutants}))
def test_each_mutant_of_the_table_is_rejected_by_a_rule_that_stands_beside_it(name: str) -> None:
    for key, entry in table().items():
        if name in entry.mutants:
            assert any(judged(name, rule, None) for rule in entry.rules), key
