"""What the name of a parameter says: which projections it holds, if any.

A name is read word by word, from the inside out: `attention.in_proj_q.weight` is the query's, `to_qkv` holds three,
`kqv` holds them in that order. Words that only say that something is a projection are passed over; a word that is not
known (`norm`, `pos`, `gate`) makes the part say nothing.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from torch import Tensor, nn

LETTERS: Mapping[str, str] = {"q": "query", "k": "key", "v": "value", "o": "output"}
"""The letter of each role; packed projections are named by several in their order."""

PACKED = tuple("".join(order) for count in (3, 2) for order in itertools.permutations("qkv", count))
"""Every order in which one parameter may hold several projections."""

_CORE: Mapping[str, str] = {
    **{word: word for word in PACKED},
    **{
        word: letter
        for letter, words in {
            "q": "q qs query queries qry",
            "k": "k ks key keys",
            "v": "v vs value values val",
            "o": "o out output outputs final unify unifyheads combine concat merge merged post resid",
        }.items()
        for word in words.split()
    },
}
_WEAK = frozenset(
    ["proj", "projection", "projections", "project", "projector", "dense", "fc", "linear", "lin", "layer"]
)
_BESIDE = """weight weights kernel matrix bias b c w to in input net mat map mapping transform conv attn attention mha
multihead multi head heads self projs linears lins layers fcs for container param params"""
_PASSED = _WEAK | frozenset(_BESIDE.split())
"""Words that say nothing beside others. Alone, those for one linear map (weak) may name the output projection."""

_AFFIXED = re.compile(
    r"(?:w|b|to|fc|lin|linear|proj|project)?(?P<core>{})(?:w|lin|linear|proj|projection|net|layer|dense|fc)?".format(
        "|".join(sorted(_CORE, key=len, reverse=True))
    )
)
_NORMS = ("norm", "ln", "layernorm", "rmsnorm", "batchnorm", "groupnorm")


@dataclass(frozen=True)
class Entry:
    """One parameter of a projection. `certain` ones are known to be stored as (out, in); `turned` says (in, out) was
    declared."""

    name: str
    tensor: Tensor
    bias: bool
    certain: bool = False
    turned: bool | None = None


@dataclass
class Found:
    """Parameters by what their names say: `roles` from letters such as `q`, `o`, `qkv` to entries; `weak` those that
    may be the output projection; `lists` numbered ones without a name of their own; `rest` all others. What was declared
    is among the roles, with its `packing`; `no_output` says that there is declared to be no output projection."""

    roles: dict[str, list[Entry]] = field(default_factory=dict)
    weak: list[Entry] = field(default_factory=list)
    lists: dict[str, list[Entry]] = field(default_factory=dict)
    rest: list[Entry] = field(default_factory=list)
    packing: Mapping[str, str] = field(default_factory=dict)
    no_output: bool = False


def find(module: nn.Module, tensors: Mapping[str, Tensor]) -> Found:
    """Return the parameters of a module by what their names say."""
    found = Found()
    for name, tensor in tensors.items():
        entry = entry_of(module, name, tensor)
        if is_apart(module, name, tensors):
            found.rest.append(entry)
        elif letters := spoken(name):
            found.roles.setdefault(letters, []).append(entry)
        elif numbered := _numbered(name):
            found.lists.setdefault(numbered, []).append(entry)
        else:
            (found.weak if _is_weak(name) else found.rest).append(entry)
    _settle(found)
    return found


def entry_of(module: nn.Module, name: str, tensor: Tensor, turned: bool | None = None) -> Entry:
    """Return the entry of one parameter."""
    owner, own = owner_of(module, name), name.rpartition(".")[2]
    certain = isinstance(owner, (nn.Linear, nn.modules.conv._ConvNd, nn.MultiheadAttention))
    bias = tensor.dim() <= 1 or bool({"bias", "b"} & set(_words(own))) or re.fullmatch(r"b[qkvo]", own) is not None
    return Entry(name, tensor, bias, certain, turned)


def owner_of(module: nn.Module, name: str) -> nn.Module:
    """Return the submodule that holds a parameter."""
    return module.get_submodule(name.rpartition(".")[0])


def spoken(name: str) -> str:
    """Return the letters of the projections that a name speaks of, "" for none."""
    for part in reversed(name.split(".")):
        letters = _core(part)
        if letters:
            return letters
    return ""


def _core(part: str) -> str:
    words = _words(part)
    bare = [word for word in words if word not in ("weight", "bias")]
    if bare in (["c", "attn"], ["in", "proj"], ["in", "projection"], ["in", "linear"]):
        return "qkv"
    letters = []
    for word in words:
        if word in _CORE:
            letters.append(_CORE[word])
        elif word not in _PASSED:
            affixed = _AFFIXED.fullmatch(word)
            if affixed is None:
                return ""
            letters.append(_CORE[affixed["core"]])
    spelled = "".join(letters)
    return spelled if spelled in (*LETTERS, *_CORE) else ""


def _words(part: str) -> list[str]:
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", part)]


def is_apart(module: nn.Module, name: str, tensors: Iterable[str]) -> bool:
    """Say whether a parameter is none of a projection: of a norm, or the extra key and value of torch's module."""
    last = name.split(".")[-1]
    if last in ("bias_k", "bias_v") and not any(re.search(r"(^|\.)b(ias)?_q$", other) for other in tensors):
        return True
    own = [word for part in name.split(".")[-2:] for word in _words(part)]
    return "Norm" in type(owner_of(module, name)).__name__ or any(word in _NORMS for word in own)


def _numbered(name: str) -> str:
    """Return the part before the number of a member of a list that says nothing by itself, "" for others."""
    parts = re.sub(r"\.(weight|bias|kernel)$", "", name).split(".")
    digits = [place for place, part in enumerate(parts) if part.isdigit()]
    if not digits or digits[-1] == 0 or set(_words(parts[digits[-1] - 1])) - _PASSED:
        return ""
    return ".".join(parts[: digits[-1]])


def _is_weak(name: str) -> bool:
    parts = re.sub(r"\.(weight|bias|kernel)$", "", name).split(".")
    words = _words(next((part for part in reversed(parts) if not part.isdigit()), ""))
    return bool(set(words) & _WEAK) and not set(words) - _PASSED


def _settle(found: Found) -> None:
    """A list of fewer than three members is none: what is in it may be the output projection, or is left."""
    for numbered, entries in list(found.lists.items()):
        if len([entry for entry in entries if not entry.bias]) not in (3, 4):
            del found.lists[numbered]
            for entry in entries:
                (found.weak if _is_weak(entry.name) else found.rest).append(entry)
