"""The rules SNAPSHOT hold implementations to the vectors that suit them, and say how many those are."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from attention_conformance import Outcome, check
from attention_conformance.goldens import files as goldens
from attention_conformance.goldens.inputs import counted, suited
from attention_conformance.implementation import describe
from attention_conformance.records import Record
from attention_conformance.references import REFERENCES
from attention_conformance.rulebook import catalogue
from tests.rules.measure_power import POPULATION
from tests.zoo.sound import SOUND

RULES = tuple(name for name in catalogue() if name.startswith("SNAPSHOT-"))


def record(target: Any, rule: str = "SNAPSHOT-001", dtype: str = "fp32", **declared: Any) -> Record:
    (found,) = [each for each in check(target, select=(rule, dtype), **declared) if each.rule == rule]
    return found


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("reference", REFERENCES)
def test_a_reference_is_held_to_nearly_all_of_its_vectors(reference: str, rule: str) -> None:
    made = describe(REFERENCES[reference].load())
    found = [each for each in check(made, select=(rule,)) if each.rule == rule]
    if rule == "SNAPSHOT-004" and reference == "attention":
        assert found == []
        return
    for each in found:
        if rule == "SNAPSHOT-002" and reference == "SelfAttention":
            assert each.outcome is Outcome.NOT_APPLICABLE
            continue
        assert each.outcome is Outcome.PASSED, each.message
        assert each.ratio is not None
        assert 0 < each.ratio < 1
        judged, total = (int(each.message.split()[place]) for place in (0, 2))
        assert total - 2 <= judged <= total
        assert total == sum(vector.agreement == "must agree" for vector in goldens.read(reference))


@pytest.mark.slow  # two dtypes of each are judged by every rule elsewhere
@pytest.mark.parametrize("program", SOUND, ids=lambda program: program.name)
def test_no_sound_program_misses_a_vector_in_any_dtype(program: Any) -> None:
    records = list(check(program.target, select=("SNAPSHOT",), **program.capabilities))
    assert not [(each.key, each.message[:500]) for each in records if each.bad]
    assert any(each.message for each in records)


CAUGHT = {
    "SNAPSHOT-001": ("integer_mask_ignored", "ATTN-050"),
    "SNAPSHOT-002": ("returned_weights_cut_to_four_digits", "ATTN-001"),
    "SNAPSHOT-003": ("value_gradient_averaged_over_queries", "ATTN-001"),
    "SNAPSHOT-004": ("key_and_value_weights_exchanged", "MHA-001"),
}
"""A mutant for each rule and the first vector that it misses."""


def test_each_rule_has_a_mutant() -> None:
    assert set(CAUGHT) == set(RULES)


@pytest.mark.parametrize("rule", CAUGHT)
def test_a_faulty_program_misses_a_vector_that_is_named(rule: str) -> None:
    mutant, vector = POPULATION[CAUGHT[rule][0]], CAUGHT[rule][1]
    found = record(mutant.target, rule, **mutant.capabilities)
    assert found.outcome is Outcome.FAILED
    assert found.case is not None
    assert found.case.startswith(f"{vector}: ")
    file = goldens.get(vector).file
    assert f"seen      vector {vector} (snapshots/{file}): " in found.message
    assert f"# golden vector {vector}: attention_conformance/snapshots/{file}" in found.message
    assert found.diagnosis


@pytest.mark.parametrize("rule", ["SNAPSHOT-001", "SNAPSHOT-004"])
def test_the_script_of_a_failure_shows_it(rule: str) -> None:
    mutant = POPULATION[CAUGHT[rule][0]]
    message = record(mutant.target, rule, **mutant.capabilities).message
    script = "\n".join(line[4:] for line in message.split("to reproduce, paste:\n")[1].splitlines())
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert float(done.stdout.splitlines()[0].split()[-1]) > 0.1


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ({"empty_row": "zeros"}, "2 for empty_row='zeros'"),
        ({"no_keys": "nan"}, "1 for no_keys='nan'"),
        ({"mask": ()}, "for mask=()"),
        ({"value_width": "same"}, "for value_width='same'"),
        ({"widths": (16, 64)}, "for widths=(16, 64)"),
        ({"inputs": "self"}, "for inputs='self'"),
        ({"leading": "equal"}, "1 for leading='equal'"),
        ({"layout": "BHLD"}, "for layout='BHLD'"),
        ({"mask_shapes": ("LS",)}, "for mask_shapes=('LS',)"),
        ({"causal": "always top-left"}, "for causal='always top-left'"),
        ({"scale": 3.0}, "for scale=3.0"),
    ],
)
def test_what_depends_on_another_answer_is_counted_with_its_reason(declared: dict[str, Any], reason: str) -> None:
    made = describe(REFERENCES["attention"].load(), **declared)
    everybody = suited(describe(REFERENCES["attention"].load()), "fp32")
    found = suited(made, "fp32")
    assert reason in counted(len(found.vectors), found.reasons)
    assert len(found.vectors) + sum(found.reasons.values()) == len(everybody.vectors) + sum(everybody.reasons.values())
    assert len(found.vectors) < len(everybody.vectors)


def test_an_implementation_that_no_vector_suits_is_not_applicable() -> None:
    def threefold(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = query @ key.mT * 3.0
        if mask is not None:
            scores = scores.masked_fill(mask == 0, -1e9)
        return scores.softmax(-1) @ value

    found = record(threefold, scale=3.0)
    assert found.outcome is Outcome.NOT_APPLICABLE
    assert found.message == "0 of 43 golden vectors judged; not applicable: 43 for scale=3.0"


def test_a_vector_that_may_differ_is_asked_of_nobody() -> None:
    """This kernel refuses NaN, masks of the wrong rank and widths of 0, which the quirks send."""

    def careful(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        assert query.size(-1) > 0
        assert all(bool(torch.isfinite(tensor).all()) for tensor in (query, key, value))
        assert mask is None or mask.dim() <= query.dim()
        scores = query @ key.mT / math.sqrt(query.size(-1))
        if mask is not None:
            assert bool(torch.isfinite(mask).all())
            scores = scores.masked_fill(mask == 0, -1e9)
        return scores.softmax(-1) @ value

    assert record(careful).outcome is Outcome.PASSED


def test_a_module_that_lacks_a_bias_is_held_to_the_vectors_without_it() -> None:
    program = next(program for program in SOUND if program.name == "without_biases")
    found = record(program.target, **program.capabilities)
    assert found.outcome is Outcome.PASSED
    assert "for no bias of the key" in found.message
    assert int(found.message.split()[0]) >= 3
