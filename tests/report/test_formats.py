"""Every form of report is made of any results. How each keeps foreign text from being more than text is tested beside it."""

from __future__ import annotations

import pytest

from attention_conformance.records import Record
from attention_conformance.report.combining import combine
from attention_conformance.report.formats import FORMATS, Format
from attention_conformance.results import ResultFile
from tests.made import HEADER, audited, record

RESULTS = {
    "no record": (),
    "a passed one": (record(ratio=0.25),),
    "a failed one": (record(outcome="failed", message='output is "<b>&|`x`</b>", expected 2', ratio=float("inf")),),
}


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("records", RESULTS.values(), ids=RESULTS)
def test_it_is_made_of_any_results(form: Format, records: tuple[Record, ...]) -> None:
    assert form.page(combine([ResultFile(HEADER, (audited(*records),))])).strip()


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_it_is_made_of_no_results(form: Format) -> None:
    assert form.page(combine([ResultFile(HEADER, ())])).strip()
