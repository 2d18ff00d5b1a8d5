"""The command `report`: result files of many jobs put together, and two of them compared."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from attention_conformance import cli
from attention_conformance.records import Record
from attention_conformance.report import badge, markdown
from attention_conformance.report.combining import combine
from attention_conformance.results import Audited, Header, ResultFile, Writer, lines_of, read, unloadable
from tests.made import HEADER, audited, record

ATTENTION = "attention_conformance.reference.attention:attention"
SMALL = ("--select", "SHAPE-001,SHAPE-002,fp32")

Printed = pytest.CaptureFixture[str]
Save = Callable[..., str]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Return what writes a result file and returns its path."""

    def write(name: str, *results: Audited, header: Header = HEADER, **changed: object) -> str:
        path = tmp_path / name
        with path.open("w", encoding="ascii") as file:
            writer = Writer(file, replace(header, **changed))  # type: ignore[arg-type]
            for each in results:
                for line in lines_of(each):
                    writer.write(line)
            writer.close()
        return str(path)

    return write


def sound(*records: Record) -> Audited:
    return audited(*(records or (record(), record("MASK-001"))), verdict="conforms")


def departing() -> Audited:
    return audited(record(outcome="failed", message="The rule.\n  seen      it is 1"), record("MASK-001"))


# Put together


def test_files_of_several_environments_stand_in_one_table(save: Save, capsys: Printed) -> None:
    files = [save("a", sound(), environment="torch2.4"), save("b", departing(), environment="torch2.13", label="new")]
    assert cli.run(["report", *files]) == cli.DEPARTS
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[:3] == ["implementation", "environment", "verdict"]
    assert lines[2].split()[:4] == ["kernels:attend", "new", "torch2.13", "departs"]
    assert lines[3].split()[:3] == ["kernels:attend", "torch2.4", "conforms"]
    assert lines[-1] == "1 of 2 implementations conform, 4 records"


def test_all_that_conforms_ends_with_0(save: Save) -> None:
    assert cli.run(["report", save("a", sound()), save("b", sound(), label="other")]) == cli.CONFORMS


@pytest.mark.parametrize(("name", "value"), [("catalogue", "d"), ("tier", "thorough"), ("seed", 1)])
def test_files_that_answer_other_questions_are_refused_unless_mixed(
    save: Save, capsys: Printed, name: str, value: object
) -> None:
    files = [save("a", sound()), save("b", sound(), label="b", **{name: value})]
    assert cli.run(["report", *files]) == cli.USAGE
    error = capsys.readouterr().err
    assert f"has {name} {getattr(HEADER, name)!r}" in error
    assert "--mixed" in error
    assert cli.run(["report", "--mixed", *files]) == cli.CONFORMS


def test_a_record_in_two_files_is_refused(save: Save, capsys: Printed) -> None:
    assert cli.run(["report", save("a", sound()), save("b", sound())]) == cli.USAGE
    assert "kernels:attend in e, which another of the files holds as well" in capsys.readouterr().err


def test_two_parts_of_one_implementation_are_joined(save: Save) -> None:
    files = [save("a", sound()), save("b", audited(record("MASK-009", outcome="failed")))]
    (entry,) = combine([read(path) for path in files]).entries
    assert [str(each.key) for each in entry.audited.records] == ["MASK-003[fp32]", "MASK-001[fp32]", "MASK-009[fp32]"]
    assert entry.audited.judged.verdict == "departs"
    assert entry.audited.judged.counts["passed"] == 2


def test_a_torn_file_is_named(save: Save, capsys: Printed) -> None:
    path = Path(save("torn", sound()))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    assert cli.run(["report", str(path)]) == cli.USAGE
    assert f"{path} has no footer" in capsys.readouterr().err


def test_nothing_and_too_little_end_with_3_and_a_sentence(save: Save, capsys: Printed) -> None:
    assert cli.run(["report", save("none")]) == cli.NOTHING
    assert "nothing ran: there is no implementation to judge." in capsys.readouterr().err
    assert cli.run(["report", save("some", sound()), "--min-records", "3"]) == cli.NOTHING
    assert "2 records ran, and --min-records asks for 3" in capsys.readouterr().err
    assert cli.run(["report", save("some", sound()), "--min-records", "2"]) == cli.CONFORMS


def test_a_target_that_could_not_be_loaded_is_not_overlooked(save: Save, capsys: Printed) -> None:
    described, judged = unloadable("nowhere:f", "there is no module 'nowhere'")
    assert cli.run(["report", save("a", sound(), Audited(described, (), judged))]) == cli.USAGE
    assert "there is no module 'nowhere'" in capsys.readouterr().err


def test_a_report_needs_no_torch(save: Save, tmp_path: Path) -> None:
    outputs = [part for kind in ("html", "markdown", "badge") for part in (f"--{kind}", str(tmp_path / kind))]
    code = (
        "import atexit, sys; atexit.register(lambda: print('torch' in sys.modules))\n"
        "from attention_conformance.cli import main; main()"
    )
    arguments = ["report", save("a", departing()), *outputs]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (cli.DEPARTS, "False"), done.stderr
    assert all((tmp_path / kind).stat().st_size for kind in ("html", "markdown", "badge"))


# Shards


@pytest.fixture
def kernels(tmp_path: Path) -> str:
    """Three targets: a module that registers three, one kernel that departs, one target that cannot be loaded."""
    (tmp_path / "registering.py").write_text(
        "from attention_conformance import register\n"
        "from attention_conformance.reference.attention import attention\n"
        "one, two, three = (register(attention, name=name) for name in ('one', 'two', 'three'))\n"
        "def doubled(query, key, value, mask=None):\n"
        "    return 2 * attention(query, key, value, mask)[0]\n"
    )
    return str(tmp_path / "registering.py")


def test_shards_together_are_the_whole_run(kernels: str, tmp_path: Path, capsys: Printed) -> None:
    targets = [kernels, f"{kernels}:doubled", "nowhere_at_all:f"]

    def audit(name: str, *arguments: str) -> str:
        cli.run(
            ["audit", *targets, "--select", "SHAPE-001,NUMERIC-001,fp32", "--json", str(tmp_path / name), *arguments]
        )
        return str(tmp_path / name)

    whole = audit("whole")
    parts = [audit(f"part{index}", "--shard", f"{index}/3") for index in (1, 2, 3)]
    assert [len(read(part).audited) for part in parts] == [1, 2, 2]
    joined = str(tmp_path / "joined")
    capsys.readouterr()
    assert cli.run(["report", *reversed(parts), "--json", joined]) == cli.USAGE
    by_parts = capsys.readouterr()
    assert cli.run(["report", whole]) == cli.USAGE
    assert capsys.readouterr() == by_parts
    assert same(read(joined)) == same(combine([read(whole)]).as_one_file())


def same(file: ResultFile) -> ResultFile:
    """Return a file without what differs from one run to the next."""
    results = tuple(
        replace(each, records=tuple(replace(r, seconds=0.0) for r in each.records)) for each in file.audited
    )
    return ResultFile(replace(file.header, started=""), results)


def test_a_missing_shard_is_refused_unless_mixed(save: Save, capsys: Printed) -> None:
    files = [save("a", sound(), shard="1/3"), save("c", shard="3/3")]
    assert cli.run(["report", *files]) == cli.USAGE
    assert "of a run in 3 parts, 2/3 is missing" in capsys.readouterr().err
    assert cli.run(["report", "--mixed", *files]) == cli.CONFORMS


def test_a_shard_without_an_implementation_ends_with_3(capsys: Printed) -> None:
    assert cli.run(["audit", ATTENTION, *SMALL, "--shard", "2/2"]) == cli.NOTHING
    assert "nothing ran" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0"])
def test_what_is_no_part_is_refused(text: str, capsys: Printed) -> None:
    assert cli.run(["audit", ATTENTION, "--shard", text]) == cli.USAGE
    assert "is no part. Write I/N" in capsys.readouterr().err


# Compared


@pytest.mark.parametrize("after", ["failed", "error", "not-run", "not-applicable", "deviation"])
def test_what_passed_and_does_not_now_is_a_regression(save: Save, capsys: Printed, after: str) -> None:
    changed = sound(record(outcome=after, message="The rule.\n  seen      it is 1"), record("MASK-001"))
    new = save("new", changed, environment="other")
    assert cli.run(["report", "--compare", save("old", sound()), new]) == cli.DEPARTS
    printed = capsys.readouterr()
    assert f"regression  kernels:attend MASK-003[fp32]: passed -> {after}: it is 1\n" in printed.out
    assert "2 records compared: regression 1, new 0, mended 0" in printed.out
    assert "1 of 2 records passed before and do not now" in printed.err


def test_a_record_that_is_gone_is_a_regression(save: Save, capsys: Printed) -> None:
    assert cli.run(["report", "--compare", save("old", sound()), save("new", sound(record()))]) == cli.DEPARTS
    assert "regression  kernels:attend MASK-001[fp32]: passed -> missing\n" in capsys.readouterr().out


def test_what_failed_before_is_no_regression(save: Save, capsys: Printed) -> None:
    old = save("old", audited(record(outcome="failed"), record("MASK-001"), record("MASK-005", outcome="deviation")))
    new = sound(record(), record("MASK-001"), record("MASK-005", outcome="failed"), record("MASK-006", outcome="error"))
    assert cli.run(["report", "--compare", old, save("new", new)]) == cli.CONFORMS
    out = capsys.readouterr().out
    assert "mended      kernels:attend MASK-003[fp32]: failed -> passed\n" in out
    assert "new         kernels:attend MASK-006[fp32]: new -> error" in out
    assert "3 records compared: regression 0, new 1, mended 1" in out


def test_other_questions_are_not_compared_unless_mixed(save: Save) -> None:
    files = [save("old", sound()), save("new", sound(), catalogue="d")]
    assert cli.run(["report", "--compare", *files]) == cli.USAGE
    assert cli.run(["report", "--compare", "--mixed", *files]) == cli.CONFORMS


def test_compare_takes_two_files(save: Save, capsys: Printed) -> None:
    assert cli.run(["report", "--compare", save("a", sound())]) == cli.USAGE
    assert "--compare takes two FILEs" in capsys.readouterr().err


# Pages


HOSTILE = "a|b `c` <script>alert(1)</script>\n# no heading\n```\n</details>"


def test_markdown_has_the_matrix_and_the_story_and_renders_nothing_foreign(save: Save, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    failing = audited(record(outcome="failed", message=f"The rule.\n{HOSTILE}", ratio=2.5, diagnosis=(HOSTILE,)))
    assert cli.run(["report", save("a", failing), "--markdown", str(page)]) == cli.DEPARTS
    text = page.read_text()
    assert "| `kernels:attend` | departs | ✗ 1 |" in text
    assert "\n````text\nThe rule.\n" in text
    outside = "".join(part for number, part in enumerate(text.split("````")) if number % 2 == 0)
    assert not any(line.startswith("# no") for line in outside.splitlines())


@pytest.mark.parametrize(("text", "span"), [("a`b", "``a`b``"), ("`", "`` ` ``"), ("a|b\nc", r"`a\|b c`"), (" ", "")])
def test_a_code_span_ends_where_it_is_meant_to(text: str, span: str) -> None:
    assert markdown.code(text) == span


def test_a_page_beyond_what_services_take_is_cut_between_implementations(save: Save) -> None:
    results = [
        replace(each, described=replace(each.described, name=f"k:{place}"), judged=replace(each.judged, implementation=f"k:{place}"))
        for place, each in enumerate([audited(record(outcome="failed", message="x" * 1000))] * 1200)
    ]  # fmt: skip
    page = markdown.page(combine([ResultFile(HEADER, tuple(results))]))
    assert len(page) < markdown.LONGEST + 1000
    assert page.count("```") % 2 == 0
    assert page.endswith("the HTML report (`--html FILE`) has all of it.\n")


def test_changes_are_a_page_as_well(save: Save, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    files = [save("old", sound()), save("new", departing())]
    assert cli.run(["report", "--compare", *files, "--markdown", str(page)]) == cli.DEPARTS
    assert "regressions in 1 of 2 records" in page.read_text()
    assert "| `kernels:attend` | `MASK-003[fp32]` | passed | failed | `it is 1` |" in page.read_text()


@pytest.mark.parametrize(
    ("outcomes", "message", "colour"),
    [
        (["passed"] * 4, "100 % of 4", "brightgreen"),
        (["passed"] * 999 + ["failed"], "99 % of 1000", "yellowgreen"),
        (["passed"] * 3 + ["not-applicable"], "100 % of 3, 1 not applicable", "brightgreen"),
        (["passed"] * 9 + ["deviation"], "90 % of 10, 1 declared deviations", "yellow"),
        (["not-run"] * 2, "0 % of 2", "red"),
        (["not-applicable"], "nothing ran, 1 not applicable", "lightgrey"),
    ],
)
def test_the_badge_is_rounded_down_and_counts_what_applies(outcomes: list[str], message: str, colour: str) -> None:
    records = [record(f"MASK-{place:03}", outcome=outcome) for place, outcome in enumerate(outcomes)]
    fields = json.loads(badge.page(combine([ResultFile(HEADER, (audited(*records),))])))
    assert (fields["message"], fields["color"], fields["schemaVersion"]) == (message, colour, 1)
