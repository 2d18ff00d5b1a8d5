"""The two examples judge without torch and without this package: right ones pass, wrong ones are told."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from attention_conformance.goldens import files as goldens
from tests.goldens.make import SNAPSHOTS

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node.js is not installed here: no `node` on the PATH")

NO_TORCH = "import sys; sys.modules['torch'] = None; sys.modules['attention_conformance'] = None\n"

RIGHT = """
import numpy as np

def attend(query, key, value, mask=None):
    scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -1e30)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    return weights @ value / np.maximum(weights.sum(-1, keepdims=True), 1e-300)
"""
WRONG = {
    "scale": ("np.sqrt(query.shape[-1])", "query.shape[-1]"),
    "the mask is inverted": ("np.where(mask,", "np.where(~mask,"),
    "a temperature of 1 + 1e-12": ("/ np.sqrt", "/ (1 + 1e-12) / np.sqrt"),
    "NaN": ("return weights", "return np.nan * weights"),
}


def run(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run judge_numpy.py where neither torch nor the package can be imported."""
    script = f"{NO_TORCH}import runpy; sys.argv = {['judge_numpy.py', *arguments]!r}\n"
    script += f"runpy.run_path({str(SNAPSHOTS / 'judge_numpy.py')!r}, run_name='__main__')"
    return run(sys.executable, "-c", script, cwd=folder)


def written(folder: Path, change: str | None) -> str:
    source = RIGHT if change is None else RIGHT.replace(*WRONG[change])
    (folder / "mykernels.py").write_text(source, encoding="utf-8")
    return source


@pytest.mark.parametrize("own", [True, False])
def test_numpy_alone_finds_a_right_attention_right(own: bool, tmp_path: Path) -> None:
    written(tmp_path, None)
    done = python(tmp_path, *(["mykernels.py:attend"] if own else []))
    assert done.returncode == 0, done.stderr
    assert len(re.findall(r"^ATTN-\d{3} ok", done.stdout, re.MULTILINE)) >= 35


@pytest.mark.parametrize("change", WRONG)
def test_numpy_alone_finds_a_wrong_attention_wrong(change: str, tmp_path: Path) -> None:
    assert written(tmp_path, change) != RIGHT
    done = python(tmp_path, "mykernels.py:attend")
    assert done.returncode == 1, done.stderr
    assert "WRONG" in done.stdout


def snippet() -> str:
    text = (SNAPSHOTS / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return str(block)


def test_the_example_of_the_readme_is_fifteen_lines_at_most() -> None:
    assert len([line for line in snippet().splitlines() if line.strip()]) <= 15


@pytest.mark.parametrize("change", [None, *WRONG])
def test_the_example_of_the_readme_judges(change: str | None, tmp_path: Path) -> None:
    written(tmp_path, change)
    (tmp_path / "snapshots").symlink_to(SNAPSHOTS)
    done = run(sys.executable, "-c", NO_TORCH + "sys.path.insert(0, '.')\n" + snippet(), cwd=tmp_path)
    assert (done.returncode == 0) == (change is None), done.stderr
    if change is not None:
        assert re.search(r"AssertionError: ATTN-\d{3}", done.stderr)


@needs_node
def test_node_recomputes_every_vector_of_the_function(tmp_path: Path) -> None:
    assert NODE is not None
    done = run(NODE, str(SNAPSHOTS / "judge_node.mjs"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    judged = re.findall(r"^(ATTN-\d{3}) ok", done.stdout, re.MULTILINE)
    assert judged == [vector.id for vector in goldens.read("attention") if vector.agreement == "must agree"]


JAVASCRIPT = {
    "scale": "attend(query, keys, values, addition, scale / 2, width)",
    "the mask is ignored": "attend(query, keys, values, addition.map(() => 0), scale, width)",
    "the weights are those of the first key": (
        "(({ output, weights }) => ({ output, weights: weights.map((_, j) => (j ? 0 : 1)) }))"
        "(attend(query, keys, values, addition, scale, width))"
    ),
    "NaN": "({ output: Array(width).fill(NaN), weights: keys.map(() => NaN) })",
}


@needs_node
@pytest.mark.parametrize("change", JAVASCRIPT)
def test_node_finds_a_wrong_attention_wrong(change: str, tmp_path: Path) -> None:
    assert NODE is not None
    wrong = tmp_path / "wrong.mjs"
    wrong.write_text(
        f'import {{ attend as right }} from "{(SNAPSHOTS / "judge_node.mjs").as_uri()}";\n'
        f"export const attend = (query, keys, values, addition, scale, width) => "
        f"{JAVASCRIPT[change].replace('attend(', 'right(')};\n",
        encoding="utf-8",
    )
    done = run(NODE, str(SNAPSHOTS / "judge_node.mjs"), str(wrong), cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "WRONG" in done.stdout


@needs_node
def test_node_reads_every_number_to_the_same_bits(tmp_path: Path) -> None:
    assert NODE is not None
    words = {"0x1p-1074", "-0x1.fffffffffffffp+1023", "0x0.0000000000001p-1022", "0x1p-1022", "0x0p+0"}
    for name in SNAPSHOTS.glob("*/*.json"):
        words |= set(re.findall(r'"(-?0x[01][^"]*)"', name.read_text(encoding="utf-8")))
    pairs = [[word, float.fromhex(word)] for word in sorted(words)]
    (tmp_path / "pairs.json").write_text(json.dumps(pairs), encoding="utf-8")
    script = (
        f'import {{ number }} from "{(SNAPSHOTS / "judge_node.mjs").as_uri()}";\n'
        'import { readFileSync } from "node:fs";\n'
        'const pairs = JSON.parse(readFileSync("pairs.json", "utf8"));\n'
        "console.log(pairs.length, pairs.filter(([word, value]) => number(word) !== value).map(([word]) => word));\n"
    )
    (tmp_path / "read.mjs").write_text(script, encoding="utf-8")
    done = run(NODE, "read.mjs", cwd=tmp_path)
    assert done.stdout == f"{len(pairs)} []\n", done.stdout[:500] + done.stderr
