"""A user's own tests see what they had: what an implementation raises or changes in their process stays with it."""

from __future__ import annotations

import sys

import pytest

from tests.plugin.suites import repository, run

pytest_plugins = ["pytester"]

RAISING = """
def raising(make):
    def raises(query, key, value, mask=None):
        raise make()
    return raises

import sys

for name, make in {
    "skips": lambda: pytest.skip.Exception("not today"),
    "fails": lambda: pytest.fail.Exception("enough"),
    "xfails": lambda: pytest.xfail.Exception("as expected"),
    "ends_the_session": lambda: pytest.exit.Exception("good bye", 0),
    "interrupts": KeyboardInterrupt,
    "exits": lambda: SystemExit(0),
    "stops": GeneratorExit,
}.items():
    register(raising(make), name=name, dtypes=("fp32",))

def test_theirs():
    pass
"""
NAMES = ("skips", "fails", "xfails", "ends_the_session", "interrupts", "exits", "stops")

UNTIDY = """
import os, random, signal, sys, warnings
import numpy, torch

def attend(query, key, value, mask=None):
    result = kernels.attend(query, key, value, mask)
    torch.set_default_dtype(torch.float16)
    torch.set_default_device("meta")
    torch.set_grad_enabled(False)
    torch.inference_mode().__enter__()
    torch.autograd.set_detect_anomaly(True)
    torch.set_num_threads(torch.get_num_threads() + 1)
    torch.set_flush_denormal(True)
    numpy.seterr(all="raise")
    os.chdir(os.sep)
    os.environ["OMP_NUM_THREADS"] = "99"
    os.environ.pop("PATH", None)
    torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
    sys.setrecursionlimit(5000)
    sys.settrace(lambda *arguments: None)
    warnings.simplefilter("error")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    return result

register(attend, name="untidy", dtypes=("fp32",))
"""
THEIRS = """
import os, random, signal, sys, warnings
import numpy, torch

def state():
    return {
        "numbers": (torch.get_default_dtype(), str(torch.empty(0).device), torch.is_grad_enabled()),
        "modes": (torch.is_inference_mode_enabled(), torch.is_anomaly_enabled(), sys.gettrace()),
        "threads": torch.get_num_threads(),
        "denormal": 5e-324 * float("1") == 0,
        "errors": numpy.geterr(),
        "folder": os.getcwd(),
        "environment": dict(os.environ, PYTEST_CURRENT_TEST=""),
        "random": (torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()[1].tolist()),
        "limit": sys.getrecursionlimit(),
        "handler": signal.getsignal(signal.SIGINT),
        "filters": list(warnings.filters),
    }
"""
BEFORE = THEIRS + "def test_before():\n    sys.before = state()\n"
AFTER = THEIRS + (
    "@pytest.mark.parametrize('what', list(state()))\n"
    "def test_after(what):\n    assert state()[what] == sys.before[what]\n"
)


def test_what_is_raised_inside_is_a_failure_whatever_it_is(pytester: pytest.Pytester) -> None:
    repository(pytester, RAISING)
    ran = run(pytester, "-k", "SHAPE-001 or MASK-003 or theirs")
    assert ran.status == pytest.ExitCode.TESTS_FAILED
    assert ran.with_outcome("passed") == {"test_theirs"}
    assert ran.with_outcome("skipped") == ran.with_outcome("xfailed") == set()
    assert ran.with_outcome("failed") == {
        f"{name}::{rule}[fp32]" for name in NAMES for rule in ("SHAPE-001", "MASK-003")
    }
    assert "it raised Exit: good bye" in ran.text("ends_the_session::SHAPE-001[fp32]")
    assert "it raised KeyboardInterrupt" in ran.text("interrupts::SHAPE-001[fp32]")


def test_a_users_own_test_sees_what_it_had(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    repository(pytester, UNTIDY, name="test_b_attention")
    repository(pytester, BEFORE, name="test_a_before")
    repository(pytester, AFTER, name="test_c_after")
    monkeypatch.setattr(sys, "before", None, raising=False)
    ran = run(pytester, "-k", "SHAPE or MASK or GRADIENT-001 or before or after")
    assert ran.with_outcome("failed") == set()
    assert "untidy::GRADIENT-001[fp32]" in ran.with_outcome("passed")
    assert len([name for name in ran.with_outcome("passed") if name.startswith("test_after")]) == 11
