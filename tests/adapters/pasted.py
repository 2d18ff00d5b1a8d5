"""Runs the script of a failure as a user would who pastes it where this package is not installed."""

from __future__ import annotations

import re
import subprocess
import sys

from attention_conformance.cases.case import Case
from attention_conformance.fitting import Excluded, fit
from attention_conformance.implementation import Implementation
from attention_conformance.story.reproduction import script
from attention_conformance.trials.subject import Subject
from attention_conformance.trials.trial import Trial

ALONE = "import sys; sys.modules['attention_conformance'] = None; exec(compile(sys.stdin.read(), 'script', 'exec'))"
"""Runs a script in a process in which importing this package fails."""


def largest_differences(implementation: Implementation, dtype: str, *cases: Case) -> list[float]:
    """Return the differences that the script for the first case that fits prints: of the output, and of each gradient."""
    fitted = (fit(case, implementation) for case in cases)
    trial = Trial(Subject(implementation, dtype), next(case for case in fitted if not isinstance(case, Excluded)))
    lines = script(trial, trial.inputs)
    assert lines is not None
    code = "\n".join(lines)
    ran = subprocess.run([sys.executable, "-c", ALONE], input=code, text=True, capture_output=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return [float(number) for number in re.findall(r"largest difference (\S+)", ran.stdout)]
