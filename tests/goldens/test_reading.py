"""Vectors are read without torch, checked by their checksums, and turned into the tensors that are sent."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from attention_conformance.goldens import files as goldens
from attention_conformance.goldens.files import InvalidGolden
from attention_conformance.goldens.inputs import MUST, case_of, inputs_of, vector_of
from attention_conformance.implementation import describe
from attention_conformance.references import REFERENCES
from attention_conformance.trials.subject import Subject
from tests.goldens.make import SNAPSHOTS

WITHOUT_TORCH = """
import sys
from attention_conformance import goldens
vectors = goldens.read()
total = sum(len(vector.expected["output"].array.values) for vector in vectors)
print(len(vectors), total > 0, [name for name in ("torch", "numpy", "mpmath") if name in sys.modules])
"""


def test_reading_imports_neither_torch_nor_numpy() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
    assert done.stdout == f"{len(goldens.index())} True []\n"


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the folder that the reader takes for the installed one."""
    folder = tmp_path / "snapshots"
    shutil.copytree(SNAPSHOTS, folder)
    monkeypatch.setattr(goldens, "files", lambda package: folder)
    caches = (goldens.index, goldens.read, goldens._read)
    for cache in caches:
        cache.cache_clear()
    yield folder
    for cache in caches:
        cache.cache_clear()


def test_a_changed_file_is_refused(copied: Path) -> None:
    path = copied / "attention/ATTN-003.json"
    path.write_bytes(path.read_bytes().replace(b"0x1", b"0x0", 1))
    with pytest.raises(InvalidGolden, match=r"attention/ATTN-003.json is not the file whose checksum .* install"):
        goldens.read("attention")
    assert len(goldens.check()) == 1
    assert goldens.read("SelfAttention"), "the others can be read"


def test_a_lost_file_and_an_unknown_one_are_told(copied: Path) -> None:
    (copied / "attention/ATTN-003.json").rename(copied / "attention/ATTN-999.json")
    problems = goldens.check()
    assert problems == [
        "the golden vectors lack attention/ATTN-003.json: install attention-conformance again",
        "attention/ATTN-999.json is not in the index",
    ]


def test_another_format_is_refused(copied: Path) -> None:
    path = copied / "index.json"
    path.write_text(json.dumps({**json.loads(path.read_bytes()), "format": 2}), encoding="utf-8")
    with pytest.raises(InvalidGolden, match=r"index.json has format 2, and this version knows 1 only"):
        goldens.read()


def test_an_unknown_id_is_told() -> None:
    with pytest.raises(InvalidGolden, match=r"no golden vector is called 'ATTN-0O1', did you mean 'ATTN-0"):
        goldens.get("ATTN-0O1")


def test_a_profile_without_a_list_rounds_as_eager() -> None:
    output = goldens.get("ATTN-001").expected["output"]
    assert output.allowed("fp32", "upcast") == output.allowed("fp32", "eager")
    assert output.allowed("bf16", "upcast") < output.allowed("bf16", "eager")
    with pytest.raises(KeyError):
        goldens.get("ATTN-080").expected["output"].allowed("fp32")


@pytest.mark.parametrize(
    ("written", "value"), [(-1.375, -1.375), ("0x1.8p+1", 3.0), ("-inf", float("-inf")), ("0x1p-1074", 5e-324)]
)
def test_numbers_are_read_exactly(written: float | str, value: float) -> None:
    assert goldens.number(written) == value


JUDGED = [vector.id for vector in goldens.read() if vector.agreement == MUST]


@pytest.mark.parametrize("identifier", JUDGED)
def test_what_is_delivered_is_what_the_file_holds(identifier: str) -> None:
    vector = goldens.get(identifier)
    case = case_of(vector)
    inputs = inputs_of(vector, case, "fp64")
    for name, array in vector.inputs.items():
        assert tuple(getattr(inputs, name).shape) == array.shape
        assert getattr(inputs, name).flatten().tolist() == list(array.values)
    assert tuple(inputs.upstream.shape) == vector.expected["output"].array.shape
    assert vector_of(case) is vector
    if vector.mask is None:
        assert inputs.allowed is None
        return
    target = REFERENCES[vector.reference].load()
    takes_all = describe(target, reference=vector.reference, mask=("bool", "number", "additive", "lengths"))
    delivered = Subject(takes_all, "fp64").mask(inputs)
    assert delivered is not None
    assert tuple(delivered.shape) == vector.mask.array.shape
    assert delivered.double().flatten().tolist() == list(vector.mask.array.values)
    assert (delivered.dtype == torch.bool) == (vector.mask.form == "bool")


def test_no_row_is_empty_by_accident() -> None:
    for vector in goldens.read():
        inputs = inputs_of(vector, case_of(vector), "fp64") if vector.agreement == MUST else None
        if inputs is not None and inputs.allowed is not None:
            empty = not bool(inputs.allowed.any(-1).all())
            assert empty == ("empty_row" in vector.conventions), vector.id
            assert not bool(inputs.allowed.all()), f"{vector.id} hides nothing"


def test_another_case_is_no_vector() -> None:
    from attention_conformance.cases.case import PLAIN

    assert vector_of(PLAIN) is None
