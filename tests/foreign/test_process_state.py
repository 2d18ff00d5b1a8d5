"""What foreign code may change for its process: put back after a record, and what decides numbers after a call."""

from __future__ import annotations

import gc
import io
import os
import random
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from attention_conformance import Outcome, check
from attention_conformance.foreign.process_state import (
    COMPUTING,
    PROCESS,
    Setting,
    computing_state_kept,
    process_state_kept,
)
from attention_conformance.implementation import describe
from attention_conformance.rulebook import get_rule
from attention_conformance.runner import Examination
from tests.kernels import attend

HELD: list[object] = []


def _enter_inference_mode() -> None:
    HELD.append(torch.inference_mode())
    HELD[-1].__enter__()  # type: ignore[attr-defined]


def _kernels_off() -> None:
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_math_sdp(False)


def _mix_the_names_of_precision() -> None:
    """Set it by torch's newer name, after which asking by the older one may raise."""
    if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        torch.backends.cuda.matmul.fp32_precision = "tf32"
    else:
        torch.set_float32_matmul_precision("medium")


def _autocast_on() -> None:
    torch.set_autocast_enabled("cpu", True)
    torch.set_autocast_dtype("cpu", torch.float16)


NUMERIC: dict[str, Callable[[], object]] = {
    "default dtype": lambda: torch.set_default_dtype(torch.float16),
    "default device": lambda: torch.set_default_device("meta"),
    "grad mode": lambda: torch.set_grad_enabled(False),
    "autocast": _autocast_on,
    "anomaly mode": lambda: torch.autograd.set_detect_anomaly(True, check_nan=False),
    "flushing of denormal numbers": lambda: torch.set_flush_denormal(True),
    "float32 matmul precision": lambda: torch.set_float32_matmul_precision("medium"),
    "deterministic algorithms": lambda: torch.use_deterministic_algorithms(True, warn_only=True),
    "kernels of torch's attention": _kernels_off,
    "error handling of NumPy": lambda: np.seterr(all="raise"),
}


def _other_environment() -> None:
    os.environ["OMP_NUM_THREADS"], os.environ["A_NEW_ONE"] = "7", "1"
    del os.environ["PATH"]


OTHER: dict[str, Callable[[], object]] = {
    "number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "working folder": lambda: os.chdir(os.sep),
    "environment variables": _other_environment,
    "standard streams": lambda: setattr(sys, "stdout", io.StringIO()),
    "warning filters": lambda: warnings.simplefilter("error"),
    "signal handlers": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    "recursion limit": lambda: sys.setrecursionlimit(sys.getrecursionlimit() + 1),
    "trace function": lambda: sys.settrace(lambda *arguments: None),
    "profile function": lambda: sys.setprofile(lambda *arguments: None),
    "garbage collection": gc.disable,
}


@pytest.fixture(autouse=True)
def _anyway() -> Iterator[None]:
    """Keep the rest of this session whole even where a test fails."""
    streams, folder, environment = (sys.stdin, sys.stdout, sys.stderr), os.getcwd(), dict(os.environ)
    yield
    sys.stdin, sys.stdout, sys.stderr = streams
    os.chdir(folder)
    os.environ.update(environment)
    torch.set_default_device(None)
    torch.set_default_dtype(torch.float32)


def test_every_setting_has_a_test() -> None:
    assert {each.name for each in COMPUTING} == set(NUMERIC)
    assert {each.name for each in PROCESS} == {*OTHER, "locale"}


def _setting(name: str) -> Setting:
    return next(each for each in (*COMPUTING, *PROCESS) if each.name == name)


@pytest.mark.parametrize("name", NUMERIC)
def test_what_decides_numbers_is_put_back(name: str) -> None:
    before = _setting(name).read()
    with computing_state_kept():
        NUMERIC[name]()
        assert _setting(name).read() != before
    assert _setting(name).read() == before


@pytest.mark.parametrize("name", [name for name in OTHER if os.name == "posix" or name != "signal handlers"])
def test_the_rest_of_the_process_is_put_back(name: str) -> None:
    before = _setting(name).read()
    with process_state_kept():
        OTHER[name]()
        changed = _setting(name).read() != before
    assert changed
    assert _setting(name).read() == before


def test_an_inference_mode_that_is_never_left_is_left() -> None:
    with computing_state_kept():
        _enter_inference_mode()
        assert torch.is_inference_mode_enabled()
    assert not torch.is_inference_mode_enabled()
    assert torch.is_grad_enabled()


def test_a_precision_that_can_no_longer_be_asked_for_is_put_back() -> None:
    with computing_state_kept():
        _mix_the_names_of_precision()
    assert torch.get_float32_matmul_precision() == "highest"


def test_the_random_generators_are_put_back() -> None:
    def drawn() -> tuple[float, ...]:
        return float(torch.rand(())), random.random(), float(np.random.rand())  # noqa: NPY002

    with process_state_kept():
        first = drawn()
    assert drawn() == first


def test_a_folder_that_is_gone_keeps_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    with process_state_kept():
        os.chdir(os.sep)
        gone.rmdir()
        torch.set_num_threads(torch.get_num_threads() + 1)
        sys.setrecursionlimit(sys.getrecursionlimit() + 1)
        limit = sys.getrecursionlimit()
    assert sys.getrecursionlimit() == limit - 1


def test_in_another_thread_what_can_be_put_back_is() -> None:
    seen = []

    def work() -> None:
        with process_state_kept():
            torch.set_default_dtype(torch.float64)
        seen.append(torch.get_default_dtype())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [torch.float32]


def _changing(change: Callable[[], object]) -> Callable[..., Tensor]:
    def untidy(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        output = attend(query, key, value, mask)[0]
        change()
        return output

    return untidy


@pytest.mark.parametrize("change", [*NUMERIC.values(), _enter_inference_mode], ids=[*NUMERIC, "inference mode"])
def test_an_untidy_implementation_is_judged_by_its_results(change: Callable[[], object]) -> None:
    """Seeds of their own, so that the expectations are made while the settings are changed."""
    examined = Examination(describe(_changing(change), dtypes=("fp32",), second=None), gated=False, seed=7)
    names = ("NUMERIC-001", "MASK-001", "GRADIENT-001")
    records = [examined.run_one(get_rule(name), "fp32") for name in names]
    assert [record.outcome for record in records] == [Outcome.PASSED] * len(names)


def test_the_rule_about_global_state_sees_what_a_call_changes() -> None:
    untidy = _changing(lambda: torch.set_default_dtype(torch.float16))
    (record,) = check(untidy, dtypes=("fp32",), second=None, select=["PURITY-006"])
    assert record.outcome is Outcome.FAILED
    assert "the call changed the default dtype" in record.message
