"""Which items a test module gets, and under which ids."""

from __future__ import annotations

import pytest

from attention_conformance.implementation import describe
from attention_conformance.selection import plan
from tests.plugin.suites import repository, run

pytest_plugins = ["pytester"]


def collected(pytester: pytest.Pytester, *arguments: str) -> list[str]:
    """Return the ids that pytest collects."""
    return run(pytester, "--collect-only", *arguments).collected


def implementations(ids: list[str]) -> list[str]:
    """Return the names of the implementations in order of their first item."""
    return list(dict.fromkeys(nodeid.split("::")[1] for nodeid in ids))


@pytest.mark.parametrize("tier", ["default", "thorough"])
def test_an_implementation_has_one_item_for_each_rule_and_dtype_of_its_plan(
    pytester: pytest.Pytester, tier: str
) -> None:
    repository(pytester, "flash = register(kernels.attend)")
    expected = [f"test_attention.py::flash::{key}" for key in plan(describe(len), tier=tier)]
    assert collected(pytester, "--attention-tier", tier) == expected
    assert "test_attention.py::flash::MASK-001[fp32]" in expected


def test_an_unknown_tier_is_a_usage_error(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess("--attention-tier", "everything")
    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_ids_name_the_folder_of_the_test_module(pytester: pytest.Pytester) -> None:
    repository(pytester, "flash = register(kernels.attend, dtypes=('fp32',))")
    pytester.makepyprojecttoml("[tool.pytest.ini_options]\npythonpath = '.'\n")
    pytester.mkdir("tests").joinpath("test_moved.py").write_text(
        pytester.path.joinpath("test_attention.py").read_text()
    )
    ids = collected(pytester, "tests")
    assert ids[0] == "tests/test_moved.py::flash::SHAPE-001[fp32]"


def test_names_come_from_the_module_the_call_or_the_position(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        """
        flash = register(kernels.attend)
        alias = flash
        named = register(kernels.attend, name="another")
        for size in (16, 32):
            register(kernels.attend, name=f"blocks of {size}")
        register(kernels.attend)
        """,
    )
    names = implementations(collected(pytester))
    assert names == ["flash", "another", "blocks of 16", "blocks of 32", "implementation5"]


def test_equal_names_are_told_apart(pytester: pytest.Pytester) -> None:
    repository(pytester, "for name in ('a', 'a', 'a#2', 'a'):\n    register(kernels.attend, name=name)")
    ids = collected(pytester)
    assert implementations(ids) == ["a", "a#2", "a#2#2", "a#3"]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (r"\ud800", r"\ud800"),
        (r"two\nlines", r"two\nlines"),
        ("flash[8]", "flash(8)"),
        ("mykernels::attend", "mykernels:attend"),
        (r"\x1b[31mred", r"\x1b(31mred"),
        ("größer", "größer"),
        ("::", "implementation1"),
    ],
)
def test_a_name_is_printable_and_can_be_selected(pytester: pytest.Pytester, name: str, shown: str) -> None:
    repository(pytester, f"register(kernels.attend, name='{name}')")
    ids = collected(pytester)
    assert implementations(ids) == [shown]
    assert run(pytester, ids[0]).with_outcome("passed") == {f"{shown}::SHAPE-001[fp64]"}


def test_an_imported_implementation_belongs_to_the_module_that_registered_it(pytester: pytest.Pytester) -> None:
    repository(pytester, "flash = register(kernels.attend)", name="test_first")
    pytester.makepyfile(test_second="from test_first import *\nfrom test_first import flash as mine\nimport test_first")
    assert {nodeid.split("::")[0] for nodeid in collected(pytester)} == {"test_first.py"}


def test_a_test_function_of_the_same_name_is_collected_too(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        """
        register(kernels.attend, name="test_flash", dtypes=("fp32",))

        def test_flash():
            pass
        """,
    )
    ids = collected(pytester, "test_attention.py::test_flash")
    assert ids.count("test_attention.py::test_flash") == 1
    assert "test_attention.py::test_flash::SHAPE-001[fp32]" in ids


def test_an_implementation_held_by_a_class_is_collected_once_and_does_not_recurse(pytester: pytest.Pytester) -> None:
    repository(
        pytester,
        """
        class TestKernels:
            test_flash = register(kernels.attend)
            __attention_conformance__ = [test_flash]

            def test_other(self):
                pass
        """,
    )
    ids = collected(pytester)
    assert implementations(ids) == ["implementation1", "TestKernels"]
    assert len(ids) == len(set(ids)) == 1 + len(plan(describe(len)))


def test_doctests_of_the_module_do_not_collect_it_again(pytester: pytest.Pytester) -> None:
    repository(pytester, "flash = register(kernels.attend)")
    ids = collected(pytester, "--doctest-modules")
    assert len(ids) == len(set(ids)) == len(plan(describe(len)))


def test_a_registration_that_fails_is_an_ordinary_collection_error(pytester: pytest.Pytester) -> None:
    repository(pytester, "flash = register(kernels.attend, mask_mean='hide')")
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*UnknownCapability: *did you mean 'mask_means'?*"])


def test_markers_are_known_to_strict_runs_and_listed(pytester: pytest.Pytester) -> None:
    repository(pytester, "flash = register(kernels.attend)")
    arguments = ["--strict-markers", "-W", "error::pytest.PytestUnknownMarkWarning", "-m", "attention_mask"]
    assert run(pytester, *arguments, "--collect-only").status == 0
    pytester.runpytest_inprocess("--markers").stdout.fnmatch_lines(["@pytest.mark.attention: *attention_FAMILY*"])


def test_items_say_where_they_come_from(pytester: pytest.Pytester) -> None:
    repository(pytester, "flash = register(kernels.attend)")
    [item] = pytester.inline_genitems("test_attention.py::flash::SHAPE-001[fp32]")[0]
    path, line, headline = item.reportinfo()
    assert (str(path), line, headline) == (str(pytester.path / "test_attention.py"), 0, "flash SHAPE-001[fp32]")
    assert {mark.name for mark in item.iter_markers()} == {"attention", "attention_shape", "attention_fp32"}
