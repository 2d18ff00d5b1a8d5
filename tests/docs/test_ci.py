"""The CI recipes of docs/ci and this repository's workflows: they parse, and every command of ours in them is run.

What a runner does between jobs - keeping files, handing them on - is done here by copying. Commands that install or
download are left out.
"""

from __future__ import annotations

import configparser
import importlib
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from attention_conformance import __version__

yaml = importlib.import_module("yaml")  # it has no types


ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "docs" / "ci"
GITHUB = [*sorted(RECIPES.glob("github-*.yml")), *sorted((ROOT / ".github" / "workflows").glob("*.yml"))]
PROGRAMS = f"""
attention-conformance() {{ {sys.executable} -m attention_conformance "$@"; }}
pytest() {{ {sys.executable} -m pytest "$@"; }}
python() {{ {sys.executable} "$@"; }}
"""
INSTALLS = ("pip install ", "curl ", "tox run ")

KERNELS = """
from attention_conformance import register
from attention_conformance.reference.attention import attention

for number in range(4):
    register(attention, name=f"kernel{number}", dtypes=("fp32",), mask=(), gradient="none")
"""
TEST = """
from attention_conformance import register
from attention_conformance.reference.attention import attention

kernel = register(attention, dtypes=("fp32",), mask=(), gradient="none")
"""


def recipe(path: Path) -> Mapping[str, Any]:
    """Return what a YAML file says."""
    found: Mapping[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return found


def steps(path: Path, job: str, **matrix: object) -> list[str]:
    """Return what the steps of a job of GitHub's run, with the values of its matrix."""
    found = [step["run"] for step in recipe(path)["jobs"][job]["steps"] if "run" in step]
    for name, value in matrix.items():
        found = [text.replace(f"${{{{ matrix.{name} }}}}", str(value)) for text in found]
    return [text for text in found if not text.startswith(INSTALLS)]


def script(job: str) -> list[str]:
    """Return what a job of GitLab's runs."""
    found: list[str] = recipe(RECIPES / "gitlab.yml")[job]["script"]
    return [text for text in found if not text.startswith(INSTALLS)]


def run(command: str, folder: Path, *, expected: int = 0, **variables: str) -> str:
    """Run a command as a runner does, and return what it printed."""
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TOX_"))}
    done = subprocess.run(
        ["bash", "-e", "-c", PROGRAMS + command],
        cwd=folder,
        env=own | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == expected, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def uses(node: object) -> Iterator[str]:
    """Yield every action that a workflow uses."""
    if isinstance(node, dict):
        if isinstance(node.get("uses"), str):
            yield node["uses"]
        node = list(node.values())
    if isinstance(node, list):
        for each in node:
            yield from uses(each)


@pytest.mark.parametrize("path", GITHUB, ids=lambda path: path.name)
def test_workflows_have_least_permissions_and_pinned_actions(path: Path) -> None:
    found = recipe(path)
    assert found["permissions"] == {"contents": "read"}
    assert [job["permissions"] for job in found["jobs"].values() if "permissions" in job] in (
        [],
        [{"id-token": "write"}],
    )
    assert all(re.fullmatch(r"[\w-]+/[\w-]+(/\w+)?@(release/)?v\d+", each) for each in uses(found))


def test_the_page_shows_every_recipe() -> None:
    page = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"literalinclude\} ci/(\S+)", page)) == sorted(path.name for path in RECIPES.iterdir())


def test_a_release_needs_the_tag_of_its_version() -> None:
    [command] = [text for text in steps(ROOT / ".github" / "workflows" / "release.yml", "build") if "python -c" in text]
    run(command, ROOT, GITHUB_REF_NAME=f"v{__version__}")
    run(command, ROOT, GITHUB_REF_NAME="v99.0", expected=1)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the result files of four machines, which both recipes make by the same commands."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "mykernels.py").write_text(KERNELS, encoding="utf-8")
    [command] = script("audit")
    for shard in recipe(RECIPES / "github-shards.yml")["jobs"]["audit"]["strategy"]["matrix"]["shard"]:
        variables = {
            "CI_NODE_INDEX": str(shard),
            "CI_NODE_TOTAL": str(recipe(RECIPES / "gitlab.yml")["audit"]["parallel"]),
        }
        [github] = steps(RECIPES / "github-shards.yml", "audit", shard=shard)
        assert run(f"echo {command}", folder, **variables) == run(f"echo {github}", folder)
        run(command, folder, **variables)
    return folder


def test_github_puts_shards_together(parts: Path) -> None:
    [command] = steps(RECIPES / "github-shards.yml", "report")
    assert "4 of 4 implementations conform" in run(command, parts, GITHUB_STEP_SUMMARY="summary.md")
    assert {"results.jsonl", "report.html", "summary.md"} <= {path.name for path in parts.iterdir()}


def test_reports_need_what_their_jobs_install(parts: Path) -> None:
    """Everything else that the package requires is made impossible to import."""
    github = [step.get("run", "") for step in recipe(RECIPES / "github-shards.yml")["jobs"]["report"]["steps"]]
    [line] = recipe(RECIPES / "gitlab.yml")[".report"]["before_script"]
    assert line in github
    installed = line.rpartition("pip install ")[2].split()
    required = [text for text in importlib.metadata.requires("attention-conformance") or () if "extra ==" not in text]
    absent = {re.split(r"[>=<~! ]", text)[0].replace("-", "_") for text in required} - set(installed)
    assert "torch" in absent
    code = f"import sys; sys.modules |= dict.fromkeys({sorted(absent)}); from attention_conformance.cli import main; main()"
    for arguments in (
        ["part1.jsonl", "--mixed", "--html", "a.html", "--markdown", "a.md"],
        ["--compare", *["part1.jsonl"] * 2],
    ):
        subprocess.run([sys.executable, "-c", code, "report", *arguments], cwd=parts, check=True, capture_output=True)


def test_gitlab_puts_shards_together_compares_and_publishes(parts: Path) -> None:
    [report], [compare], [pages] = script("report"), script("compare"), script("pages")
    run(report, parts)
    shutil.copy(parts / "results.jsonl", parts / "before.jsonl")
    assert "regression 0" in run(compare, parts)
    run(pages, parts)
    assert (parts / "public" / "index.html").read_bytes() == (parts / "report.html").read_bytes()


def test_the_matrix_of_tox_becomes_one_report_and_is_compared_with_main(tmp_path: Path) -> None:
    matrix = recipe(RECIPES / "github-matrix.yml")["jobs"]["judge"]["strategy"]["matrix"]["include"]
    settings = configparser.ConfigParser(interpolation=None)
    settings.read(RECIPES / "tox.ini")
    environments = [each["environment"] for each in matrix]
    assert environments == settings["tox"]["env_list"].split(", ")
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_attention.py").write_text(TEST, encoding="utf-8")
    (tmp_path / "results").mkdir()
    for name in environments:
        command = settings["testenv"]["commands"].replace("{tox_root}", "results").replace("{env_name}", name)
        run(command.replace("{posargs}", "-q"), tmp_path, TOX_ENV_NAME=name)
    report, compare, keep = steps(RECIPES / "github-matrix.yml", "report")
    assert "2 of 2 implementations conform" in run(report, tmp_path, GITHUB_STEP_SUMMARY="summary.md")
    assert run(compare, tmp_path) == "", "main kept nothing yet"
    run(keep, tmp_path)
    assert run(compare, tmp_path).count("regression 0") == 2
    (tmp_path / "results" / f"{environments[0]}.jsonl").write_text("torn", encoding="utf-8")
    assert run(compare, tmp_path, expected=1).count("regression 0") == 1, "the others are compared all the same"
