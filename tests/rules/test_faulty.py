"""Everybody faulty is caught: each mutant by the rule that the measured table names, and each rule by a mutant.

The tables are written by `python -m tests.rules.measure_power`.
"""

from __future__ import annotations

import json

import pytest

from attention_conformance import Outcome, check
from attention_conformance.edge import process_state_kept
from attention_conformance.rulebook import catalogue
from tests.zoo.faulty import MUTANTS

from .measure_power import CAUGHT, POPULATION, POWER

NOT_CAUGHT: dict[str, str] = {}
"""Mutants that no rule rejects, each with the reason."""

TABLE = json.loads(POWER.read_text(encoding="utf-8"))
BY_RULE = {
    rule: next(iter(entries.items()))
    for rule, entries in json.loads(CAUGHT.read_text(encoding="utf-8")).items()
    if entries
}
_COVERED = {entry["rule"] for entry in TABLE.values()}


def _rejects(name: str, rule: str, dtype: str | None) -> bool:
    mutant, select = POPULATION[name], [rule, *([dtype] if dtype else [])]
    with process_state_kept():
        records = list(check(mutant.target, tier="thorough", select=select, **mutant.capabilities))
    return any(r.rule == rule and r.outcome in (Outcome.FAILED, Outcome.ERROR) for r in records)


@pytest.mark.parametrize("name", TABLE)
def test_a_faulty_program_is_rejected_by_the_rule_that_the_table_names(name: str) -> None:
    assert _rejects(name, TABLE[name]["rule"], TABLE[name]["dtype"])


@pytest.mark.parametrize("rule", [rule for rule in BY_RULE if rule not in _COVERED])
def test_each_other_rule_rejects_some_faulty_program(rule: str) -> None:
    name, dtype = BY_RULE[rule]
    assert _rejects(name, rule, dtype)


def test_the_tables_cover_the_population_and_the_catalogue() -> None:
    assert set(TABLE) | set(NOT_CAUGHT) == {mutant.name for mutant in MUTANTS}
    assert not set(TABLE) & set(NOT_CAUGHT)
    assert set(BY_RULE) == set(catalogue())
