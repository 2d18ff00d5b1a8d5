"""Factories get a width and a number of heads under the names that they have for them."""

from __future__ import annotations

from typing import Any

import pytest
from torch import Tensor, nn

from attention_conformance import check
from attention_conformance.calling.building import construction_of
from attention_conformance.errors import UnknownCall

from .made import module


def factory(signature: str) -> Any:
    return module("x", "x, x, x", init=signature, sizes="32, 4")


@pytest.mark.parametrize(
    ("signature", "text"),
    [
        ("d_model, n_heads", "f(32, 4)"),
        ("a, b", "f(32, 4)"),
        ("a, b=8, c=None", "f(32, 4)"),
        ("*args, **kwargs", "f(32, 4)"),
        ("embed_dim, num_heads, dropout=0.0, bias=True, batch_first=False", "f(32, 4, dropout=0.0, batch_first=True)"),
        ("num_heads, hidden_size", "f(num_heads=4, hidden_size=32)"),
        ("h, d_model, dropout=0.1", "f(h=4, d_model=32, dropout=0.0)"),
        ("*, dim, heads=8, dim_head=64", "f(dim=32, heads=4, dim_head=8)"),
        ("n_embd, n_head, block_size, attn_pdrop, resid_pdrop",
         "f(32, 4, block_size=2048, attn_pdrop=0.0, resid_pdrop=0.0)"),
        ("dim, head_dim=32, use_dropout=False", "f(dim=32, head_dim=8)"),
        ("query_dim, cross_attention_dim=None, heads=8", "f(query_dim=32, heads=4)"),
        ("query_dim, context_dim=768, heads=8", "f(query_dim=32, context_dim=32, heads=4)"),
        ("in_features, out_features, num_heads, num_kv_heads=None", "f(in_features=32, out_features=32, num_heads=4)"),
        ("dim, num_heads, num_kv_heads", "f(32, 4, num_kv_heads=4)"),
        ("d_model, n_heads, dropout=None, max_len=512", "f(32, 4)"),
    ],
)  # fmt: skip
def test_a_factory_is_called_by_its_names(signature: str, text: str) -> None:
    assert construction_of(factory(signature), "theirs", "BLE").written("f", 32, 4) == text


def test_batch_first_follows_the_layout() -> None:
    made = construction_of(nn.MultiheadAttention, "torch", "LBE")
    assert made.written("f", 32, 4) == "f(32, 4, dropout=0.0, batch_first=False)"


@pytest.mark.parametrize(
    ("signature", "problem", "written"),
    [
        ("config", "nothing says what to pass for config", "return Module(config=...)"),
        ("config, layer_idx=None", "nothing says what to pass for config", "return Module(config=...)"),
        (
            "dim, num_heads, rope",
            "nothing says what to pass for rope",
            "Module(dim=d_model, num_heads=heads, rope=...)",
        ),
        ("dim", "no argument is a number of heads", "return Module(dim=d_model)"),
        ("num_heads, name", "nothing says what to pass for name", "return Module(num_heads=heads, name=...)"),
    ],
)
def test_what_is_not_recognised_shows_the_factory_to_write(signature: str, problem: str, written: str) -> None:
    with pytest.raises(UnknownCall) as raised:
        construction_of(factory(signature), "theirs", "BLE").build(factory(signature), 32, 4)
    assert problem in str(raised.value)
    assert written in str(raised.value)
    assert 'register(build, reference="MultiHeadAttention")' in str(raised.value)


def test_the_error_is_a_record() -> None:
    (record,) = check(factory("config"), select=["SHAPE-001", "fp32"])
    assert record.outcome == "error"
    assert "def build(d_model, heads): return Module(config=...)" in record.message


def test_a_dropout_is_switched_off_so_that_results_can_be_compared() -> None:
    init, sizes = "dim, num_heads, dropout=0.5", "dim, num_heads); self.rate = (dropout"
    dropping = module("x", "x, x, x, dropout=self.rate", init=init, sizes=sizes)
    records = list(check(dropping, mask=(), select=["SHAPE-006", "fp32"]))
    assert [record.outcome for record in records] == ["passed"]
    half = module("x", "x, x, x, dropout=0.5")
    assert [record.outcome for record in check(half, mask=(), select=["SHAPE-006", "fp32"])] == ["failed"]


def test_a_class_of_kernels_is_told_from_one_of_modules() -> None:
    class Kernel(nn.Module):
        def __init__(self, dropout: float = 0.0, *, causal: bool = False, heads: int | None = None) -> None:
            super().__init__()

        def forward(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
            return q

    (record,) = check(Kernel, select=["SHAPE-001", "fp32"])
    assert "If its instances are kernels, register one of them: register(Kernel())" in record.message
