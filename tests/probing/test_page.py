"""docs/probe.md is what was measured last."""

from __future__ import annotations

from tests.probing.comparing import MISS, OFFERS, QUESTIONS
from tests.probing.page import PAGE, page, results


def test_the_page_belongs_to_what_was_measured() -> None:
    assert PAGE.read_text() == page(results()), "run python -m tests.probing.page"


def test_what_was_measured_is_whole() -> None:
    for result in results().values():
        assert set(result["counts"]) == {*QUESTIONS, *OFFERS}
        misses = sum(each["result"] == MISS for each in result["differing"])
        assert misses == sum(counts[2] for counts in result["counts"].values())


def test_no_answer_on_a_sound_program_is_missed() -> None:
    assert all(counts[2] == 0 for counts in results()["sound programs of the tests"]["counts"].values())
