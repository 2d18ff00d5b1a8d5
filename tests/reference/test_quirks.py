"""The list of quirks is well formed, and each quirk's `where` quotes the listing correctly."""

from __future__ import annotations

import dataclasses
import re
from typing import get_args

import pytest

from attention_conformance.errors import ConformanceError
from attention_conformance.reference.document1_quirks import DOCUMENT_1
from attention_conformance.reference.document2_quirks import DOCUMENT_2
from attention_conformance.reference.quirk_record import Subject
from attention_conformance.reference.quirks import QUIRKS, Quirk, UnknownQuirk, quirk
from tests.reference.listings import listing_text

LISTINGS = {"1": "attention", "2": "self_attention"}

each_quirk = pytest.mark.parametrize("each", QUIRKS, ids=lambda each: each.id)


def test_both_documents_are_listed_and_no_id_twice() -> None:
    assert QUIRKS == DOCUMENT_1 + DOCUMENT_2
    assert len({each.id for each in QUIRKS}) == len(QUIRKS) > 50


@each_quirk
def test_fields_are_well_formed(each: Quirk) -> None:
    document = each.where[len("document ")]
    subjects = {"1": ("attention", "MultiHeadAttention"), "2": ("SelfAttention",)}[document]
    assert each.reference in (*subjects, f"document {document}")
    assert each.reference in get_args(Subject)
    assert re.fullmatch(rf"Q{document}(-[a-z0-9]+)+", each.id)
    assert re.fullmatch(r"\S(?!.*\. ).*[^.\s]\.", each.sentence), "one sentence, with its full stop"
    assert re.fullmatch(r"\S.*[^.\s]\.", each.consequence)


@each_quirk
def test_where_quotes_the_line_that_it_names(each: Quirk) -> None:
    quoted = re.fullmatch(r"document (\d), (?:section 4, )?listing line (\d+): (.+)", each.where)
    if each.reference.startswith("document"):
        assert quoted is None, "a quirk of the prose has no line in the listing"
        return
    assert quoted is not None
    document, line, code = quoted.groups()
    assert code in listing_text(LISTINGS[document]).splitlines()[int(line) - 1]


def test_a_quirk_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        QUIRKS[0].sentence = ""  # type: ignore[misc]


def test_a_quirk_is_found_by_its_id() -> None:
    assert quirk("Q2-no-weights").reference == "SelfAttention"


def test_an_unknown_id_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(UnknownQuirk, match=r"'Q2-no-weight'.*did you mean 'Q2-no-weights'") as caught:
        quirk("Q2-no-weight")
    assert isinstance(caught.value, ConformanceError)
