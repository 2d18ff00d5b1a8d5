"""The files are what the README and the schema say, and making them again changes nothing."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch

from attention_conformance.dtypes import torch_dtype
from attention_conformance.goldens import files as goldens
from attention_conformance.reference.quirks import QUIRKS
from tests.goldens.make import RECIPES, RETIRED, SNAPSHOTS, main
from tests.goldens.writing import FOLDERS

FILES = tuple(sorted(path.relative_to(SNAPSHOTS).as_posix() for path in SNAPSHOTS.glob("**/*.json")))
VECTORS = tuple(name for name in FILES if "/" in name)

WITHOUT_AN_ANSWER = {
    "Q1-missing-import": "it is about text",
    "Q1-fragments-do-not-parse": "it is about text",
    "Q1-prose-calls-heads-shared": "it is about text",
    "Q1-fp16-mask-raises": "it raises",
    "Q1-empty-batch-raises": "it raises",
    "Q2-single-head-by-title": "it is about text",
    "Q2-prose-omits-output-layer": "it is about text",
    "Q2-assert-vanishes": "it raises, with python -O as without",
    "Q2-mask-required": "it raises",
    "Q2-einsum-list": "it is about the form of a call",
    "Q2-fp16-mask-raises": "it raises",
}
"""Quirks that give no numbers to freeze."""


def document(name: str) -> Any:
    return json.loads((SNAPSHOTS / name).read_bytes())


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = document("schema.json")
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("name", [name for name in FILES if name != "schema.json"])
def test_a_file_follows_the_schema(name: str, validator: Any) -> None:
    assert not [f"{error.json_path}: {error.message[:200]}" for error in validator.iter_errors(document(name))]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 2),
        (("id",), "ATTN-1"),
        (("agreement",), "should agree"),
        (("conventions",), {}),
        (("dtypes",), ["float32"]),
        (("inputs", "query", "values"), ["0x1p+0"]),
        (("expected", "output", "values"), [0.5]),
        (("expected", "output", "allowed"), {"fp32": [1.0]}),
        (("gradients",), {"query": None}),
        (("more",), 1),
    ],
)
def test_the_schema_refuses_what_is_no_vector(path: tuple[str, ...], value: object, validator: Any) -> None:
    changed = document("attention/ATTN-001.json")
    place = changed
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    assert list(validator.iter_errors(changed))


@pytest.mark.parametrize("name", VECTORS)
def test_shapes_fit_the_numbers(name: str) -> None:
    def arrays(part: Any) -> list[Any]:
        found = [part] if isinstance(part, dict) and "shape" in part else []
        return found + [a for value in part.values() if isinstance(value, dict) for a in arrays(value)]

    for array in arrays(document(name)):
        count = int(torch.tensor(array["shape"]).prod())
        assert len(array["values"]) == count
        assert all(len(own) == count for own in array.get("allowed", {}).values())


@pytest.mark.parametrize("name", VECTORS)
def test_every_input_is_exact_in_every_dtype_of_the_vector(name: str) -> None:
    vector = goldens.get(Path(name).stem)
    sent = [*vector.inputs.values(), *vector.parameters.values(), vector.upstream]
    for array in sent:
        exact = torch.tensor(array.values, dtype=torch.float64)
        for dtype in vector.dtypes:
            assert torch.equal(exact.to(torch_dtype(dtype)).double().nan_to_num(), exact.nan_to_num())


def test_the_index_lists_every_file_with_its_checksum() -> None:
    entries = document("index.json")["vectors"]
    assert sorted(entry["file"] for entry in entries) == sorted(VECTORS)
    for entry in entries:
        content = (SNAPSHOTS / entry["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == entry["sha256"]
        vector = json.loads(content)
        assert {name: vector[name] for name in ("id", "reference", "agreement", "title")} == {
            name: entry[name] for name in ("id", "reference", "agreement", "title")
        }
        assert entry["file"] == f"{FOLDERS[entry['reference']]}/{entry['id']}.json"
    assert goldens.check() == []


def test_ids_and_titles_are_given_once() -> None:
    ids = [recipe.id for recipe in RECIPES]
    assert len(set(ids)) == len(ids)
    assert not set(ids) & set(RETIRED)
    assert document("index.json")["retired"] == list(RETIRED)
    assert len({(recipe.reference, recipe.title) for recipe in RECIPES}) == len(ids)


def test_every_quirk_that_gives_an_answer_has_a_vector() -> None:
    shown = {name for vector in goldens.read() for name in vector.quirks}
    known = {quirk.id for quirk in QUIRKS}
    assert shown <= known
    assert known - shown == set(WITHOUT_AN_ANSWER)


def test_a_quirk_is_shown_by_a_vector_of_its_own_reference() -> None:
    own = {quirk.id: quirk.reference for quirk in QUIRKS}
    for vector in goldens.read():
        for name in vector.quirks:
            assert vector.reference == own[name] or (vector.reference, own[name]) == ("MultiHeadAttention", "attention")


@pytest.mark.parametrize("reference", FOLDERS)
def test_the_kinds_of_input_are_all_there(reference: str) -> None:
    vectors = [vector for vector in goldens.read(reference) if vector.agreement == "must agree"]
    masks = [vector.mask for vector in vectors if vector.mask is not None]
    assert {mask.form for mask in masks} == {"bool", "number", "additive", "lengths"}
    assert {"LS", "B11S", "B1LS", "1HLS", "BHLS"} <= {mask.axes for mask in masks}
    assert {"empty_row", "no_keys"} <= {name for vector in vectors for name in vector.conventions}
    lengths = {(vector.inputs["query"].shape[-2], vector.inputs["key"].shape[-2]) for vector in vectors}
    assert any(queries == keys > 1 for queries, keys in lengths)
    assert any(1 < queries != keys for queries, keys in lengths)
    assert {0, 1} <= {keys for _, keys in lengths}


def test_they_are_small_enough_to_read() -> None:
    sizes = {name: (SNAPSHOTS / name).stat().st_size for name in VECTORS}
    assert max(sizes.values()) < 40_000
    assert sum(sizes.values()) < 1_200_000
    lines = [line for name in VECTORS for line in (SNAPSHOTS / name).read_text(encoding="utf-8").splitlines()]
    assert all(len(line) < 240 for line in lines if not re.match(r' *"(fp|bf)\d\d ', line))


def test_making_them_again_changes_no_byte(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--check"]) == 0, capsys.readouterr().out
