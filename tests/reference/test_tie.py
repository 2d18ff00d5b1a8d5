"""Document 2's module is document 1's with special weights: each listing checks the other."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from attention_conformance.reference import MultiHeadAttention, SelfAttention
from tests.reference.listings import build, normal

SIZES = [  # batch B, heads H, head width, queries L, keys S
    (1, 1, 1, 1, 1),
    (2, 1, 6, 5, 7),
    (2, 4, 2, 5, 7),
    (3, 2, 5, 7, 4),
    (2, 3, 8, 17, 33),
]


@torch.no_grad()
def same_as_document_1(attention: SelfAttention) -> MultiHeadAttention:
    """Return the `MultiHeadAttention` that computes what `attention` computes.

    A projection W shared by H heads is the block diagonal kron(I_H, W). Dividing the query's by sqrt(H) turns
    document 1's scale 1/sqrt(d_k) into document 2's 1/sqrt(embed_size).
    """
    heads = attention.heads
    mha = build(MultiHeadAttention, attention.embed_size, heads)
    shared = ((mha.W_q, attention.queries), (mha.W_k, attention.keys), (mha.W_v, attention.values))
    for layer, projection in shared:
        layer.weight.copy_(torch.kron(torch.eye(heads, dtype=torch.float64), projection.weight))
        nn.init.zeros_(layer.bias)
    mha.W_q.weight /= math.sqrt(heads)
    mha.W_o.load_state_dict(attention.fc_out.state_dict())
    return mha


def mask_without_empty_row(*shape: int) -> Tensor:
    """Return a random mask that hides about half, and attends to one key at least in every row."""
    drawn = normal(*shape, seed=9)
    mask = (drawn > 0) | (drawn == drawn.amax(-1, keepdim=True))
    assert mask.any(-1).all()
    return mask


@pytest.mark.parametrize("masked", [None, "LS", "B11S", "BHLS"])
@pytest.mark.parametrize(("B", "H", "width", "L", "S"), SIZES)
def test_self_attention_is_multi_head_attention_with_block_diagonal_weights(
    B: int, H: int, width: int, L: int, S: int, masked: str | None
) -> None:
    attention = build(SelfAttention, H * width, H)
    query, keys, values = (normal(B, n, H * width, seed=n + i) for i, n in enumerate((L, S, S)))
    shapes = {"LS": (L, S), "B11S": (B, 1, 1, S), "BHLS": (B, H, L, S)}
    mask = None if masked is None else mask_without_empty_row(*shapes[masked])
    expected, _ = same_as_document_1(attention)(query, keys, values, mask)
    assert_close(attention(values, keys, query, mask), expected, rtol=1e-12, atol=1e-13)


def test_the_tie_needs_the_scale() -> None:
    attention, x = build(SelfAttention, 8, 4), normal(2, 5, 8)
    mha = same_as_document_1(attention)
    with torch.no_grad():
        mha.W_q.weight *= math.sqrt(attention.heads)
    assert not torch.allclose(attention(x, x, x, None), mha(x, x, x)[0], rtol=1e-3, atol=1e-3)
