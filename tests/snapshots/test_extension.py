"""The extension as syrupy uses it: files, updates, what is unused, and what belongs to somebody else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import syrupy

from tests.snapshots.repositories import PINNED, TEST, VALUE, edit, only_pin, pins, run, set_test, set_value, update

pytest_plugins = ["pytester"]

WHERE = f"{PINNED}/tests/test_value/test_value.pin.json"
TWO = TEST + "\n\ndef test_other(snapshot):\n    assert snapshot.use_extension(PinExtension) == 1\n"


@pytest.fixture(autouse=True)
def _own_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the outer run back its session, which syrupy keeps in a global that an inner run overwrites."""
    monkeypatch.setattr(syrupy, "_syrupy", syrupy._syrupy)
    # Inner runs of a worker of pytest-xdist are no workers.
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)


@pytest.fixture
def pinned(pytester: pytest.Pytester) -> pytest.Pytester:
    """A repository with one pinned value."""
    set_test(pytester)
    set_value(pytester, VALUE)
    update(pytester)
    return pytester


def failure(result: pytest.RunResult) -> str:
    """Return the output of a run in which one test failed."""
    result.assert_outcomes(failed=1)
    return result.stdout.str()


def test_a_missing_snapshot_fails_until_it_is_asked_for(pytester: pytest.Pytester) -> None:
    set_test(pytester)
    set_value(pytester, VALUE)
    text = failure(run(pytester))
    assert "Snapshot 'test_value' does not exist!" in text
    assert "nothing is pinned yet" in text
    assert pins(pytester) == []
    update(pytester)
    assert pins(pytester) == ["pinned/tests/test_value/test_value.pin.json"]
    run(pytester).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("0.25, -0.5", "0.375, -0.5", "output: 1 of 6 elements are beyond the tolerance, the worst at (0, 0): 0.375,"),
        ("np.float32", "np.float64", "output: dtype fp64, pinned fp32"),
        (", np.nan], [1.0, 2.0, np.inf]", "], [np.nan, 1.0], [2.0, np.inf]", "output: shape (3, 2), pinned (2, 3)"),
        ("-0.5, np.nan", "np.nan, -0.5", "output: NaN at 1 of 6 elements, pinned at 1; the first difference is at"),
        ("np.inf", "-np.inf", "(1, 2): -inf, pinned inf, error inf"),
        ("[3, 5]", "[3, 6]", "lengths: 1 of 2 elements differ, the first at (1,): 6, pinned 5"),
        ("uniform", "zeros", "answer: 'zeros', pinned 'uniform'"),
        ("0.125", "0.1251", "scale: 0.1251, pinned 0.125, error 0.0001"),
        ('"scale": 0.125', '"size": 0.125', "scale: missing, pinned 0.125"),
    ],
)
def test_a_change_fails_and_is_told_in_numbers(pinned: pytest.Pytester, before: str, after: str, line: str) -> None:
    assert before in VALUE
    before_update = only_pin(pinned).read_text()
    set_value(pinned, VALUE.replace(before, after, 1))
    text = failure(run(pinned))
    assert line in text
    assert "run pytest --snapshot-update" in text
    assert only_pin(pinned).read_text() == before_update
    update(pinned)
    run(pinned).assert_outcomes(passed=1)


def test_an_extension_of_one_assertion_explains_a_difference_in_numbers_too(pinned: pytest.Pytester) -> None:
    set_test(pinned, TEST.replace("snapshot.use_extension(PinExtension)", "snapshot(extension_class=PinExtension)"))
    run(pinned).assert_outcomes(passed=1)
    set_value(pinned, VALUE.replace("uniform", "zeros").replace("0.25, -0.5", "0.5, -0.5"))
    text = failure(run(pinned))
    assert "E         + answer: 'zeros', pinned 'uniform'" in text
    assert "0.5, pinned 0.25, error 0.25, allowed 3.5e-06" in text
    update(pinned)
    assert '"answer": "zeros"' in only_pin(pinned).read_text()


def test_numbers_within_the_tolerance_pass_and_the_file_is_not_written_again(pinned: pytest.Pytester) -> None:
    path, text = only_pin(pinned), only_pin(pinned).read_text()
    os.utime(path, (1, 1))
    set_value(pinned, VALUE.replace("0.25, -0.5", "0.2500001, -0.5"))
    run(pinned).assert_outcomes(passed=1)
    update(pinned)
    assert (path.stat().st_mtime, path.read_text()) == (1, text)


def test_the_tolerance_of_the_file_counts_and_survives_an_update(pinned: pytest.Pytester) -> None:
    edit(only_pin(pinned), tolerance={"fp32": {"rtol": 0.5, "atol": 0.25}, "float": {"rtol": 0, "atol": 0}})
    set_value(pinned, VALUE.replace("0.25, -0.5", "0.5, -0.5"))
    run(pinned).assert_outcomes(passed=1)
    set_value(pinned, VALUE.replace("0.25, -0.5", "1.5, -0.5"))
    assert "allowed 0.375 (fp32: atol 0.25 + rtol 0.5 * |pinned|)" in failure(run(pinned))
    update(pinned)
    assert '"fp32": {"rtol": 0.5, "atol": 0.25}' in only_pin(pinned).read_text()


@pytest.mark.parametrize("torn", [b"", b'{"format": "attention-confor', b"\xff\xfe\x00"])
def test_a_torn_file_fails_and_an_update_mends_it(pinned: pytest.Pytester, torn: bytes) -> None:
    path = only_pin(pinned)
    sound = path.read_bytes()
    path.write_bytes(torn)
    text = failure(run(pinned))
    assert "the file is torn" in text or "nothing is pinned yet" in text
    assert path.read_bytes() == torn
    update(pinned)
    assert path.read_bytes() == sound


def test_other_versions_are_told_where_something_differs(pinned: pytest.Pytester) -> None:
    edit(only_pin(pinned), pinned_with={"numpy": "1.0"})
    run(pinned).assert_outcomes(passed=1)
    set_value(pinned, VALUE.replace("uniform", "zeros"))
    assert "It was pinned with numpy 1.0, now " in failure(run(pinned))


def test_what_cannot_be_pinned_is_said(pytester: pytest.Pytester) -> None:
    set_test(pytester)
    set_value(pytester, "{'output': object()}")
    assert "output is a object. A pin holds tensors" in failure(run(pytester, "--snapshot-update"))
    assert pins(pytester) == []


def test_matchers_and_excluded_entries_are_syrupys(pytester: pytest.Pytester) -> None:
    set_test(
        pytester,
        TEST.replace("(PinExtension)", "(PinExtension)(exclude=props('time'), matcher=path_type({'id': (int,)}))")
        + "\n\nfrom syrupy.filters import props\nfrom syrupy.matchers import path_type\n",
    )
    set_value(pytester, "{'time': 1, 'id': 7, 'answer': 1}")
    update(pytester)
    assert '"time"' not in only_pin(pytester).read_text()
    set_value(pytester, "{'time': 2, 'id': 8, 'answer': 1}")
    run(pytester).assert_outcomes(passed=1)
    set_value(pytester, "{'time': 2, 'id': 8, 'answer': 2}")
    assert "answer: 2, pinned 1" in failure(run(pytester))


# Names


def test_modules_of_one_name_do_not_meet(pytester: pytest.Pytester) -> None:
    set_value(pytester, VALUE)
    for folder in ("a", "b", "a/c"):
        set_test(pytester, TEST.replace("values.value()", repr(folder)), f"{folder}/test_same.py")
    update(pytester)
    names = [f"pinned/{folder}/test_same/test_value.pin.json" for folder in ("a", "b", "a/c")]
    assert pins(pytester) == sorted(names)
    update(pytester, "a/test_same.py")
    assert pins(pytester) == sorted(names)
    run(pytester).assert_outcomes(passed=3)


def test_every_snapshot_has_a_file_whatever_it_is_called(pytester: pytest.Pytester) -> None:
    set_value(pytester, "1")
    set_test(
        pytester,
        "import pytest\nfrom attention_conformance.snapshot import PinExtension\n\n\n"
        "class TestNames:\n"
        "    @pytest.mark.parametrize('name', ['a/b', 'ab', 'a:b', '../up', 'ö', 300 * 'x' + '1', 300 * 'x' + '2'])\n"
        "    def test_name(self, snapshot, name):\n"
        "        pin = snapshot.use_extension(PinExtension)\n"
        "        assert pin == name\n"
        "        assert pin == name + '!'\n"
        "        assert pin(name='kept') == name + '?'\n",
    )
    run(pytester, "--snapshot-update", "-W", "ignore").assert_outcomes(passed=7)
    names = pins(pytester)
    assert len(names) == 21
    assert "pinned/tests/test_value/TestNames.test_name[a%2Fb].pin.json" in names
    assert "pinned/tests/test_value/TestNames.test_name[ab][kept].pin.json" in names
    assert {str(Path(name).parent) for name in names} == {"pinned/tests/test_value"}
    run(pytester).assert_outcomes(passed=7)


def test_modules_outside_the_root_have_a_folder_of_their_own(pytester: pytest.Pytester) -> None:
    set_test(pytester, TEST.replace("values.value()", "1"), "elsewhere/test_value.py")
    root = pytester.mkdir("root")
    root.joinpath("pytest.ini").write_text("[pytest]\n")
    arguments = (
        "elsewhere/test_value.py",
        f"--rootdir={root}",
        "-c",
        str(root / "pytest.ini"),
        f"-opythonpath={pytester.path}",
    )
    set_value(pytester, "1")
    update(pytester, *arguments)
    [path] = root.rglob("*.pin.json")
    assert path.relative_to(root).parts[:3] == ("snapshots", "pinned", "_outside_")
    run(pytester, *arguments).assert_outcomes(passed=1)


def test_nothing_is_kept_in_an_installation(pytester: pytest.Pytester) -> None:
    set_value(pytester, "1")
    set_test(pytester, name="site-packages/package/test_value.py")
    root = pytester.path / "site-packages"
    result = run(pytester, "--snapshot-update", f"--rootdir={root}", str(root), f"-opythonpath={pytester.path}")
    assert "PinsInSitePackages" in failure(result)
    assert not list(pytester.path.rglob("*.pin.json"))


# Unused files


@pytest.fixture
def stale(pinned: pytest.Pytester) -> pytest.Pytester:
    """The repository with two tests, a pin that nothing uses, one whose module is gone, and somebody else's files."""
    set_test(pinned, TWO)
    update(pinned)
    folder = pinned.path / PINNED
    text = only_text(pinned)
    for name in ("tests/test_value/test_gone.pin.json", "tests/test_removed/test_value.pin.json"):
        folder.joinpath(name).parent.mkdir(exist_ok=True)
        folder.joinpath(name).write_text(text)
    for name in ("tests/test_value/foreign.json", "notes.json", "../attention/golden.json", "../golden.pin.json"):
        folder.joinpath(name).parent.mkdir(exist_ok=True)
        folder.joinpath(name).write_text("{}")
    return pinned


def only_text(pytester: pytest.Pytester) -> str:
    return pytester.path.joinpath(WHERE).read_text()


FOREIGN = {"attention/golden.json", "golden.pin.json", "pinned/notes.json", "pinned/tests/test_value/foreign.json"}
USED = {"pinned/tests/test_value/test_value.pin.json", "pinned/tests/test_value/test_other.pin.json"}
UNUSED = {"pinned/tests/test_value/test_gone.pin.json", "pinned/tests/test_removed/test_value.pin.json"}


def test_unused_files_fail_the_run_and_stay(stale: pytest.Pytester) -> None:
    result = run(stale, "--snapshot-details")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*2 snapshots passed. 2 snapshots unused.*", "Unused test_gone (*test_gone.pin.json)"])
    assert set(pins(stale)) == FOREIGN | USED | UNUSED


def test_an_update_deletes_what_is_unused_and_nothing_else(stale: pytest.Pytester) -> None:
    update(stale)
    assert set(pins(stale)) == FOREIGN | USED


@pytest.mark.parametrize(
    "narrowed",
    [
        ("-k", "not other"),
        ("-k", "test_value and not test_value"),
        ("--deselect", "tests/test_value.py::test_other"),
        ("tests/test_value.py::test_value",),
        ("-m", "nothing"),
    ],
    ids=" ".join,
)
def test_an_update_of_a_part_deletes_no_pin_of_the_rest(stale: pytest.Pytester, narrowed: tuple[str, ...]) -> None:
    run(stale, "--snapshot-update", *narrowed)
    assert set(pins(stale)) >= FOREIGN | USED


@pytest.mark.parametrize("body", ["raise ValueError", "pytest.skip('no')", "pytest.xfail('no')"])
def test_a_test_that_does_not_reach_its_assertion_keeps_its_pin(stale: pytest.Pytester, body: str) -> None:
    set_test(
        stale, "import pytest\n" + TWO.replace("    assert snapshot.use_extension(PinExtension) == 1", f"    {body}")
    )
    run(stale, "--snapshot-update", "-x")
    assert set(pins(stale)) == FOREIGN | USED


def test_a_subset_by_path_leaves_other_modules_alone(stale: pytest.Pytester) -> None:
    set_test(stale, TEST, "tests/test_second.py")
    update(stale, "tests/test_second.py")
    update(stale, "tests/test_value.py")
    assert set(pins(stale)) >= FOREIGN | USED | {"pinned/tests/test_second/test_value.pin.json"}


def test_modules_that_are_ignored_keep_their_pins(stale: pytest.Pytester) -> None:
    set_test(stale, TEST, "tests/test_second.py")
    update(stale, "--ignore=tests/test_value.py")
    assert set(pins(stale)) >= FOREIGN | USED
    assert "pinned/tests/test_removed/test_value.pin.json" not in pins(stale)


def test_workers_write_every_pin_and_delete_nothing_that_is_used(stale: pytest.Pytester) -> None:
    for name in USED:
        stale.path.joinpath("snapshots", name).unlink()
    arguments = ("-p", "no:cacheprovider", "-n", "2", "--snapshot-update")
    result = stale.runpytest_subprocess(*arguments)
    result.assert_outcomes(passed=2)
    assert set(pins(stale)) >= FOREIGN | USED
    stale.runpytest_subprocess("-p", "no:cacheprovider", "-n", "2", "--snapshot-warn-unused").assert_outcomes(passed=2)
