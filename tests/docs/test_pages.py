"""Links of README and docs lead somewhere, and what the architecture page names exists. Sphinx itself runs in `tox -e docs`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attention_conformance.diagnosis.faults import FAULTS
from attention_conformance.goldens.files import index
from attention_conformance.reference.quirks import QUIRKS
from tests.packaging.environments import ROOT
from tests.survey.summary import SUMMARY, load
from tests.zoo.sound import SOUND

from .links import anchors, links, pages
from .pages import blocks

PAGES = list(pages())
HOUSE = ROOT / "conformance"
GENERATED = ("survey.md", "probe.md", "public-goldens.md", "torch-history.md")
"""Pages whose own tests hold them to what they are made from."""


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


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (r"(\d+)\s+known\s+faults", len(FAULTS)),
        (r"(\d+)\s+quirks", len(QUIRKS)),
        (r"(\d+)\s+calls\s+of", len(index())),
        (r"(\d+)\s+sound\s+programs", len(SOUND)),
        (r"(\d+)\s+(?:surveyed|implementations\s+from)", len(load(SUMMARY))),
    ],
    ids=["faults", "quirks", "vectors", "sound programs", "survey"],
)
def test_numbers_that_pages_name_are_those_of_the_code(words: str, number: int) -> None:
    ours = [page for page in PAGES if page.name not in ("CHANGELOG.md", *GENERATED)]
    named = {int(each) for page in ours for each in re.findall(words, page.read_text(encoding="utf-8"))}
    assert named == {number}


def test_pictures_are_small_and_load_nothing() -> None:
    for picture in (ROOT / "docs" / "images").iterdir():
        assert picture.stat().st_size < 200_000, picture.name
        if picture.suffix == ".svg":
            text = picture.read_text(encoding="utf-8").replace('xmlns="http://www.w3.org/2000/svg"', "")
            assert "http" not in text, picture.name
