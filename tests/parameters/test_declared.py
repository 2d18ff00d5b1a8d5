"""What `parameters=` may say, and that it is believed."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import nn

from attention_conformance import check
from attention_conformance.cases.case import PLAIN
from attention_conformance.cases.inputs import make
from attention_conformance.errors import UnknownParameters
from attention_conformance.implementation import describe
from attention_conformance.parameters import recognise
from attention_conformance.trials.subject import Subject

from .habits import Habitual, Stored, bare, habit, linears, packed

DECLARED: tuple[tuple[type[Habitual], Mapping[str, str | None]], ...] = (
    (linears("f g h mix"), {"query": "f", "key": "g", "value": "h", "output": "mix"}),
    (linears("f g h mix"), {"qkv": "f g h", "output": "mix"}),
    (linears("f.fn g.fn h.fn mix.fn"), {"query": "f", "key": "g", "value": "h", "output": "mix"}),
    (linears("list.2 list.0 list.1 list.3"), {"kvq": "list.0 list.1 list.2", "output": "list.3"}),
    (packed("mix out", letters="kqv"), {"kqv": "mix", "output": "out"}),
    (packed("mix out", packing="by head"), {"qkv": "mix by head", "output": "out"}),
    (packed("mix out", packing="by feature"), {"qkv": "mix by feature", "output": "out"}),
    (packed("pair one out", letters="kv", packing="by head"), {"query": "one", "kv": "pair by head"}),
    (packed("pair one out", letters="vk"), {"query": "one", "vk": "pair"}),
    (packed("mix out", how="turned"), {"qkv": "mix.T", "output": "out.T"}),
    (bare("f g h m", "raw turned", "raw turned"), {"query": "f.T", "key": "g.T", "value": "h.T", "output": "m.T"}),
    (bare("f g h m", "EHD", "HDE"), {"query": "f", "key": "g", "value": "h", "output": "m"}),
    (bare("f g h m", "raw", "raw", "f_b g_b h_b m_b"), {"qkv": "f g h f_b g_b h_b", "output": "m m_b"}),
    (packed("mix out", group=2), {"qkv": "mix", "output": "out"}),
    (linears("query key value"), {"output": None}),
    (linears("query key value mixing"), {"output": "mixing"}),
)


@pytest.mark.parametrize(("kind", "given"), DECLARED, ids=[str(index) for index in range(len(DECLARED))])
def test_a_declared_place_is_found(kind: type[Habitual], given: Mapping[str, str | None]) -> None:
    records = check(kind, select=["PROJECTION-001", "PROJECTION-003", "fp64"], second=None, parameters=given)
    assert not [(str(record.key), record.message) for record in records if record.bad]


def test_what_is_declared_is_believed_even_if_another_reading_agrees() -> None:
    kind = packed("query_key_value dense", packing="by head")
    given = {"qkv": "query_key_value", "output": "dense"}
    records = check(kind, select=["PROJECTION-001", "fp64"], second=None, parameters=given)
    assert [record.key.rule for record in records if record.bad]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"queries": "f"}, "no role 'queries'"),
        ({"query": "nowhere"}, "names 'nowhere' for the query, which is not there"),
        ({"key": None}, "only the output projection may be absent"),
        ({"qkv": "f g h by head", "output": "mix"}, "only one parameter can be packed by head"),
    ],
)
def test_a_declaration_that_cannot_hold_is_refused(given: Mapping[str, str | None], told: str) -> None:
    subject = Subject(describe(linears("f g h mix"), parameters=given), "fp64")
    with pytest.raises(UnknownParameters, match=told):
        subject.layout(make(PLAIN, True, "fp64"))


@pytest.mark.parametrize(
    "kind",
    [
        packed("qkv proj", packing="by head"), packed("qkv proj", how="E3HD"), bare("W_q W_k W_v W_o", "HED", "HDE"),
        linears("q k v o", group=2), linears("query key value"), packed("c_attn c_proj", how="turned"),
    ],
    ids=lambda kind: kind.__name__,
)  # fmt: skip
def test_what_is_written_is_gathered_again(kind: type[Habitual]) -> None:
    subject, inputs = Subject(describe(kind), "fp64"), make(PLAIN, True, "fp64")
    layout, module = subject.layout(inputs), subject.fresh(inputs)
    assert inputs.parameters is not None
    for name, held in layout.gather(dict(module.named_parameters())).items():
        role, kind_ = name.split(".")
        drawn = (inputs.parameters.full if kind_ == "weight" else inputs.parameters.bias)[role]
        assert torch.equal(held, drawn[: len(held)])


def test_without_an_experiment_the_most_usual_reading_is_returned() -> None:
    layout = recognise(nn.MultiheadAttention(32, 4), 32, 4)
    assert layout.names == ("in_proj_weight", "out_proj.weight", "in_proj_bias", "out_proj.bias")


def test_a_bias_without_a_declared_place_is_named() -> None:
    kind = habit("Apart", Stored("qkv", "in_proj_weight", "raw", bias="shift_b"), Stored("o", "out_proj"))
    with pytest.raises(UnknownParameters, match="depends on shift_b"):
        Subject(describe(kind), "fp64").layout(make(PLAIN, True, "fp64"))
