"""Links of README and docs lead somewhere, and what the architecture page names exists. Sphinx itself runs in `tox -e docs`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .markdown import ROOT, anchors, blocks, links, pages

PAGES = list(pages())
HOUSE = ROOT / "conformance"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_relative_links_and_anchors_exist(page: Path) -> None:
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        goal = (page.parent / path).resolve() if path else page
        assert goal.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(goal), f"{page.name} links to {link}"


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# One `word` more\n\n[gone](gone.md) [here](#one-word-more) `[code](code.md)`\n", encoding="utf-8")
    assert links(page) == ["gone.md", "#one-word-more"]
    assert anchors(page) == {"one-word-more"}
    with pytest.raises(AssertionError, match=re.escape("page.md links to gone.md")):
        test_relative_links_and_anchors_exist(page)


def test_every_page_is_in_the_menu_of_the_site() -> None:
    listed = {line for block in blocks(ROOT / "docs" / "index.md") for line in block.text.splitlines()}
    assert {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"} <= listed


def test_modules_of_the_flow_exist_and_come_in_its_order() -> None:
    drawn = re.findall(
        r'class="module"[^>]*>(\w+)<', (ROOT / "docs" / "images" / "flow.svg").read_text(encoding="utf-8")
    )
    assert drawn == ["reference", "cases", "oracle", "bounds", "rules", "runner", "plugin", "cli", "report"]
    known = {path.stem for path in HOUSE.rglob("*.py")} | {path.parent.name for path in ROOT.rglob("*/__init__.py")}
    assert set(drawn) <= known


def test_modules_that_the_architecture_page_names_exist() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py)`", text)
    assert len(named) > 20
    found = {path.relative_to(HOUSE).as_posix() for path in HOUSE.rglob("*.py")}
    gone = [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in found)]
    assert gone == []


def test_pictures_are_small_and_load_nothing() -> None:
    for picture in (ROOT / "docs" / "images").iterdir():
        assert picture.stat().st_size < 200_000, picture.name
        if picture.suffix == ".svg":
            text = picture.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
            assert "http" not in text, picture.name
