"""A failure of an implementation that an adapter calls can be pasted: its script needs torch and the implementation only."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from attention_conformance.adapters import ADAPTERS, Adapter
from attention_conformance.cases.case import MASKED, PADDED
from attention_conformance.fitting import Excluded, fit
from attention_conformance.story.reproduction import script
from attention_conformance.trials.subject import Subject
from attention_conformance.trials.trial import Trial

TORCH = [adapter for adapter in ADAPTERS if adapter.target.startswith("torch.")]

ALONE = "import sys; sys.modules['attention_conformance'] = None; exec(compile(sys.stdin.read(), 'script', 'exec'))"
"""Runs a script in a process in which importing this package fails."""


@pytest.mark.parametrize("adapter", TORCH, ids=lambda adapter: adapter.text)
def test_a_script_runs_where_this_package_is_not_installed(adapter: Adapter) -> None:
    implementation = adapter.describe({})
    case = next(
        case for case in (fit(each, implementation) for each in (MASKED, PADDED)) if not isinstance(case, Excluded)
    )
    trial = Trial(Subject(implementation, "fp64"), case)
    lines = script(trial, trial.inputs)
    assert lines is not None
    code = "\n".join(lines)
    ran = subprocess.run([sys.executable, "-c", ALONE], input=code, text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
    differences = [float(number) for number in re.findall(r"largest difference (\S+)", ran.stdout)]
    assert len(differences) == 4
    assert max(differences) < 1e-12
