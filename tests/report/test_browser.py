"""The page in a real browser: headless Chromium, skipped where it or playwright is missing."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from attention_conformance.report import html
from attention_conformance.report.combining import Combined
from tests.report.made import STORY, combined, entry, failure, hostile, record, whole

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium")

WIDE, NARROW, TINY = (1400, 900), (390, 844), (320, 640)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@dataclass
class Opener:
    """Opens pages and notes whatever they do that they must not."""

    browser: Any
    folder: Path
    seen: list[str] = field(default_factory=list)
    contexts: list[Any] = field(default_factory=list)

    def __call__(
        self, results: Combined | str, size: tuple[int, int] = WIDE, fragment: str = "", **context: Any
    ) -> Any:
        """Return the page, opened; `results` may be the text of one."""
        file = self.folder / f"page{len(self.contexts)}.html"
        file.write_text(results if isinstance(results, str) else html.page(results), encoding="utf-8")
        made = self.browser.new_context(viewport={"width": size[0], "height": size[1]}, **context)
        self.contexts.append(made)
        page = made.new_page()
        page.set_default_timeout(10_000)
        page.on("request", lambda request: self.note("request", request.url.partition("#")[0], file.as_uri()))
        page.on("console", lambda message: self.note("console", message.text))
        page.on("pageerror", lambda error: self.note("error", str(error)))
        page.on("dialog", lambda dialog: self.note("dialog", dialog.message) or dialog.dismiss())
        page.goto(file.as_uri() + fragment)
        return page

    def note(self, what: str, text: str, allowed: str | None = None) -> None:
        if text != allowed:
            self.seen.append(f"{what}: {text}")


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Opener]:
    """Opens pages; afterwards each of them has loaded its file and nothing else, and has complained of nothing."""
    opener = Opener(browser, tmp_path)
    yield opener
    for context in opener.contexts:
        context.close()
    assert opener.seen == []


def rows(page: Any) -> list[str]:
    """Return the names in the rows of the matrix that can be seen."""
    heads = page.locator("table.matrix tbody tr:visible th .own").all()
    return [head.inner_text() for head in heads]


def unfold(page: Any) -> None:
    """Open everything that can be opened."""
    page.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")


def overflow(page: Any) -> int:
    """Return by how many pixels something is wider than its place; what is off the screen is laid out for that."""
    return int(
        page.evaluate(
            """() => {
              const sections = [...document.querySelectorAll("section, article")];
              for (const each of sections) each.style.contentVisibility = "visible";
              const wide = [document.documentElement, ...sections];
              return Math.max(...wide.map((each) => each.scrollWidth - each.clientWidth));
            }"""
        )
    )


def test_it_is_drawn_with_a_table_and_headings(show: Opener) -> None:
    page = show(whole())
    assert page.get_by_role("heading", level=1).inner_text() == "Attention conformance"
    matrix = page.get_by_role("region", name="Implementations by family of rules")
    assert matrix.get_by_role("columnheader", name="MASK").is_visible()
    assert matrix.get_by_role("rowheader").all_inner_texts() == [
        "kernels.fast:\nattend",
        "nowhere:\nf",
        "torch.nn:\ngood",
    ]
    assert page.get_by_role("heading", level=2, name=re.compile(r"kernels\.fast:\s*attend")).is_visible()
    assert page.get_by_role("main").count() == 1
    picture = page.get_by_role("table", name="read out. Rows are L, columns are S.")
    assert picture.get_by_role("cell").first.inner_text() == "1"
    assert page.get_by_role("img", name="Error divided by bound").first.is_visible()


def test_text_filters_by_keyboard(show: Opener) -> None:
    page = show(whole())
    page.keyboard.press("Tab")
    assert page.locator(":focus").inner_text() == "Skip to the matrix"
    page.get_by_role("searchbox").focus()
    page.keyboard.type("gradient agree")
    assert rows(page) == ["attend"]
    assert page.locator(".story:visible code").all_text_contents() == ["GRADIENT-001"]
    assert page.locator(".implementation:visible").count() == 1
    assert page.locator("#shown").inner_text() == "1 of 3 implementations, 1 failing rule"
    page.keyboard.type(" nothing")
    assert page.get_by_text("Nothing matches these filters.").is_visible()


def test_verdicts_filter_by_keyboard(show: Opener) -> None:
    page = show(whole())
    page.get_by_role("checkbox", name="departs").focus()
    page.keyboard.press("Space")
    assert rows(page) == ["f", "good"]
    page.get_by_role("button", name="Reset").focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('table.matrix tbody tr[hidden]').length === 0")
    assert rows(page) == ["attend", "f", "good"]


def test_families_and_outcomes_filter(show: Opener) -> None:
    page = show(whole())
    page.get_by_label("Not fine in").select_option("MASK")
    assert rows(page) == ["attend"]
    assert page.locator("table.matrix thead [data-family]:visible").all_inner_texts() == ["MASK"]
    assert page.locator(".story:visible code").all_text_contents() == ["MASK-001"]
    page.get_by_label("Outcome").select_option("error")
    assert rows(page) == []
    page.get_by_label("Not fine in").select_option("")
    assert page.locator(".story:visible code").all_text_contents() == ["GRADIENT-001"]


def test_a_cell_leads_to_its_story_and_opens_it(show: Opener) -> None:
    page = show(whole())
    story = page.locator("#i0-GRADIENT-001")
    assert not story.get_by_text("it raised ValueError").is_visible()
    page.locator('a[href="#i0-GRADIENT-001"]').focus()
    page.keyboard.press("Enter")
    story.get_by_text("it raised ValueError").wait_for(state="visible")


def test_an_address_with_a_place_opens_it(show: Opener) -> None:
    page = show(whole(), fragment="#i0-not-run")
    assert page.get_by_text("mask_means is not as declared").is_visible()


def test_stories_unfold_by_key_and_all_at_once(show: Opener) -> None:
    page = show(whole())
    page.locator("#i0-GRADIENT-001 > summary").focus()
    page.keyboard.press("Enter")
    assert page.get_by_text("it raised ValueError").is_visible()
    assert page.locator(".story[open]").count() == 2
    page.get_by_role("button", name="Fold all", exact=True).click()
    assert page.locator(".story[open]").count() == 0


def test_a_reproduction_can_be_copied(show: Opener) -> None:
    page = show(whole(), permissions=["clipboard-read", "clipboard-write"])
    page.get_by_text("To reproduce, paste").click()
    page.get_by_role("button", name="Copy").click()
    page.get_by_role("button", name="Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "import torch\nfor x in (1, 2):\n    print(x)"


def test_without_scripts_all_of_it_can_be_read_and_no_control_is_dead(show: Opener) -> None:
    page = show(whole(), java_script_enabled=False)
    assert not page.locator("#filters").is_visible()
    assert page.locator("button:visible").count() == 0
    assert rows(page) == ["attend", "f", "good"]
    page.locator("#i0-GRADIENT-001 > summary").click()
    assert page.get_by_text("it raised ValueError").is_visible()
    page.get_by_text("To reproduce, paste").click()
    assert page.locator("pre").is_visible()


def test_foreign_text_stays_text(show: Opener) -> None:
    names = [name for name in hostile() if name]
    entries = [
        entry(name, failure(message=STORY.replace("plain", name)), stale=(name,), distribution=name) for name in names
    ]
    for size in (WIDE, NARROW):
        page = show(combined(*entries), size)
        assert page.locator("img, script").count() == 1
        assert page.locator("h2 .own").all_inner_texts()[0] == "<script>alert(1)</script>"
        assert page.locator(".implementation:visible").count() == len(names)
        unfold(page)
        assert overflow(page) == 0


def test_a_script_that_gets_into_the_page_does_not_run(browser: Any, tmp_path: Path) -> None:
    show = Opener(browser, tmp_path)
    injected = "<script>document.title = 'ran'</script><img src='http://127.0.0.1:9/x.png' onerror='document.title=1'>"
    page = show(html.page(whole()).replace("</footer>", f"{injected}</footer>"))
    assert page.title().startswith("Attention conformance")
    refused = [text for text in show.seen if "Content Security Policy" in text]
    assert any("127.0.0.1:9/x.png" in text for text in refused)
    assert any("script" in text for text in refused)
    show.contexts[0].close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW, TINY], ids=["wide", "narrow", "tiny"])
def test_only_tables_scroll_sideways(show: Opener, size: tuple[int, int], scheme: str) -> None:
    page = show(whole(), size, color_scheme=scheme)
    unfold(page)
    assert overflow(page) == 0
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(253, 253, 251)") == (scheme == "light")


def test_the_first_column_stays_while_the_matrix_scrolls(show: Opener) -> None:
    page = show(whole(), NARROW)
    region = page.locator(".tall")
    before = region.locator("tbody th").first.bounding_box()
    region.evaluate("each => each.scrollLeft = 200")
    assert region.evaluate("each => each.scrollLeft") > 0
    assert region.locator("tbody th").first.bounding_box()["x"] == before["x"]


def test_focus_can_be_seen(show: Opener) -> None:
    page = show(whole())
    page.locator("#i0-GRADIENT-001 > summary").focus()
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_motion_is_left_out_where_that_is_asked_for(show: Opener) -> None:
    behaviours = [
        show(whole(), reduced_motion=motion).evaluate("getComputedStyle(document.documentElement).scrollBehavior")
        for motion in ("reduce", "no-preference")
    ]
    assert behaviours == ["auto", "smooth"]


def test_print_unfolds_everything_and_leaves_out_controls(show: Opener) -> None:
    page = show(whole(), color_scheme="dark")
    page.emulate_media(media="print")
    assert not page.locator("#filters").is_visible()
    assert page.get_by_text("it raised ValueError").is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_an_empty_result_is_a_page_as_well(show: Opener) -> None:
    assert show(combined()).get_by_text("Nothing was judged.").is_visible()
    assert rows(show(combined(entry("k:f", record())))) == ["f"]
