"""Targets given as text: what they name, what is declared for them, and what is said when they name nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch.nn.functional as F

from attention_conformance.errors import InvalidCapability, TargetNotLoaded, UnknownCapability, UnknownReference
from attention_conformance.loading import InvalidSetting, load, parse_settings, parse_target
from attention_conformance.reference.attention import MultiHeadAttention, attention

KERNELS = """
from helper_beside import sound
from attention_conformance import Deviation, register
from torch.nn.functional import scaled_dot_product_attention as renamed

flash = register(sound, empty_row="zeros", deviations=[Deviation("MASK-003", reason="known")])
register(sound, name="same")
register(sound, name="same")
register(sound)

class Outer:
    class Inner:
        attend = staticmethod(sound)

number = 3
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a file of kernels, a module beside it and a package; afterwards nothing of it stays imported."""
    before, path = set(sys.modules), list(sys.path)
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "helper_beside.py").write_text("def sound(query, key, value, mask=None): ...\n")
    (tmp_path / "apackage").mkdir()
    (tmp_path / "apackage" / "__init__.py").write_text("")
    (tmp_path / "apackage" / "inner.py").write_text("from . import __name__ as package\ndef attend(q, k, v): ...\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.path[:] = path
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("text", "place", "name", "variant"),
    [
        ("a.b:c.d", "a.b", "c.d", None),
        ("a", "a", None, None),
        ("x/y.py:f", "x/y.py", "f", None),
        ("x/y.py::f", "x/y.py", "f", None),
        (r"C:\x\y.py:f", r"C:\x\y.py", "f", None),
        ("y.py", "y.py", None, None),
        ("a:f[math]", "a", "f", "math"),
    ],
)
def test_a_target_is_taken_apart(text: str, place: str, name: str | None, variant: str | None) -> None:
    target = parse_target(text)
    assert (target.place, target.name, target.variant) == (place, name, variant)


@pytest.mark.parametrize("text", ["", ":f", "a:", "a b:c", "a:b c", "a:b[", "a:1b", "a-b:c", "y.py:f:g"])
def test_other_texts_are_no_target(text: str) -> None:
    with pytest.raises(TargetNotLoaded, match=r"is no target\. Write module:name, or path/file\.py:name"):
        parse_target(text)


def test_the_documents_objects_are_held_to_themselves() -> None:
    (kernel,) = load("attention_conformance.reference.attention:attention")
    assert kernel.implementation.target is attention
    assert kernel.implementation.reference.name == "attention"
    (module,) = load("attention_conformance.reference:MultiHeadAttention")
    assert module.implementation.target is MultiHeadAttention
    assert module.implementation.reference.name == "MultiHeadAttention"
    (other,) = load("attention_conformance.reference:SelfAttention")
    assert other.implementation.reference.name == "SelfAttention"


def test_a_file_is_imported_with_its_folder_on_the_path(folder: Path) -> None:
    sys.path.remove(str(folder))
    (loaded,) = load(f"{folder}/kernels.py:flash")
    assert loaded.name == f"{folder}/kernels.py:flash"
    assert loaded.implementation.capabilities.empty_row == "zeros"
    assert loaded.implementation.deviations[0].rule == "MASK-003"
    assert "kernels" not in sys.modules


def test_names_may_be_dotted(folder: Path) -> None:
    (loaded,) = load(f"{folder}/kernels.py:Outer.Inner.attend")
    assert loaded.implementation.target.__name__ == "sound"


def test_a_bare_file_gives_everything_that_it_registered(folder: Path) -> None:
    names = [each.name.removeprefix(f"{folder}/") for each in load(f"{folder}/kernels.py")]
    assert names == ["kernels.py::flash", "kernels.py::same", "kernels.py::same (2)", "kernels.py::implementation4"]
    assert load("kernels")[0].name == "kernels::flash"


def test_settings_are_put_over_what_is_registered(folder: Path) -> None:
    (loaded,) = load(f"{folder}/kernels.py:flash", {"mask_means": "hide"})
    own = loaded.implementation
    assert (own.capabilities.empty_row, own.capabilities.mask_means) == ("zeros", "hide")
    assert own.declared == ("mask_means", "empty_row")
    assert [each.rule for each in own.deviations] == ["MASK-003"]


def test_settings_declare_for_a_raw_target(folder: Path) -> None:
    (loaded,) = load("apackage.inner:attend", {"reference": "MultiHeadAttention", "empty_row": "zeros"})
    assert loaded.implementation.reference.name == "MultiHeadAttention"
    assert loaded.implementation.declared == ("empty_row",)


def test_an_adapter_is_picked_under_any_name(folder: Path) -> None:
    (loaded,) = load(f"{folder}/kernels.py:renamed")
    assert loaded.implementation.target is F.scaled_dot_product_attention
    assert loaded.implementation.capabilities.empty_row == "zeros"
    (changed,) = load(f"{folder}/kernels.py:renamed[math]", {"dtypes": ("fp64",)})
    assert changed.implementation.capabilities.dtypes == ("fp64",)
    assert changed.implementation.capabilities.precision == "upcast"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("torch.nn.functionall:f", "no module 'torch.nn.functionall', did you mean 'torch.nn.functional'?"),
        ("no_such_module_here:f", "there is no module 'no_such_module_here'"),
        ("apackage.inner.attend", "for something inside the module apackage.inner, write apackage.inner:attend."),
        ("{folder}/kernel.py:f", "there is no file .*kernel.py, did you mean 'kernels.py'?"),
        ("{folder}/kernels.py:flsh", "has no 'flsh', did you mean 'flash'? It holds sound,"),
        ("{folder}/kernels.py:Outer.Inner.attnd", "Outer.Inner has no 'attnd', did you mean 'attend'?"),
        ("{folder}/kernels.py:number", "is int, which can be neither called nor built"),
        ("{folder}/kernels.py:flash[fast]", "there is no variant 'fast'. Known: .*kernels.py:flash."),
        ("{folder}/apackage/inner.py:attend", "relative import .* Name it as part of its package, package.module:name"),
        ("{folder}/helper_beside.py", "registers nothing. Name what is meant, .*helper_beside.py:name"),
        ("apackage:inner", "is a module. Name what is meant: apackage:inner.name. It holds attend."),
        ("torch.nn:MultiheadAttention[weight]", r"did you mean 'weights'\? Known: torch.nn:MultiheadAttention,"),
    ],
)
def test_what_names_nothing_says_what_and_why_and_what_next(folder: Path, text: str, said: str) -> None:
    if text == "apackage:inner":
        load("apackage.inner:attend")
    with pytest.raises(TargetNotLoaded, match=said.replace("?", r"\?") if r"\?" not in said else said) as raised:
        load(text.format(folder=folder))
    assert str(raised.value).startswith(text.format(folder=folder))


@pytest.mark.parametrize(
    ("pair", "value"),
    [
        ("empty_row=zeros", "zeros"),
        ("mask=bool,additive", ("bool", "additive")),
        ("mask=('bool', 'additive')", ("bool", "additive")),
        ("mask=bool", ("bool",)),
        ("mask=", ()),
        ("mask=none", ()),
        ("causal=None", None),
        ("causal=always top-left", "always top-left"),
        ("scale=0.125", 0.125),
        ("scale=1/sqrt(D)", "1/sqrt(D)"),
        ("widths=32,64", (32, 64)),
        ("widths=any", "any"),
        ("mask_shapes=LS,(BH)LS", ("LS", "(BH)LS")),
        ("mask_shapes=broadcast", "broadcast"),
        ("reference=MultiHeadAttention", "MultiHeadAttention"),
        ("parameters={'query': 'W_q'}", {"query": "W_q"}),
    ],
)
def test_a_setting_is_read_as_its_capability_asks(pair: str, value: object) -> None:
    assert parse_settings([pair]) == {pair.partition("=")[0]: value}


def test_settings_that_mean_nothing_are_refused() -> None:
    with pytest.raises(UnknownCapability, match=r"no capability 'emptyrow', did you mean 'empty_row'\?"):
        parse_settings(["emptyrow=zeros"])
    with pytest.raises(InvalidSetting, match="has no '='"):
        parse_settings(["empty_row"])
    with pytest.raises(InvalidCapability, match="did you mean 'zeros'"):
        load("attention_conformance.reference.attention:attention", parse_settings(["empty_row=zero"]))
    with pytest.raises(UnknownReference, match="did you mean 'MultiHeadAttention'"):
        load("attention_conformance.reference.attention:attention", parse_settings(["reference=MultiheadAttention"]))
