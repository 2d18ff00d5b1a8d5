"""The page without a browser: what it tells, that it nests, loads nothing and takes nothing for markup."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import pytest

from attention_conformance.report import html
from tests.report.made import HEADER, STORY, Parsed, combined, entry, failure, hostile, parse, record, whole


@pytest.fixture(scope="module")
def text() -> str:
    return html.page(whole())


@pytest.fixture(scope="module")
def parsed(text: str) -> Parsed:
    return parse(text)


# What it tells


def test_the_result_comes_first(parsed: Parsed) -> None:
    assert "1 of 3 implementations conforms; 1 departs, 1 could not be loaded." in parsed.texts("p", class_="lead")
    assert any("11 records: 5 passed, 2 failed, 1 error" in words for words in parsed.texts("p"))


def test_the_matrix_has_a_row_for_each_and_a_column_for_each_family(parsed: Parsed) -> None:
    heads = [head.words for head in parsed.all("th", scope="col") if "data-family" in head.attributes]
    assert heads == ["ERRORS", "GRADIENT", "MASK", "OPTIONS", "PURITY", "SNAPSHOT"]
    rows = [row for row in parsed.all("tr") if "data-entry" in row.attributes]
    assert [row.words.split()[0] for row in rows] == ["kernels.fast:attend", "nowhere:f", "torch.nn:good"]
    assert "there is no module 'nowhere'" in rows[1].words
    assert rows[1].words.count("nowhere:f") == 1


def test_cells_say_in_signs_and_in_words_what_is_not_fine(parsed: Parsed) -> None:
    titles = {cell.attributes["title"]: cell for cell in parsed.all("td") if "title" in cell.attributes}
    cell = titles["MASK: 3 passed, 2 failed"]
    assert cell.attributes["class"] == "bad"
    assert cell.words == "✗ 2 3 passed, 2 failed"
    assert titles["OPTIONS: 1 not applicable"].words == "– 1 not applicable"
    assert titles["ERRORS: 1 deviation"].attributes["class"] == "declared"


def test_every_link_leads_to_a_place_on_the_page(parsed: Parsed) -> None:
    links = [link.attributes["href"] for link in parsed.all("a")]
    ids = [each.attributes["id"] for each in parsed.elements if "id" in each.attributes]
    assert len(ids) == len(set(ids))
    assert {"#i0", "#i0-MASK-001", "#i0-GRADIENT-001", "#i0-not-run", "#i0-deviation"} <= set(links)
    assert {link.removeprefix("#") for link in links} <= set(ids)


def test_a_rule_is_told_once_with_what_became_of_each_dtype(text: str, parsed: Parsed) -> None:
    stories = parsed.all("details", class_="story")
    assert [story.attributes["id"] for story in stories] == ["i0-MASK-001", "i0-GRADIENT-001"]
    assert "✗ fp32 failed 37 ✗ bf16 failed 1200 ✓ fp64 passed 0.5" in stories[0].words
    assert text.count("the error 1 is 37 times the bound") == 1


def test_a_story_keeps_its_reproduction_to_the_letter(parsed: Parsed) -> None:
    (pre,) = parsed.all("pre")
    assert pre.text == "import torch\nfor x in (1, 2):\n    print(x)"
    assert parsed.texts("dt")[6:10] == ["case", "seen", "declare", "likely"]


def test_conventions_tell_where_they_come_from_and_what_the_reference_answers(parsed: Parsed) -> None:
    (remarkable,) = parsed.all("dl", class_="remarkable")
    found = "mask_means hide found by experiment: a true element hides in 10 shapes; reference: attend"
    assert found in remarkable.words
    assert "causal top-left read off its arguments; reference: none" in remarkable.words
    assert "layout" not in remarkable.words
    assert "layout ...LD" in " ".join(parsed.texts("dl", class_="conventions"))


@pytest.mark.parametrize(
    "words",
    [
        "Stale deviation. nothing departs from MASK-009 any more",
        "declare x 2 of 3 failures",
        "from fast-kernels 1.2",
        "1 known upstream ERRORS-003 it was folded",
        "1 MASK-001 failed: mask_means is not as declared PURITY-001",
        "1 options=() OPTIONS-001",
        "MASK-001 0.5 in fp64",
        "MASK-003 0.25",
    ],
)
def test_a_section_holds(words: str, parsed: Parsed) -> None:
    assert words in parsed.all("article", id="i0")[0].words


def test_a_section_of_a_good_one_is_short(parsed: Parsed) -> None:
    (good,) = parsed.all("article", id="i2")
    assert "Rules that do not hold" not in good.words
    assert "1 3 of 4 vectors SNAPSHOT-001" in good.words


def test_jobs_are_told_apart_by_label_and_by_what_their_environments_do_not_share() -> None:
    other = replace(HEADER, label="nightly", environment="python3.11-torch2.14-cpu", torch="2.14")
    page = parse(html.page(combined(entry("k:f", record()), entry("k:f", record(), header=other))))
    assert page.texts("bdi", class_="where")[:2] == ["torch2.13", "nightly torch2.14"]
    assert "0 of 2 results conform; 2 depart." in page.texts("p", class_="lead")
    assert any(words.startswith("1 implementation in 2 places; 2 records") for words in page.texts("p"))


def test_runs_in_one_place_share_a_line() -> None:
    later = replace(HEADER, started="2026-01-02T00:00:00+00:00")
    page = html.page(combined(entry("k:f", record()), entry("k:g", record(), header=later)))
    assert "2026-01-01 00:00:00 UTC to 2026-01-02 00:00:00 UTC" in page


def test_nothing_makes_a_page_as_well() -> None:
    assert "Nothing was judged." in parse(html.page(combined())).texts("p", class_="lead")


# How it is built


def test_headings_come_in_order_and_landmarks_are_there(text: str, parsed: Parsed) -> None:
    levels = [int(each.tag[1]) for each in parsed.elements if re.fullmatch("h[1-6]", each.tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert [len(parsed.all(tag)) for tag in ("main", "title", "footer")] == [1, 1, 1]
    assert parsed.all("a", class_="skip")[0].attributes["href"] == "#matrix"


def test_the_policy_allows_this_style_and_this_script_only(text: str, parsed: Parsed) -> None:
    (policy,) = (meta.attributes["content"] for meta in parsed.all("meta") if "http-equiv" in meta.attributes)
    assert "default-src 'none'" in policy
    for tag, name in (("style", "style-src"), ("script", "script-src")):
        (inline,) = parsed.all(tag)
        digest = base64.b64encode(hashlib.sha256(inline.text.encode()).digest()).decode()
        assert f"{name} 'sha256-{digest}'" in policy
        assert f"<{tag}>{inline.text}</{tag}>" in text
    assert "unsafe" not in policy


def test_nothing_leads_elsewhere_and_nothing_is_inline_that_the_policy_forbids(text: str, parsed: Parsed) -> None:
    for each in parsed.elements:
        assert not {"src", "srcset", "style", "action"} & each.attributes.keys()
        assert not [name for name in each.attributes if name.startswith("on")]
    assert not re.search(r"https?://|url\(|@import", text)


def test_a_page_needs_no_torch() -> None:
    code = "import sys, attention_conformance.report.html; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Foreign text


@pytest.mark.parametrize("name", hostile(), ids=range(len(tuple(hostile()))))
def test_foreign_text_stays_text(name: str) -> None:
    bad = failure(message=STORY.replace("plain", name).replace("import torch", name), diagnosis=(name,))
    records = (bad, record("A-001", None, "not-run", message=name), record("A-002", None, "deviation", message=name))
    about = {"distribution": name, "capabilities": {"layout": name}, "inferred": {"layout": name}}
    page = html.page(combined(entry(name, *records, stale=(name,), **about)))
    parsed = parse(page)
    assert len(parsed.all("script")) == len(parsed.all("style")) == 1
    assert not parsed.all("img")
    assert not [each for each in parsed.elements if "onclick" in each.attributes]
    assert not re.search("[\x00-\x08\x0b-\x1f\u202a-\u202e\ud800-\udfff]", page)
    assert "49" not in parsed.texts("h2")[1]


def test_a_name_can_be_read_whole() -> None:
    name = "<script>alert(1)</script>"
    headings = parse(html.page(combined(entry(name, record())))).all("h2")
    assert headings[1].words == name


# Size


def test_a_hundred_implementations_make_a_few_megabytes() -> None:
    rules = [f"{family}-{number:03}" for family in ("MASK", "GRADIENT", "SHAPE") for number in range(40)]
    good = [record(rule, dtype, ratio=0.123) for rule in rules for dtype in ("fp64", "fp32", "bf16")]
    big = STORY + "\n    # " + "x" * 5_000
    bad = [failure(rule, dtype, message=big) for rule in rules[:40] for dtype in ("fp64", "fp32", "bf16")]
    entries = [
        entry(f"k:f{place}", *(bad if place % 2 else []), *good[len(bad) * (place % 2) :]) for place in range(100)
    ]
    page = html.page(combined(*entries))
    assert len(page) < 5_000_000
    assert page.count("To keep this page small") > 1_000
    assert page.count("To reproduce, paste") >= 50


def test_a_small_page_leaves_nothing_out(text: str) -> None:
    assert "To keep this page small" not in text
