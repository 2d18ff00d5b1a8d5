"""The script of a failure puts the parameters where the suite puts them."""

from __future__ import annotations

import re

import pytest

from attention_conformance.cases.case import PLAIN
from attention_conformance.fitting import fit
from attention_conformance.implementation import describe
from attention_conformance.story.reproduction import script
from attention_conformance.trials.subject import Subject
from attention_conformance.trials.trial import Trial
from tests.zoo.program import Program
from tests.zoo.sound.modules import SOUND_MODULES
from tests.zoo.sound.packed_modules import SOUND_PACKED_MODULES
from tests.zoo.sound.storage import SOUND_STORAGE

_OTHERS = ("head_linears", "three_axis_kernels", "in_projection", "transposed_self", "shared_projections")
PROGRAMS = [*SOUND_STORAGE, *(each for each in (*SOUND_MODULES, *SOUND_PACKED_MODULES) if each.name in _OTHERS)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_the_script_of_a_sound_module_shows_no_difference(program: Program, capsys: pytest.CaptureFixture[str]) -> None:
    implementation = describe(program.target, **program.capabilities)
    case = fit(PLAIN, implementation)
    trial = Trial(Subject(implementation, "fp64"), case)  # type: ignore[arg-type]
    lines = script(trial, trial.inputs)
    assert lines is not None
    exec("\n".join(lines), {})
    differences = [float(number) for number in re.findall(r"largest difference (\S+)", capsys.readouterr().out)]
    assert len(differences) == 4
    assert max(differences) < 1e-11
