"""A failure can be pasted: its script needs torch and the implementation only, and shows the difference."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from attention_conformance import Outcome, check
from tests.zoo.faulty import MUTANTS

ROOT = Path(__file__).parents[2]
_CHOSEN = {
    "softmax_over_queries": ("NUMERIC-002", "GRADIENT-001"),
    "bool_mask_inverted": ("MASK-001",),
    "heads_merged_by_view": ("PROJECTION-001",),
}


@pytest.mark.parametrize(("name", "rule"), [(name, rule) for name, rules in _CHOSEN.items() for rule in rules])
def test_the_script_of_a_failure_runs_and_shows_it(name: str, rule: str) -> None:
    mutant = next(mutant for mutant in MUTANTS if mutant.name == name)
    records = check(mutant.target, select=[rule, "fp32"], **mutant.capabilities)
    (failed,) = [record for record in records if record.outcome is Outcome.FAILED]
    _, _, script = failed.message.partition("to reproduce, paste:\n")
    code = "\n".join(line[4:] for line in script.splitlines())
    assert "attention_conformance" not in code
    ran = subprocess.run([sys.executable, "-"], input=code, text=True, capture_output=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stderr
    differences = [float(number) for number in re.findall(r"largest difference (\S+)", ran.stdout)]
    assert max(differences) > 1e-3


def test_the_script_of_a_sound_kernel_shows_no_difference() -> None:
    from attention_conformance.cases.case import MASKED
    from attention_conformance.implementation import describe
    from attention_conformance.reference.attention import attention
    from attention_conformance.story.reproduction import script
    from attention_conformance.trials.subject import Subject
    from attention_conformance.trials.trial import Trial

    trial = Trial(Subject(describe(attention), "fp64"), MASKED)
    lines = script(trial, trial.inputs)
    assert lines is not None
    ran = subprocess.run([sys.executable, "-c", "\n".join(lines)], text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
    differences = [float(number) for number in re.findall(r"largest difference (\S+)", ran.stdout)]
    assert len(differences) == 4
    assert max(differences) < 1e-12
