"""The catalogue reads as it is printed: one sentence, a source and cases for each rule."""

from __future__ import annotations

import re

import pytest

from attention_conformance.capabilities import FIELDS
from attention_conformance.conventions.table import CONVENTIONS
from attention_conformance.errors import UnknownRule
from attention_conformance.rulebook import RETIRED, Rule, catalogue, families, get_rule

from .enter import IDS

RULES = tuple(catalogue().values())

_NOT_PRESENT = re.compile(
    r"\b(should|must|shall|will|would|ought|has to|have to|needs? to|is to|are to|is expected|are expected|"
    r"verif(y|ies)|checks?|ensures?|tests?|make sure)\b",
    re.IGNORECASE,
)
_PAST = re.compile(r"(?<!as they )(?<!as it )(?<!that it )\b(were|did|had|has been|have been)\b")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_is_a_sentence_with_a_source_and_cases(rule: Rule) -> None:
    assert re.fullmatch(r"[A-Z]+-\d{3}", rule.id)
    assert rule.id not in RETIRED
    assert rule.sentence.endswith(".")
    assert rule.sentence[0].isupper() or rule.sentence.startswith("torch.")
    assert not _NOT_PRESENT.search(rule.sentence)
    assert not _PAST.search(rule.sentence)
    assert rule.sentence.count(". ") == 0
    assert len(rule.sentence) <= 200
    assert rule.source.strip()
    assert not rule.source.endswith(".")
    assert rule.cases
    assert set(rule.needs) <= {*FIELDS, "framework"}
    assert set(rule.depends) <= set(CONVENTIONS)
    assert rule.dtypes in ("all", "exact", "wide", "first", "once")


def test_ids_are_never_lost_or_given_again() -> None:
    ever = IDS.read_text(encoding="utf-8").split()
    assert ever == sorted(set(ever))
    lost = set(ever) - set(catalogue()) - RETIRED
    assert not lost, f"{sorted(lost)} are gone: enter them in RETIRED, where nobody gives them again"
    assert not RETIRED & set(catalogue())
    assert set(ever) >= RETIRED
    new = set(catalogue()) - set(ever)
    assert not new, f"{sorted(new)} are new: python -m tests.rules.enter"


def test_a_retired_id_cannot_be_given_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attention_conformance.rulebook.RETIRED", frozenset({"MASK-001"}))
    with pytest.raises(UnknownRule, match="the id MASK-001 is given twice or retired"):
        catalogue.__wrapped__()


def test_names_of_cases_are_unique_within_a_rule() -> None:
    for rule in RULES:
        names = [case.name for case in rule.cases]
        assert len(names) == len(set(names)), rule.id


def test_a_name_stands_for_one_case_everywhere() -> None:
    cases = {case for rule in RULES for case in rule.cases}
    assert len({case.name for case in cases}) == len(cases)


def test_each_convention_has_one_rule_that_comes_after_those_it_depends_on() -> None:
    judged = [rule.convention for rule in RULES if rule.convention is not None]
    assert sorted(judged) == sorted(CONVENTIONS)
    for rule in RULES:
        if rule.convention is not None:
            before = judged[: judged.index(rule.convention)]
            assert set(rule.depends) <= set(before), rule.id


def test_a_family_lies_in_one_file_and_the_conventions_in_theirs() -> None:
    homes: dict[str, set[str]] = {}
    for rule in RULES:
        if rule.convention is None:
            homes.setdefault(rule.family, set()).add(rule.function.__module__)
    assert {family: len(files) for family, files in homes.items()} == dict.fromkeys(homes, 1)
    assert set(homes) == set(families())


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(UnknownRule, match="did you mean 'MASK-0"):
        get_rule("MASK-0O1")
