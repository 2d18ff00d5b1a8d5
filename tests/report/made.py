"""Made-up results for the page, and the page taken apart."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Any

from attention_conformance.records import Outcome, Picture, Record, Verdict, counts
from attention_conformance.report.combining import Combined, Entry
from attention_conformance.results import Audited, Described, Header, Judged, diagnoses, unloadable

HEADER = Header(
    version="0", catalogue="c", tier="default", torch="2.13", device="cpu", python="3.11", platform="p", seed=0,
    environment="python3.11-torch2.13-cpu", label=None, started="2026-01-01T00:00:00+00:00",
)  # fmt: skip

STORY = """\
A true element of the mask means what is declared.
  case      plain: B=2 H=4, fp32, train
  seen      output is 1.5 at (0, 1), expected 0.5: the error 1 is 37 times the bound
  declare   mask_means='hide'
  likely    mask_inverted: The mask is read the wrong way round.
  to reproduce, paste:
    import torch
    for x in (1, 2):
        print(x)"""

ERRORS = Picture("error", "output", (0, 1), ("L", "E"), (2, 3), (0, 0), ("0.5 2 37", "0 1 inf"), (0, 2))
ASKED = Picture("asked", "keys that each query sees", (0,), ("L", "S"), (2, 3), (0, 0), ("1 0 1", "1 1 0"))
REACHED = replace(ASKED, kind="reached", rows=("1 1 1", "0 1 nan"))


def record(rule: str = "MASK-003", dtype: str | None = "fp32", outcome: str = "passed", **fields: Any) -> Record:
    """Return a record; `implementation` is filled in by `entry`."""
    base: dict[str, Any] = {"case": None, "message": "", "ratio": None, "diagnosis": (), "seconds": 0.5}
    return Record("", rule, dtype, outcome=Outcome(outcome), **{**base, **fields})


def failure(rule: str = "MASK-001", dtype: str | None = "fp32", **fields: Any) -> Record:
    """Return a failing record with a whole story."""
    base = {"message": STORY, "ratio": 37.0, "pictures": (ERRORS, ASKED, REACHED), "diagnosis": ("declare x",)}
    return record(rule, dtype, "failed", **{**base, **fields})


def entry(
    name: str, *records: Record, verdict: str = "departs", stale: tuple[str, ...] = (), header: Header = HEADER,
    **described: Any,
) -> Entry:  # fmt: skip
    """Return one implementation with these records."""
    named = tuple(replace(each, implementation=name) for each in records)
    judged = Judged(name, Verdict(verdict), counts(named), diagnoses(named), stale)
    about = Described(name, name, **{"reference": "attention", **described})
    return Entry(header, Audited(about, named, judged))


def unloaded(target: str, why: str) -> Entry:
    """Return a target that could not be loaded."""
    described, judged = unloadable(target, f"{target}: {why}")
    return Entry(HEADER, Audited(described, (), judged))


def combined(*entries: Entry) -> Combined:
    """Return entries as `combine` does."""
    return Combined(tuple(dict.fromkeys(each.header for each in entries)), entries)


def whole() -> Combined:
    """Return results in which everything occurs that a page tells."""
    faulty = entry(
        "kernels.fast:attend",
        record(),
        record(dtype="bf16", ratio=0.25),
        failure(),
        failure(dtype="bf16", ratio=1200.0),
        record("MASK-001", "fp64", ratio=0.5),
        record("GRADIENT-001", None, "error", message="Gradients agree.\n  seen      it raised ValueError: no"),
        record("PURITY-001", "fp32", "not-run", message="MASK-001 failed: mask_means is not as declared"),
        record("OPTIONS-001", "fp32", "not-applicable", message="options=()"),
        record("ERRORS-003", None, "deviation", message="known upstream\nA sentence.\n  seen      it was folded"),
        stale=("nothing departs from MASK-009 any more",),
        distribution="fast-kernels",
        distribution_version="1.2",
        capabilities={"layout": "...LD", "mask_means": "hide", "causal": "top-left", "options": []},
        recognised=("causal",),
        inferred={"mask_means": "a true element hides in 10 shapes"},
    )
    good = entry(
        "torch.nn:good", record(ratio=0.125), record("SNAPSHOT-001", message="3 of 4 vectors"), verdict="conforms"
    )
    return combined(faulty, unloaded("nowhere:f", "there is no module 'nowhere'"), good)


@dataclass
class Element:
    """One element: what it is, where it begins in the text, and the text inside."""

    tag: str
    attributes: dict[str, str]
    text: str = ""
    inside: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        """The text with its white space folded."""
        return " ".join(self.text.split())


VOID = ("meta", "input", "rect", "path", "wbr", "br")
IMPLIED = ("td", "th", "tr", "li", "tbody", "thead")
"""Elements whose end may be left out."""

APART = ("dt", "dd", "th", "td", "tr", "li", "p", "div", "span", "small", "code", "h3", "h4", "ul")
"""Elements whose text is a word of its own."""


@dataclass
class Parsed(HTMLParser):
    """A page as a flat list of its elements."""

    elements: list[Element] = field(default_factory=list)
    open: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("td", "th", "li", "tr") and self.open and self.open[-1].tag in ("td", "th", "li"):
            self._close(*((self.open[-1].tag, "tr") if tag == "tr" else (self.open[-1].tag,)))
        made = Element(tag, {name: value or "" for name, value in attrs}, inside=tuple(each.tag for each in self.open))
        self.elements.append(made)
        if tag in APART:
            self.handle_data(" ")
        if tag not in VOID:
            self.open.append(made)

    def _close(self, *tags: str) -> None:
        for tag in tags:
            if self.open and self.open[-1].tag == tag:
                self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open[-1].tag != tag and self.open[-1].tag in IMPLIED:
            self.open.pop()
        if tag not in VOID:
            if not self.open or self.open[-1].tag != tag:
                raise ValueError(f"</{tag}> closes {[each.tag for each in self.open]}")
            self.open.pop()

    def handle_data(self, data: str) -> None:
        for each in self.open:
            each.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """Return the elements with this tag and these attributes, `class_` for class."""
        wanted = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items()}
        return [each for each in self.elements if each.tag == tag and wanted.items() <= each.attributes.items()]

    def texts(self, tag: str, **attributes: str) -> list[str]:
        """Return the words of these elements."""
        return [each.words for each in self.all(tag, **attributes)]


def parse(text: str) -> Parsed:
    """Take a page apart. Raises ValueError where its elements do not nest."""
    parsed = Parsed()
    parsed.feed(text)
    parsed.close()
    if parsed.open:
        raise ValueError(f"never closed: {[each.tag for each in parsed.open]}")
    return parsed


def hostile() -> Iterable[str]:
    """Return names that some page somewhere has taken for markup."""
    return (
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "</style><style>*{display:none}</style>",
        "a:'onclick='alert(1)",
        "k:{{ 7 * 7 }}{% raw %}",
        "evil:\u202egnp.exe\u202c",
        "lone:\ud800 control \x1b[31m \x00",
        "long:" + "x" * 10_000,
        "arabic:انتباه",
        "",
    )
