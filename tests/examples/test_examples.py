"""The repositories in examples/ against the installed wheel: each conforms, and fails with one line of it changed."""

from __future__ import annotations

import configparser
import importlib.util
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from attention_conformance import cli
from attention_conformance.results import read
from tests.packaging.environments import ROOT, Environment, create, install_into

pytestmark = [pytest.mark.packaging, pytest.mark.xdist_group("packaging")]

EXAMPLES = ROOT / "examples"
LABEL = "py311-example"


@dataclass(frozen=True)
class Example:
    """One repository. `file` holds its attention, whose line `sound` is replaced by `faulty`; `init` is what the command
    registers there, `narrowed` what is passed to pytest where a run of everything takes minutes."""

    file: str
    sound: str
    faulty: str
    init: str
    narrowed: tuple[str, ...] = ()


SOUND = {
    "kernel": Example(
        "blockwise/attention.py",
        "total = total * kept + weights.sum(-1)",
        "total = total + weights.sum(-1)",
        "attend = register(blockwise.attention.attend)",
    ),
    "module": Example(
        "src/tinymodel/attention.py",
        "/ query.shape[-1] ** 0.5",
        "/ x.shape[-1] ** 0.5",
        "causal_self_attention = register(tinymodel.attention.CausalSelfAttention)",
    ),
    "jax": Example(
        "jaxattention.py",
        "jax.nn.softmax(scores, axis=-1)",
        "jax.nn.softmax(scores, axis=-2)",
        'attend = register(jaxattention.attend, framework="jax")',
        # JAX compiles what it is called with anew for every shape.
        ("-k", "SHAPE-001 or NUMERIC-001 or MASK-001 or GRADIENT-001"),
    ),
}
NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(name == "jax" and not importlib.util.find_spec("jax"), reason="no jax"))
    for name in SOUND
]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, wheel: Path, dependencies: Path) -> Environment:
    """An environment with the wheel, into which the examples are installed as well."""
    return create(tmp_path_factory.mktemp("examples"), dependencies, str(wheel))


@pytest.fixture
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the example that a test names."""
    name: str = request.getfixturevalue("name")
    return Path(shutil.copytree(EXAMPLES / name, tmp_path / name))


def commands(repository: Path, *posargs: str) -> list[list[str]]:
    """Return the commands of a repository's tox.ini, taken apart, with what tox puts in."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(repository / "tox.ini")
    put_in = {"env_name": LABEL, "work_dir": str(repository), "posargs": shlex.join(posargs)}
    text = re.sub(r"\{(\w+)\}", lambda found: put_in[found[1]], config["testenv"]["commands"])
    return [shlex.split(line) for line in text.strip().splitlines()]


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(SOUND)


@pytest.mark.parametrize("name", NAMES)
def test_it_conforms_and_fails_when_one_line_is_changed(
    name: str, repository: Path, environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    example = SOUND[name]
    install_into(environment, "--editable", str(repository))
    monkeypatch.setenv("TOX_ENV_NAME", LABEL)
    for program, *arguments in commands(repository, *example.narrowed):
        environment.run(*arguments, program=program, cwd=repository)
    result = read(repository / f"results-{LABEL}.jsonl")
    assert result.header.label == LABEL
    (judged,) = result.audited
    assert judged.judged.verdict == "conforms-declared"
    assert {record.outcome for record in judged.records} <= {"passed", "not-applicable", "deviation"}

    text = (repository / example.file).read_text()
    assert text.count(example.sound) == 1
    (repository / example.file).write_text(text.replace(example.sound, example.faulty))
    ((program, *arguments),) = commands(repository, "-k", "NUMERIC-001 or NUMERIC-002")
    with pytest.raises(AssertionError, match=r"NUMERIC-00[12]\[fp32\] failed"):
        environment.run(*arguments, program=program, cwd=repository)


@pytest.mark.parametrize("name", list(SOUND))
def test_init_finds_its_attention(name: str, repository: Path) -> None:
    (repository / "tests" / "test_attention.py").unlink()
    assert cli.run(["init", str(repository)]) == 0
    written = (repository / "tests" / "test_attention.py").read_text()
    assert written.splitlines()[-1] == SOUND[name].init


@pytest.mark.parametrize("name", list(SOUND))
def test_its_readme_shows_its_test_module(name: str) -> None:
    readme = (EXAMPLES / name / "README.md").read_text()
    assert f"```python\n{(EXAMPLES / name / 'tests' / 'test_attention.py').read_text()}```" in readme
