"""Making proves before it writes, tells what changed, and leaves alone what did not."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.goldens import exact_arrays, make, proof
from tests.goldens.recipe import Recipe

FIRST, SECOND = make.RECIPES[0], make.RECIPES[1]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two vectors are enough to see how they are made."""
    monkeypatch.setattr(make, "RECIPES", (FIRST, SECOND))
    proof.prove.cache_clear()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of these two and their index."""
    assert make.main(["--folder", str(tmp_path)]) == 0
    return tmp_path


def times(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*.json")}


def test_unchanged_files_are_not_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = times(folder)
    assert make.main(["--folder", str(folder)]) == 0
    assert times(folder) == before
    assert "2 vectors proven, 0 of 3 files changed" in capsys.readouterr().out


def test_a_changed_number_is_told_and_put_right(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "attention/ATTN-001.json"
    good = path.read_bytes()
    changed = json.loads(good)
    value = float.fromhex(changed["expected"]["output"]["values"][3])
    changed["expected"]["output"]["values"][3] = (value + 0.25).hex()
    path.write_text(json.dumps(changed), encoding="utf-8")
    assert make.main(["--check", "--folder", str(folder)]) == 1
    assert json.loads(path.read_bytes()) == changed, "--check writes nothing"
    assert "attention/ATTN-001.json: expected.output.values changes by up to 0.25\n" in capsys.readouterr().out
    assert make.main(["--folder", str(folder)]) == 0
    assert path.read_bytes() == good


def test_a_new_vector_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "attention/ATTN-002.json").unlink()
    assert make.main(["--folder", str(folder)]) == 0
    assert "attention/ATTN-002.json: new" in capsys.readouterr().out


def test_a_file_without_a_recipe_is_told_and_left(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    extra = folder / "attention/ATTN-999.json"
    shutil.copy(folder / "attention/ATTN-001.json", extra)
    assert make.main(["--folder", str(folder)]) == 1
    assert "ATTN-999.json: has no recipe any more: remove it and enter its id in RETIRED" in capsys.readouterr().out
    assert extra.exists()


def _shifted(results: dict[str, Any]) -> dict[str, Any]:
    return {**results, "key": results["key"] + exact_arrays.EXACT.mpf(1) / 10**12}


def test_nothing_is_written_where_the_fifty_digits_disagree(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    honest, before = exact_arrays.results, times(folder)
    monkeypatch.setattr(exact_arrays, "results", lambda expectation: _shifted(honest(expectation)))
    proof.prove.cache_clear()
    (folder / "attention/ATTN-002.json").write_text("{}", encoding="utf-8")
    assert make.main(["--folder", str(folder)]) == 1
    out = capsys.readouterr().out
    assert "nothing was written: ATTN-001: key of the float64 oracle is 1e-12 away from fifty digits" in out
    assert (folder / "attention/ATTN-002.json").read_text(encoding="utf-8") == "{}"
    assert times(folder)["index.json"] == before["index.json"]


def test_nothing_is_written_where_the_listing_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = proof.listing

    def off(recipe: Recipe, sent: proof.Sent, dtype: str) -> Any:
        found = honest(recipe, sent, dtype)
        return {**found, "weights": found["weights"] * (1 + 1e-12)}

    monkeypatch.setattr(proof, "listing", off)
    with pytest.raises(proof.NotProven, match=r"ATTN-001: weights of the listing is .* more than the bound allows"):
        make.made()


@pytest.mark.parametrize("identifier", ["ATTN-002", "ATTN-500"])
def test_an_id_is_not_given_again(identifier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make, "RETIRED", ("ATTN-500",))
    monkeypatch.setattr(make, "RECIPES", (replace(FIRST, id=identifier), SECOND))
    with pytest.raises(proof.NotProven, match=f"given twice or retired: .*{identifier}"):
        make.made()


def test_a_recipe_that_says_nan_throughout_has_to_be_right(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.goldens.recipe import Odd

    monkeypatch.setattr(make, "RECIPES", (replace(FIRST, odd=Odd(all_nan=True)),))
    with pytest.raises(proof.NotProven, match="gives numbers where the recipe says NaN"):
        make.made()
