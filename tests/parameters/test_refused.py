"""What is in doubt is not guessed: the error names what is there and gives the line to write."""

from __future__ import annotations

import re

import pytest
import torch
from torch import Tensor, nn

from attention_conformance import check
from attention_conformance.cases.case import PLAIN
from attention_conformance.cases.inputs import make
from attention_conformance.errors import OtherParameters, UnknownParameters
from attention_conformance.implementation import describe
from attention_conformance.parameters import Layout
from attention_conformance.trials.subject import Subject

from .habits import Habitual, Stored, bare, habit, linears, packed


def _layout(kind: object, **declared: object) -> Layout:
    subject = Subject(describe(kind, reference="MultiHeadAttention", **declared), "fp64")  # type: ignore[arg-type]
    return subject.layout(make(PLAIN, True, "fp64"))


def _refused(kind: object, **declared: object) -> str:
    with pytest.raises(UnknownParameters) as caught:
        _layout(kind, **declared)
    return str(caught.value)


def _suggested(text: str) -> dict[str, str | None]:
    (line,) = re.findall(r"^ +parameters=(\{.*?\})", text, re.MULTILINE)
    found: dict[str, str | None] = eval(line)
    return found


class _Doubled(Habitual):
    """Not attention: the result is doubled."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return 2 * super().forward(query, key, value, mask)


class _WronglyScaled(Habitual):
    """Attention with a scale that nobody uses."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return super().forward(0.3 * query, key, value, mask)


def _as(base: type[Habitual], kind: type[Habitual]) -> type[Habitual]:
    return type(kind.__name__, (base,), {"stored": kind.stored, "group": kind.group})


def test_a_missing_projection_is_named_with_what_is_there_and_the_line_to_write() -> None:
    text = _refused(habit("NoValue", Stored("q", "q_proj"), Stored("k", "k_proj"), Stored("o", "out_proj")))
    assert "nothing was found for value" in text
    assert "q_proj.weight (32, 32)" in text
    assert _suggested(text) == {"query": "q_proj", "key": "k_proj", "output": "out_proj", "value": "..."}
    assert "# in doubt: value" in text


def test_two_attentions_in_one_module_are_not_told_apart() -> None:
    two = [Stored(letter, f"{where}.{letter}_proj") for where in ("first", "second") for letter in "qkvo"]
    assert "look alike (first.q_proj.weight, second.q_proj.weight)" in _refused(habit("Two", *two))


def test_heads_wider_than_the_model_allows_are_told_by_their_shape() -> None:
    def build(d_model: int, n_heads: int) -> nn.Module:
        module = nn.Module()
        module.to_qkv = nn.Linear(d_model, 3 * 64 * n_heads)
        module.to_out = nn.Linear(64 * n_heads, d_model)
        return module

    assert "its heads may be wider than d_model / heads = 8" in _refused(build)


def test_matrices_without_names_of_a_module_that_is_not_attention_are_in_doubt() -> None:
    text = _refused(_as(_Doubled, linears("a b c d")))
    assert "names do not tell query, key, value, output" in text
    assert _suggested(text) == {"query": "a", "key": "b", "value": "c", "output": "d"}
    assert "# in doubt: query, key, value, output" in text


def test_square_parameters_of_a_module_that_is_not_attention_are_in_doubt() -> None:
    assert "names do not tell" in _refused(_as(_Doubled, bare("W_q W_k W_v W_o", "raw", "raw")))
    declared = {"query": "W_q.T", "key": "W_k.T", "value": "W_v.T", "output": "W_o.T"}
    assert _layout(_as(_Doubled, bare("W_q W_k W_v W_o", "raw turned", "raw turned")), parameters=declared)


def test_one_key_tells_how_a_module_with_another_fault_is_stored() -> None:
    turned = _layout(_as(_WronglyScaled, bare("W_q W_k W_v W_o", "raw turned", "raw turned")))
    assert turned.weights["query"][0].axes == "EPD"
    by_head = _layout(_as(_WronglyScaled, packed("qkv proj", packing="by head")))
    assert by_head.weights["key"][0].axes == "HPDE"


def test_a_clear_name_is_trusted_although_another_order_would_agree() -> None:
    exchanged = habit("Exchanged", Stored("qvk", "qkv"), Stored("o", "proj"))
    records = list(check(exchanged, select=["PROJECTION-001", "fp64"], second=None))
    assert any("packed_rows_in_wrong_order" in record.diagnosis or record.bad for record in records)
    assert _layout(exchanged).weights["key"][0].start == 4


def test_the_rows_of_torchs_own_parameter_are_not_read_head_by_head() -> None:
    own = habit("Own", Stored("qkv", "in_proj_weight", "raw", "by head", bias="in_proj_bias"), Stored("o", "out_proj"))
    assert all(len(slots) == 1 and slots[0].axes == "PDE" for slots in list(_layout(own).weights.values())[:3])


def test_what_the_call_raises_is_told_where_it_leaves_the_storage_open() -> None:
    class Raises(Habitual):
        stored = bare("W_q W_k W_v W_o", "raw", "raw").stored

        def forward(self, x: Tensor) -> Tensor:  # type: ignore[override]
            raise RuntimeError("three tensors are too many")

    records = [record for record in check(Raises, select=["SHAPE-001", "fp64"]) if record.bad]
    assert records
    assert all("too many" in record.message or "argument" in record.message for record in records)


def test_the_extra_key_and_value_of_torchs_module_are_refused() -> None:
    def build(d_model: int, n_heads: int) -> nn.Module:
        return nn.MultiheadAttention(d_model, n_heads, batch_first=True, add_bias_kv=True)

    with pytest.raises(OtherParameters, match=r"bias_k, bias_v besides the four projections"):
        _layout(build)


def test_norms_that_change_the_result_are_named() -> None:
    class Normed(Habitual):
        stored = linears("q_proj k_proj v_proj o_proj").stored

        def __init__(self, d_model: int, n_heads: int) -> None:
            super().__init__(d_model, n_heads)
            self.q_norm, self.unused_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

        def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().forward(self.q_norm(query), key, value, mask)

    with pytest.raises(OtherParameters) as caught:
        _layout(Normed)
    assert "q_norm.weight, q_norm.bias besides" in str(caught.value)
    assert "unused" not in str(caught.value)
    assert "module.q_norm = torch.nn.Identity()" in str(caught.value)


def test_parameters_that_change_nothing_are_left_alone() -> None:
    class WithTable(Habitual):
        stored = linears("q_proj k_proj v_proj o_proj").stored

        def __init__(self, d_model: int, n_heads: int) -> None:
            super().__init__(d_model, n_heads)
            self.relative_position_bias = nn.Parameter(torch.zeros(1, 1, d_model))

        def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().forward(query + self.relative_position_bias, key, value, mask)

    assert "relative_position_bias" not in _layout(WithTable).names


def test_a_module_that_makes_its_parameters_at_the_first_call_is_refused() -> None:
    class Lazy(nn.Module):
        def __init__(self, d_model: int, n_heads: int) -> None:
            super().__init__()
            self.qkv, self.proj = nn.LazyLinear(3 * d_model), nn.LazyLinear(d_model)

    assert "qkv.weight has no shape before the first call" in _refused(Lazy)


def test_a_wider_result_without_an_output_projection_is_refused() -> None:
    class Doubled(Habitual):
        stored = linears("query key value").stored

        def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
            return super().forward(query, key, value, mask).repeat(1, 1, 2)

    assert "nothing was found for output, and the result is 64 wide, not 32" in _refused(Doubled)
