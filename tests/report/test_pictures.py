"""Pictures: what a cell looks like, what the words beside it say, where a ratio stands on the axis."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from attention_conformance.report.chart import LEFT, RIGHT, WIDTH, chart
from attention_conformance.report.drawing import Map, maps
from attention_conformance.report.signs import pieces, short_ratio, shortened, visible
from attention_conformance.report.stories import depth, stories, take_apart
from tests.report.made import ASKED, ERRORS, REACHED, STORY, combined, entry, failure, record


def looks(drawn: Map) -> list[list[str]]:
    return [[cell.look for cell in row.cells] for row in drawn.rows]


def test_errors_are_shaded_by_their_logarithm_from_the_least_to_the_worst_beyond_the_bound() -> None:
    picture = replace(ERRORS, size=(1, 6), rows=("0 1 10 1e6 1e11 nan",), worst=(0, 4))
    (drawn,) = maps([picture])
    assert looks(drawn) == [["e0", "e0", "e1", "e3", "e5 worst", "e6"]]
    assert drawn.words.startswith("Worst at L 0, E 4: 1e11 times what rounding allows.")
    assert drawn.title == "Error ÷ bound, output at (0, 1)"


def test_a_lone_error_is_shaded_as_the_worst() -> None:
    (drawn,) = maps([replace(ERRORS, size=(1, 2), rows=("0.5 1.2",), worst=(0, 1))])
    assert looks(drawn) == [["e0", "e5 worst"]]


def test_part_of_a_matrix_keeps_its_indices() -> None:
    (drawn,) = maps([replace(ERRORS, size=(64, 40), first=(24, 8), rows=("0.5 2 37", "0 1 7"), worst=(24, 10))])
    assert [row.index for row in drawn.rows] == [24, 25]
    assert drawn.columns == (8, 9, 10)
    assert looks(drawn)[0][2] == "e5 worst"
    assert drawn.words.endswith("Shown: L 24 to 25 of 64, E 8 to 10 of 40.")


def test_cells_in_which_masks_differ_are_marked_in_both_and_named() -> None:
    asked, reached = maps([ASKED, REACHED])
    assert looks(asked) == [["on", "off differs", "on"], ["on differs", "on", "off"]]
    assert looks(reached) == [["on", "on differs", "on"], ["off differs", "on", "unknown"]]
    assert "1 hidden key seen all the same (L 0, S 1)" in reached.words
    assert "1 key not seen that the mask lets through (L 1, S 0)" in reached.words
    assert "cannot be told apart" in reached.words


def test_masks_that_agree_are_drawn_once() -> None:
    (drawn,) = maps([ASKED, replace(ASKED, kind="reached")])
    assert "exactly the keys that were asked for" in drawn.words


def test_a_chart_puts_a_ratio_of_one_at_its_line_and_what_is_not_finite_at_the_end() -> None:
    made = chart([record(ratio=1.0), record("MASK-004", "bf16", "failed", ratio=math.inf)])
    assert made is not None
    assert f"M{made.one:g} " in made.lines[0].strokes[0].path
    assert f"M{WIDTH - RIGHT} " in made.lines[1].strokes[0].path
    assert LEFT < made.one < WIDTH - RIGHT
    assert made.ticks[-1].text == "∞"
    assert [(line.dtype, line.measured, line.above, line.worst) for line in made.lines] == [
        ("fp32", 1, 0, "1"),
        ("bf16", 1, 1, "∞"),
    ]
    assert made.named.text == "MASK-004[bf16] ∞"


def test_a_chart_leaves_out_what_is_declared_to_depart() -> None:
    assert chart([record(outcome="deviation", ratio=50.0), record(ratio=None)]) is None


def test_ratios_of_any_size_stand_on_the_chart() -> None:
    made = chart([record(f"A-{place:03}", ratio=ratio) for place, ratio in enumerate((0.0, 1e-300, 1e300, math.nan))])
    assert made is not None
    places = [float(part.split()[0]) for strokes in made.lines[0].strokes for part in strokes.path.split("M")[1:]]
    assert all(LEFT <= place <= WIDTH - RIGHT for place in places)
    assert made.lines[0].worst == "NaN"
    assert made.lines[0].above == 2


def test_a_message_is_taken_apart() -> None:
    message = take_apart(STORY)
    assert message.sentence == "A true element of the mask means what is declared."
    assert [(part.label, part.text[:12]) for part in message.parts] == [
        ("case", "plain: B=2 H"),
        ("seen", "output is 1."),
        ("declare", "mask_means='"),
        ("likely", "mask_inverte"),
    ]
    assert message.reproduction.splitlines()[-1] == "    print(x)"


def test_lines_that_belong_to_a_label_stay_with_it_and_any_text_will_do() -> None:
    message = take_apart("Sentence.\n  seen      one\n    two\n\n  as data   Case()")
    assert [part.text for part in message.parts] == ["one\n    two\n", "Case()"]
    assert take_apart("").sentence == ""
    assert take_apart("a\nb").sentence == "a\nb"


def test_stories_that_have_no_room_say_so() -> None:
    audited = combined(entry("k:f", failure(), failure("MASK-002"), record("A-001", None, "error", message="No.")))
    room = len(STORY) + 20 * 18
    assert depth(audited, room) == 1
    assert depth(audited, 0) == 0
    told = stories(audited.entries[0].audited.records, 1)
    assert [story.full for story in told] == [True, False, True]
    assert told[1].message.reproduction == ""
    assert not told[1].maps


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (None, ""), (0.0, "0"), (0.25, "0.25"), (0.0001234, "1.2e-4"), (9.96, "10"), (37.4, "37"), (1234.0, "1234"),
        (1.5e9, "1.5e9"), (1e300, "1e300"), (math.inf, "∞"), (math.nan, "NaN"),
    ],
)  # fmt: skip
def test_ratios_are_short(ratio: float | None, text: str) -> None:
    assert short_ratio(ratio) == text


def test_what_has_no_shape_is_made_visible_and_names_break_at_separators() -> None:
    assert visible("a\u202eb\x1b\ud800\n\tä") == "a\\u202eb\\x1b\\ud800\n\tä"
    assert pieces("torch.nn:some_f[x]") == ["torch.", "nn:", "some_", "f[", "x]"]
    assert shortened("abc", 3) == "abc"
    assert shortened("abcdef", 3) == "abc … (3 more characters in the result file)"
