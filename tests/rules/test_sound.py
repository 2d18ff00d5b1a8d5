"""Nobody sound is blamed: every sound program passes every rule in every dtype that it declares."""

from __future__ import annotations

import pytest

from attention_conformance import check
from attention_conformance.implementation import describe
from attention_conformance.references import REFERENCES
from tests.zoo.program import Program
from tests.zoo.sound import SOUND


def _blamed(program: Program, select: tuple[str, ...] = ()) -> str:
    blamed = [record for record in check(program.target, select=select, **program.capabilities) if record.bad]
    return "\n".join(f"{record.key}: {record.message[:600]}" for record in blamed[:3])


@pytest.mark.parametrize("program", SOUND, ids=lambda program: program.name)
def test_a_sound_program_is_not_blamed_in_fp32_and_bf16(program: Program) -> None:
    own = describe(program.target, **program.capabilities).capabilities.dtypes
    assert not _blamed(program, tuple(word for word in ("fp32", "bf16") if word in own) or own)


@pytest.mark.slow
@pytest.mark.parametrize("program", SOUND, ids=lambda program: program.name)
def test_a_sound_program_is_not_blamed_in_any_dtype(program: Program) -> None:
    assert not _blamed(program)


@pytest.mark.slow
@pytest.mark.parametrize("program", SOUND, ids=lambda program: program.name)
def test_a_sound_program_is_not_blamed_in_the_thorough_tier_but_for_errors(program: Program) -> None:
    records = check(program.target, tier="thorough", **program.capabilities)
    lenient = {"ERRORS-007", "NUMERIC-012", "MASK-013"}
    assert not [(record.key, record.message[:600]) for record in records if record.bad and record.rule not in lenient]


@pytest.mark.parametrize("reference", REFERENCES)
def test_the_references_depart_only_where_they_declare_it(reference: str) -> None:
    implementation = describe(REFERENCES[reference].load())
    assert not [str(record.key) for record in check(implementation) if record.bad]
