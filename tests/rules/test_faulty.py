"""Everybody faulty is caught: each mutant by the rule that the measured table names, and each rule by a mutant.

The tables are written by `python -m tests.rules.measure_power`, new entries by `python -m tests.rules.enter`.
"""

from __future__ import annotations

import json

import pytest

from attention_conformance.report.catalogue import caught_faults
from attention_conformance.rulebook import catalogue
from tests.zoo.faulty import MUTANTS

from .enter import NOT_CAUGHT
from .measure_power import CAUGHT, POWER, judged, printed, rejections

TABLE = json.loads(POWER.read_text(encoding="utf-8"))
BY_RULE = {
    rule: next(iter(entries.items()))
    for rule, entries in json.loads(CAUGHT.read_text(encoding="utf-8")).items()
    if entries
}
_COVERED = {entry["rule"] for entry in TABLE.values()}


@pytest.mark.parametrize("name", TABLE)
def test_a_faulty_program_is_rejected_by_the_rule_that_the_table_names(name: str) -> None:
    found = judged(name, TABLE[name]["rule"], TABLE[name]["dtype"])
    if found is None:
        # A fault that shows only after other calls needs the whole run in which the table was measured.
        assert rejections(name)[1]
    else:
        assert set(TABLE[name]["named"]) <= set(found.named)


@pytest.mark.parametrize("rule", [rule for rule in BY_RULE if rule not in _COVERED])
def test_each_other_rule_rejects_some_faulty_program(rule: str) -> None:
    name, dtype = BY_RULE[rule]
    assert judged(name, rule, dtype)


def test_the_tables_cover_the_population_and_the_catalogue() -> None:
    assert set(TABLE) | set(NOT_CAUGHT) == {mutant.name for mutant in MUTANTS}
    assert not set(TABLE) & set(NOT_CAUGHT)
    assert set(BY_RULE) == set(catalogue())


def test_what_is_printed_of_a_rule_is_what_was_measured() -> None:
    assert caught_faults() == {rule: tuple(faults) for rule, faults in printed(json.loads(CAUGHT.read_text())).items()}
