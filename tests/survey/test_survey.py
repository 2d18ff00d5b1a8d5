"""The survey's entries are well-formed, its page is made from what was kept, and a wrong verdict is told."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from attention_conformance.environment import header
from attention_conformance.loading import parse_target
from attention_conformance.records import Outcome, Record, Verdict, counts
from attention_conformance.references import REFERENCES
from attention_conformance.results import (  # fmt: skip
    Audited,
    Described,
    Judged,
    described_line,
    dump,
    footer_line,
    header_line,
    judged_line,
    record_line,
)
from attention_conformance.rulebook import catalogue
from tests.survey import page as survey_page
from tests.survey.entries import all_entries
from tests.survey.entry import Entry, InvalidEntry, check
from tests.survey.run import ROOT, compared, selected, tasks
from tests.survey.summary import SUMMARY, load, merge

SOUND = Entry("sound.kernels:attend", "sound-kernels", "conforms", why="Plain.")
FAULTY = Entry(
    "faulty.layers:Layer", "faulty", "departs", why="The mask is read the wrong way round.", rules=("MASK-001",)
)

DIAGNOSIS = "mask_inverted: The mask is read *the other way*."


def _record(target: str, rule: str, outcome: Outcome, message: str = "", ratio: float | None = None) -> Record:
    return Record(target, rule, "fp32", None, outcome, message, ratio, (), 0.1)


def _audited(entry: Entry, records: list[Record], verdict: Verdict, **capabilities: object) -> Audited:
    own = {"layout": "...LD", "mask": ["bool"], "empty_row": "uniform", **capabilities}
    described = Described(entry.target, entry.target, entry.package, "1.2.3", None, "attention", own, ("mask",))
    return Audited(described, tuple(records), Judged(entry.target, verdict, counts(records)))


def _sound() -> Audited:
    records = [_record(SOUND.target, "MASK-001", Outcome.PASSED, ratio=0.25), _record(SOUND.target, "CAUSAL-001", Outcome.NOT_APPLICABLE)]  # fmt: skip
    return _audited(SOUND, records, Verdict.CONFORMS)


def _faulty() -> Audited:
    story = (
        f"{catalogue()['MASK-001'].sentence}\n  seen      0.5 is 1 | expected 2\n  to reproduce, paste:\n"
        f"    import torch\n    print('{ROOT}/tests/x.py')"
    )
    known = f"Known since long. (https://example.org/1)\n{catalogue()['NUMERIC-001'].sentence}\n  seen      much"
    records = [
        replace(_record(FAULTY.target, "MASK-001", Outcome.FAILED, story), diagnosis=(DIAGNOSIS,)),
        _record(FAULTY.target, "MASK-003", Outcome.NOT_RUN, "MASK-001 failed"),
        _record(FAULTY.target, "NUMERIC-001", Outcome.DEVIATION, known),
    ]
    return _audited(FAULTY, records, Verdict.DEPARTS, empty_row="zeros")


def _file(path: Path, *audited: Audited) -> Path:
    lines = [header_line(header("default", "survey"))]
    for each in audited:
        lines += [described_line(each.described), *map(record_line, each.records), judged_line(each.judged)]
    lines.append(footer_line(len(audited), sum(len(each.records) for each in audited)))
    path.write_text("".join(map(dump, lines)), encoding="ascii")
    return path


def _page(tmp_path: Path, *audited: Audited) -> str:
    summaries = merge([], [_file(tmp_path / "results.jsonl", *audited)], [SOUND.target, FAULTY.target])
    return survey_page.page(summaries, [SOUND, FAULTY])


# Entries


def test_the_entries_are_well_formed() -> None:
    entries = all_entries()
    assert entries
    check(entries)


@pytest.mark.parametrize("entry", all_entries(), ids=lambda entry: entry.target)
def test_an_entry_names_one_implementation_and_rules_that_exist(entry: Entry) -> None:
    target = parse_target(entry.target)
    assert target.name is not None
    assert set(entry.rules) <= set(catalogue())
    assert entry.keywords().keys() == dict(entry.settings).keys()
    assert not target.is_file or (ROOT / target.place).is_file()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"verdict": "fine"}, "none of conforms"),
        ({"why": " "}, "does not say from what"),
        ({"rules": ()}, "names no rule"),
        ({"verdict": "conforms"}, "names some that fail"),
    ],
)
def test_an_entry_that_cannot_be_meant_is_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(InvalidEntry, match=words):
        check((replace(FAULTY, **change),))


def test_a_target_that_occurs_twice_is_refused() -> None:
    with pytest.raises(InvalidEntry, match="twice"):
        check((SOUND, replace(SOUND, verdict="conforms-declared")))


def test_settings_are_read_as_on_the_command_line() -> None:
    entry = replace(SOUND, settings={"mask": "bool,additive", "scale": 1.0, "empty_row": "zeros"})
    assert entry.keywords() == {"mask": ("bool", "additive"), "scale": 1.0, "empty_row": "zeros"}


def test_a_package_that_is_not_installed_has_no_version() -> None:
    assert SOUND.version is None
    assert replace(SOUND, package="torch").version is not None


# Runs


def test_a_word_selects_a_package_or_else_a_part_of_targets() -> None:
    assert selected([SOUND, FAULTY], "faulty") == [FAULTY]
    assert selected([SOUND, FAULTY], "kernels") == [SOUND]
    assert selected([SOUND, FAULTY], "") == [SOUND, FAULTY]


def test_implementations_of_a_package_share_processes_a_few_at_a_time() -> None:
    many = [replace(SOUND, target=f"sound.kernels:attend{number}") for number in range(8)]
    pieces = [[each.text for each in task.targets] for task in tasks([*many, FAULTY])]
    assert [len(piece) for piece in pieces] == [6, 2, 1]
    assert {len({target.split(".")[0] for target in piece}) for piece in pieces} == {1}


def test_the_confirmed_verdict_is_no_difference() -> None:
    assert compared(SOUND, _sound()).differences == ()
    assert compared(FAULTY, _faulty()).differences == ()


def test_another_verdict_and_other_rules_are_differences() -> None:
    told = " ".join(compared(replace(FAULTY, verdict="conforms", rules=("MASK-002",)), _faulty()).differences)
    assert "the verdict is departs, and conforms was confirmed" in told
    assert "MASK-001 failed and the entry does not name it" in told
    assert "MASK-002 did not fail" in told


def test_a_broken_implementation_may_leave_its_rules_out() -> None:
    broken = replace(_faulty(), judged=replace(_faulty().judged, verdict=Verdict.BROKEN))
    assert compared(replace(FAULTY, verdict="broken", rules=()), broken).differences == ()


def test_a_target_that_cannot_be_loaded_is_a_difference() -> None:
    lost = Audited(Described(SOUND.target, SOUND.target), (), Judged(SOUND.target, Verdict.BROKEN, counts(()), ("no",)))
    assert compared(SOUND, lost).differences == ("it could not be loaded: no",)


# The page


def test_the_page_shows_verdicts_signs_and_answers(tmp_path: Path) -> None:
    text = _page(tmp_path, _sound(), _faulty())
    lines = text.splitlines()
    rules = [line for line in lines if line.startswith(("| `kernels:attend` | conf", "| `layers:Layer` | **dep"))]
    assert rules == ["| `layers:Layer` | **departs** | ✗ 1/2, ? 1/2 | ± 1/1 |  |", "| `kernels:attend` | conforms | ✓ 1 | – | 0.25 |"]  # fmt: skip
    assert any(
        line.startswith("| `layers:Layer` | attention | ...LD | **bool**† |") and "**zeros**" in line for line in lines
    )
    assert "2 implementations from 2 packages and 1 framework (torch)." in text


def test_a_departure_is_told_with_its_reason_its_rules_and_a_script(tmp_path: Path) -> None:
    text = _page(tmp_path, _sound(), _faulty())
    section = text.split("## Departures")[1].split("## Declared departures")[0]
    assert FAULTY.why in section
    assert f"| MASK-001 | {catalogue()['MASK-001'].sentence} | fp32 | 0.5 is 1 \\| expected 2 |" in section
    assert "- mask\\_inverted: The mask is read \\*the other way\\*." in section
    assert "```python\nimport torch\nprint(" in section
    assert str(ROOT) not in section
    assert "| NUMERIC-001 | Known since long. (https://example.org/1) |" in text


def test_what_was_not_judged_and_what_is_not_as_confirmed_is_told(tmp_path: Path) -> None:
    assert "No result is kept of 1 implementation: faulty (1)." in _page(tmp_path, _sound())
    other = replace(_faulty(), judged=replace(_faulty().judged, verdict=Verdict.BROKEN))
    assert "`faulty.layers:Layer` broken, not departs" in _page(tmp_path, _sound(), other)


def test_later_results_replace_earlier_ones_and_unknown_targets_are_dropped(tmp_path: Path) -> None:
    kept = merge([], [_file(tmp_path / "a.jsonl", _sound(), _faulty())], [SOUND.target, FAULTY.target])
    newer = replace(_sound(), described=replace(_sound().described, distribution_version="2.0"))
    merged = merge(kept, [_file(tmp_path / "b.jsonl", newer)], [SOUND.target])
    assert [(each.target, each.version) for each in merged] == [(SOUND.target, "2.0")]


def test_the_page_belongs_to_the_kept_summary() -> None:
    text = survey_page.PAGE.read_text(encoding="utf-8")
    assert text == survey_page.page(load(), all_entries()), "run python -m tests.survey.page"
    assert str(ROOT) not in text


def test_the_kept_summary_holds_what_was_confirmed() -> None:
    confirmed = {entry.target: str(entry.verdict) for entry in all_entries()}
    kept = [json.loads(line) for line in SUMMARY.read_text(encoding="utf-8").splitlines()]
    assert kept
    assert {each["target"]: each["verdict"] for each in kept if each["verdict"] != confirmed[each["target"]]} == {}
    assert {each["reference"] for each in kept} <= {*REFERENCES, None}
