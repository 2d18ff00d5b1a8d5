"""`register(..., pin=True)`: which items it adds, what they keep, and what a change looks like."""

from __future__ import annotations

import json
from typing import Any

import pytest
import syrupy
import torch

from attention_conformance.collecting.pinning import conventions, inputs_of, pins
from attention_conformance.errors import InvalidTarget
from attention_conformance.implementation import describe
from attention_conformance.reference import MultiHeadAttention
from attention_conformance.reference.attention import attention
from tests.plugin.suites import KERNELS
from tests.snapshots.repositories import PINNED, run

pytest_plugins = ["pytester"]

ITEMS = [f"pin_{name}" for name in ("conventions", "plain_fp32", "masked_fp32", "empty_row_fp32")]
ONLY_PINS = ("-k", "pin_", "-p", "no:cacheprovider")


@pytest.fixture(autouse=True)
def _own_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the outer run back its session, which syrupy keeps in a global that an inner run overwrites."""
    monkeypatch.setattr(syrupy, "_syrupy", syrupy._syrupy)
    # Inner runs of a worker of pytest-xdist are no workers.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


def write(pytester: pytest.Pytester, registration: str, name: str = "tests/test_attention.py") -> None:
    """Write a user's repository with one test module."""
    path = pytester.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"import pytest\nimport kernels\nfrom attention_conformance import register\n\n{registration}\n")
    pytester.path.joinpath("kernels.py").write_text(KERNELS)
    pytester.path.joinpath("pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = --import-mode=importlib\n")


def change(pytester: pytest.Pytester, before: str, after: str) -> None:
    """Change the kernels."""
    path = pytester.path / "kernels.py"
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))


@pytest.fixture
def pinned(pytester: pytest.Pytester) -> pytest.Pytester:
    """A repository with a pinned kernel."""
    write(pytester, "flash = register(kernels.attend, dtypes=('fp32',), pin=True)")
    run(pytester, "--snapshot-update", *ONLY_PINS).assert_outcomes(passed=4)
    return pytester


def files(pytester: pytest.Pytester) -> list[str]:
    """Return the names of all pins."""
    return sorted(path.relative_to(pytester.path).as_posix() for path in pytester.path.rglob("*.pin.json"))


def kept(pytester: pytest.Pytester, name: str) -> Any:
    """Return what a pin holds."""
    return json.loads((pytester.path / PINNED / "tests/test_attention" / f"{name}.pin.json").read_text())["value"]


def test_pins_are_collected_after_the_rules_and_are_functions(pytester: pytest.Pytester) -> None:
    write(pytester, "flash = register(kernels.attend, dtypes=('fp32',), pin=True)\nother = register(kernels.attend)")
    items, _ = pytester.inline_genitems()
    names = [item.nodeid for item in items if isinstance(item, pytest.Function)]
    assert names == [f"tests/test_attention.py::flash::{name}" for name in ITEMS]
    assert {mark.name for mark in items[-1].iter_markers()} >= {"attention"}
    [output] = [item for item in items if item.name == "pin_plain_fp32"]
    assert {mark.name for mark in output.iter_markers()} == {"attention", "attention_fp32"}


def test_pins_fail_until_they_are_asked_for(pytester: pytest.Pytester) -> None:
    write(pytester, "flash = register(kernels.attend, dtypes=('fp32',), pin=True)")
    result = run(pytester, *ONLY_PINS)
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(
        [
            f"*flash::pin_conventions is not as pinned in {PINNED}/tests/test_attention/flash.pin_conventions.pin.json",
            "  nothing is pinned yet: *--snapshot-update, and commit the file.",
            "FAILED tests/test_attention.py::flash::pin_conventions - nothing is pinned y*",
        ]
    )
    assert files(pytester) == []


def test_pins_are_kept_in_the_users_repository(pinned: pytest.Pytester) -> None:
    assert files(pinned) == sorted(f"{PINNED}/tests/test_attention/flash.{name}.pin.json" for name in ITEMS)
    run(pinned, *ONLY_PINS).assert_outcomes(passed=4)
    assert kept(pinned, "flash.pin_conventions") == {
        "layout": "...LD", "scale": "1/sqrt(D)", "causal": None, "mask_means": "attend", "empty_row": "uniform",
        "no_keys": "zeros", "causal_with_mask": "not asked", "second": "weights",
    }  # fmt: skip
    output = kept(pinned, "flash.pin_plain_fp32")["eval"]["output"]
    assert (output["$tensor"], output["shape"]) == ("fp32", [2, 2, 3, 3])


def test_another_answer_for_empty_rows_shows_in_words_and_numbers(pinned: pytest.Pytester) -> None:
    change(pinned, "    return weights @ value, weights\n\n\ndef without", "    if mask is not None:\n        "
           "weights = weights.masked_fill((mask == 0).all(-1, keepdim=True), 0.0)\n"
           "    return weights @ value, weights\n"
           "\n\ndef without")  # fmt: skip
    result = run(pinned, *ONLY_PINS)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*flash::pin_conventions is not as pinned in *",
            "  empty_row: 'zeros', pinned 'uniform'",
            "  If the change is meant, *",
            "*flash::pin_empty_row_fp32 is not as pinned in *",
            "  train.output: 12 of 36 elements are beyond the tolerance, the worst at (1, 0, 1, 2): 0, pinned -0.5, *",
            "FAILED *flash::pin_conventions - empty_row: 'zeros', *",
        ]
    )
    run(pinned, "--snapshot-update", *ONLY_PINS).assert_outcomes(passed=4)
    assert kept(pinned, "flash.pin_conventions")["empty_row"] == "zeros"


@pytest.mark.parametrize(
    ("before", "after", "failing"),
    [
        ("** -0.5", "** -0.5001", 4),
        ("mask == 0), -1e9", "mask == 0), -1e30", 0),
        ("return weights @ value, weights\n\n\ndef without", "return weights @ value\n\n\ndef without", 4),
        (
            "return weights @ value, weights\n\n\ndef without",
            "return (weights @ value).double(), weights\n\n\ndef without",
            3,
        ),
        ("scores = query", "assert mask is None\n    scores = query", 3),
    ],
    ids=["scale", "fill", "no weights", "dtype", "masks refused"],
)
def test_what_changes_behaviour_fails_and_what_does_not_passes(
    pinned: pytest.Pytester, before: str, after: str, failing: int
) -> None:
    change(pinned, before, after)
    run(pinned, *ONLY_PINS).assert_outcomes(failed=failing, passed=4 - failing)


def test_the_tolerance_is_no_excuse_for_another_shape(pinned: pytest.Pytester) -> None:
    change(
        pinned,
        "return weights @ value, weights\n\n\ndef without",
        "return weights @ value, weights[0]\n\n\ndef without",
    )
    result = run(pinned, *ONLY_PINS, "-k", "pin_plain")
    result.stdout.fnmatch_lines(["  train.second: shape (2, 3, 4), pinned (2, 2, 3, 4)"])


def test_a_registration_that_is_gone_leaves_unused_pins(pinned: pytest.Pytester) -> None:
    write(pinned, "fast = register(kernels.attend, dtypes=('fp32',), pin=True)")
    result = run(pinned, "--snapshot-details", *ONLY_PINS)
    result.assert_outcomes(failed=4)
    result.stdout.fnmatch_lines(["*4 snapshots failed. 4 snapshots unused.*", "Unused flash.pin_conventions (*"])
    assert all("flash." in name for name in files(pinned))
    assert run(pinned, "--snapshot-update").ret == pytest.ExitCode.OK
    assert all("fast." in name for name in files(pinned))
    assert len(files(pinned)) == 4


def test_pins_and_other_snapshots_of_a_repository_stand_side_by_side(pinned: pytest.Pytester) -> None:
    folder = pinned.path / "tests/__snapshots__"
    folder.mkdir()
    folder.joinpath("test_attention.ambr").write_text("# serializer version: 1\n")
    folder.joinpath("of_another_tool.json").write_text("{}")
    run(pinned, "--snapshot-update")
    assert {path.name for path in folder.iterdir()} == {"test_attention.ambr", "of_another_tool.json"}


def test_workers_agree_on_the_pins(pinned: pytest.Pytester) -> None:
    result = pinned.runpytest_subprocess("-n", "2", *ONLY_PINS)
    result.assert_outcomes(passed=4)
    for name in files(pinned):
        pinned.path.joinpath(name).unlink()
    pinned.runpytest_subprocess("-n", "2", *ONLY_PINS).assert_outcomes(failed=4)
    pinned.runpytest_subprocess("-n", "2", "--snapshot-update", *ONLY_PINS).assert_outcomes(passed=4)
    assert len(files(pinned)) == 4


def test_without_syrupy_the_pins_say_so(pinned: pytest.Pytester) -> None:
    result = pinned.runpytest_subprocess("-p", "no:syrupy", "-k", "pin_plain", "-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*pin=True needs the plugin of syrupy*"])


def test_a_nested_root_decides_where_pins_are_kept(pytester: pytest.Pytester) -> None:
    write(pytester, "flash = register(kernels.attend, dtypes=('fp32',), pin=True)", "package/tests/test_attention.py")
    pytester.path.joinpath("package/tests/conftest.py").write_text("")
    pytester.path.joinpath("package/pytest.ini").write_text("[pytest]\npythonpath = ..\n")
    run(pytester, "--snapshot-update", *ONLY_PINS, "package")
    assert all(name.startswith(f"package/{PINNED}/tests/test_attention/flash.") for name in files(pytester))
    assert len(files(pytester)) == 4


# What is observed


def test_pins_are_of_fp32_and_the_first_dtype() -> None:
    def names(**declared: Any) -> list[str]:
        return [pin.name for pin in pins(describe(attention, **declared))]

    assert names(dtypes=("fp32",)) == ITEMS
    assert names(dtypes=("bf16", "fp16")) == [name.replace("fp32", "bf16") for name in ITEMS]
    assert names() == [*ITEMS, "pin_plain_fp64", "pin_masked_fp64", "pin_empty_row_fp64"]
    assert names(dtypes=("fp32",), mask=()) == ITEMS[:2]
    assert names(dtypes=("fp32",), mask=("lengths",)) == ITEMS
    assert names(dtypes=("fp32",), empty_row="error") == ITEMS[:3]


def test_observed_conventions_are_not_the_declared_ones() -> None:
    def zeros(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        output, _ = attention(query, key, value, mask)
        return output if mask is None else output.masked_fill((mask == 0).all(-1, keepdim=True), 0.0)

    for declared in ("uniform", "zeros", "unspecified", "error"):
        seen = conventions(describe(zeros, empty_row=declared), "fp32")
        assert (seen["empty_row"], seen["second"]) == ("zeros", None)


def test_what_raises_is_observed_by_the_name_of_its_error() -> None:
    def refuses(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        if mask is not None and bool((mask == 0).all(-1).any()):
            raise ValueError(f"a message with an address: {id(mask)}")
        return attention(query, key, value, mask)

    assert conventions(describe(refuses), "fp32")["empty_row"] == "error"
    seen = {pin.name: pin.observe() for pin in pins(describe(refuses, dtypes=("fp32",)))}
    assert seen["pin_empty_row_fp32"]["eval"] == "raises ValueError"


@pytest.mark.parametrize("dtype", ["fp64", "fp32", "bf16", "fp16"])
def test_inputs_are_the_same_numbers_in_every_dtype(dtype: str) -> None:
    for implementation in (describe(attention), describe(MultiHeadAttention)):
        masked = next(pin for pin in pins(implementation) if "masked" in pin.name)
        case = masked.observe.case  # type: ignore[attr-defined]
        exact, made = (inputs_of(case, implementation.is_module, name) for name in ("fp64", dtype))
        for name in ("query", "key", "value"):
            assert torch.equal(getattr(made, name).double(), getattr(exact, name))
        assert made.allowed is not None
        assert made.allowed.any(-1).all()
        assert not made.allowed.all()


def test_pin_is_true_or_false() -> None:
    with pytest.raises(InvalidTarget, match="pin='flash' is neither"):
        describe(attention, pin="flash")  # type: ignore[arg-type]
