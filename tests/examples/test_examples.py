"""The repositories in examples/ against the installed wheel: each conforms, and fails with one line of it changed."""

from __future__ import annotations

import configparser
import importlib.util
import re
import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from attention_conformance import cli
from attention_conformance.results import read
from tests.packaging.environments import ROOT, Environment, create

pytestmark = pytest.mark.packaging

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


TESTED = {
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
        "jax.nn.softmax(scores, axis=2)",
        'attend = register(jaxattention.attend, framework="jax")',
        # JAX compiles what it is called with anew for every shape.
        ("-k", "SHAPE-001 or NUMERIC-001 or MASK-001"),
    ),
}
HAS_JAX = importlib.util.find_spec("jax") is not None
NAMES = [
    pytest.param(name, marks=pytest.mark.skipif(name == "jax" and not HAS_JAX, reason="jax is not installed"))
    for name in TESTED
]


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of every example."""
    return Path(shutil.copytree(EXAMPLES, tmp_path_factory.mktemp("examples") / "repositories"))


@pytest.fixture(scope="module")
def environment(
    tmp_path_factory: pytest.TempPathFactory, wheel: Path, dependencies: Path, repositories: Path
) -> Environment:
    """An environment with the wheel and the copied examples."""
    editable = [argument for name in TESTED for argument in ("--editable", str(repositories / name))]
    return create(tmp_path_factory.mktemp("environment"), dependencies, str(wheel), *editable)


def commands(repository: Path, *posargs: str) -> list[list[str]]:
    """Return the commands of a repository's tox.ini, taken apart, with what tox puts in."""
    config = configparser.ConfigParser(interpolation=None)
    config.read(repository / "tox.ini")
    put_in = {"env_name": LABEL, "work_dir": str(repository), "posargs": shlex.join(posargs)}
    text = re.sub(r"\{(\w+)\}", lambda found: put_in[found[1]], config["testenv"]["commands"])
    return [shlex.split(line) for line in text.strip().splitlines()]


def test_every_example_is_tested() -> None:
    assert {path.name for path in EXAMPLES.iterdir() if path.is_dir()} == set(TESTED)


@pytest.mark.parametrize("name", NAMES)
def test_it_conforms(name: str, repositories: Path, environment: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = repositories / name
    monkeypatch.setenv("TOX_ENV_NAME", LABEL)
    for program, *arguments in commands(repository, *TESTED[name].narrowed):
        environment.run(*arguments, program=program, cwd=repository)
    result = read(repository / f"results-{LABEL}.jsonl")
    assert result.header.label == LABEL
    assert [each.judged.verdict for each in result.audited] == ["conforms-declared"]
    outcomes = {record.outcome for each in result.audited for record in each.records}
    assert outcomes <= {"passed", "not-applicable", "deviation"}


def test_each_fails_with_one_line_changed(repositories: Path, environment: Environment) -> None:
    names = [name for name in TESTED if name != "jax" or HAS_JAX]
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(changed(repositories / name / TESTED[name].file, TESTED[name]))
        targets = [f"{name}/tests/test_attention.py" for name in names]
        chosen = ("audit", *targets, "--select", "NUMERIC-001,NUMERIC-002", "--json", "faulty.jsonl")
        with pytest.raises(AssertionError, match="exited with 1"):
            environment.run(*chosen, program="attention-conformance", cwd=repositories)
    found = read(repositories / "faulty.jsonl").audited
    assert {each.described.target: str(each.judged.verdict) for each in found} == dict.fromkeys(targets, "departs")


@contextmanager
def changed(file: Path, example: Example) -> Iterator[None]:
    """Put the faulty line in place of the sound one for a while."""
    text = file.read_text()
    assert text.count(example.sound) == 1
    file.write_text(text.replace(example.sound, example.faulty))
    try:
        yield
    finally:
        file.write_text(text)


@pytest.mark.parametrize("name", list(TESTED))
def test_init_finds_its_attention(name: str, tmp_path: Path) -> None:
    repository = Path(shutil.copytree(EXAMPLES / name, tmp_path / name))
    (repository / "tests" / "test_attention.py").unlink()
    assert cli.run(["init", str(repository)]) == 0
    written = (repository / "tests" / "test_attention.py").read_text()
    assert written.splitlines()[-1] == TESTED[name].init


@pytest.mark.parametrize("name", list(TESTED))
def test_its_readme_shows_its_test_module(name: str) -> None:
    readme = (EXAMPLES / name / "README.md").read_text()
    assert f"```python\n{(EXAMPLES / name / 'tests' / 'test_attention.py').read_text()}```" in readme
