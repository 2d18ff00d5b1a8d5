"""Every quirk of document 1 is so: each function fails if its quirk goes away."""

from __future__ import annotations

import math
from inspect import signature

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from attention_conformance.reference import MultiHeadAttention
from attention_conformance.reference.attention import attention
from attention_conformance.reference.document1_quirks import DOCUMENT_1
from tests.reference.listings import Show, build, listing_text, normal, showing

SHOWN: dict[str, Show] = {}
shows = showing(SHOWN)

Q, K, V = normal(3, 4), normal(5, 4, seed=2), normal(5, 6, seed=3)
ROW_0_EMPTY = torch.tensor([[0, 0, 0, 0, 0], [0, 1, 1, 1, 1], [0, 0, 1, 0, 1]])


def module(width: int = 8, heads: int = 2) -> MultiHeadAttention:
    return build(MultiHeadAttention, width, heads)


def itself(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return x, x, x


@pytest.mark.parametrize("identifier", [quirk.id for quirk in DOCUMENT_1])
def test_quirk_is_shown(identifier: str) -> None:
    SHOWN[identifier]()


def test_every_quirk_is_shown_and_nothing_else() -> None:
    assert sorted(SHOWN) == sorted(quirk.id for quirk in DOCUMENT_1)


@shows("Q1-missing-import")
def _() -> None:
    first_listing = "import torch.nn.functional as F\nimport math\n"
    complete = listing_text("attention")
    assert complete.startswith("import torch\n" + first_listing)
    exec(complete, {})
    with pytest.raises(NameError, match="torch"):
        exec(complete.removeprefix("import torch\n"), {})


@shows("Q1-fragments-do-not-parse")
def _() -> None:
    section_2 = 'def attention(Q, K, V, mask=None):\n"""缩放点积注意力"""\n'
    section_3 = (
        "class MultiHeadAttention(torch.nn.Module):\n"
        "    def __init__(self, d_model, n_heads):\n"
        "        super().__init__()\n"
        "       self.d_model = d_model\n"
    )
    for fragment in (section_2, section_3):
        with pytest.raises(IndentationError):
            compile(fragment, "fragment", "exec")


@shows("Q1-prose-calls-heads-shared")
def _() -> None:
    mha, x = module(), normal(1, 5, 8)
    before = mha(*itself(x))[1]
    with torch.no_grad():
        mha.W_q.weight[: mha.d_k] += 1
    after = mha(*itself(x))[1]
    assert not torch.allclose(after[:, 0], before[:, 0])
    assert_close(after[:, 1], before[:, 1])


@shows("Q1-fp16-score-overflow")
def _() -> None:
    ones = torch.ones(3, 64, dtype=torch.float16)
    output, _ = attention(64 * ones, 64 * ones, ones)
    assert output.isnan().all()
    assert attention(8 * ones, 64 * ones, ones)[0].isfinite().all(), "the scaled scores fit"


@shows("Q1-zero-width-nan")
def _() -> None:
    output, weights = attention(Q[:, :0], K[:, :0], V)
    assert output.isnan().all()
    assert weights.isnan().all()


@shows("Q1-additive-mask-inverted")
def _() -> None:
    additive = torch.tensor([-math.inf, 0, 0, 0, 0])
    assert (attention(Q, K, V, additive)[1][:, 0] == 1).all(), "all weight on the hidden key"
    assert (attention(Q, K, V, additive == 0)[1][:, 0] == 0).all()


@shows("Q1-any-nonzero-attends")
def _() -> None:
    odd = torch.tensor([0.5, -1, math.nan, 1e-30, math.inf])
    assert_close(attention(Q, K, V, odd), attention(Q, K, V), rtol=0, atol=0)


@shows("Q1-fp16-mask-raises")
def _() -> None:
    q, k, v = (x.half() for x in (Q, K, V))
    assert attention(q, k, v)[0].dtype == torch.float16
    with pytest.raises(RuntimeError, match="overflow"):
        attention(q, k, v, torch.ones(3, 5))
    assert attention(Q.bfloat16(), K.bfloat16(), V.bfloat16(), torch.ones(3, 5))[0].isfinite().all()


@shows("Q1-empty-row-uniform")
def _() -> None:
    output, weights = attention(Q, K, V, ROW_0_EMPTY)
    assert_close(weights[0], torch.full((5,), 1 / 5, dtype=torch.float64))
    assert_close(output[0], V.mean(0))
    assert (weights[1:][ROW_0_EMPTY[1:] == 0] == 0).all(), "elsewhere masked weights are 0"


@shows("Q1-empty-row-trains-masked-values")
def _() -> None:
    q, k, v = (x.clone().requires_grad_() for x in (Q, K, V))
    output = attention(q, k, v, torch.zeros(3, 5))[0]
    of_query, of_key, of_value = torch.autograd.grad(output.sum(), (q, k, v))
    assert_close(of_value, torch.full_like(V, 3 / 5))
    assert not of_query.any()
    assert not of_key.any()


@shows("Q1-real-score-below-fill")
def _() -> None:
    one = torch.ones(1, 1, dtype=torch.float64)
    keys = torch.tensor([[-2e9], [-3e9], [0.0]], dtype=torch.float64)
    _, weights = attention(one, keys, V[:3], torch.tensor([1, 1, 0]))
    assert weights.tolist() == [[0, 0, 1]]


@shows("Q1-mask-adds-axes")
def _() -> None:
    output, weights = attention(Q, K, V, torch.ones(7, 1, 3, 5))
    assert (output.shape, weights.shape) == ((7, 1, 3, 6), (7, 1, 3, 5))
    assert attention(Q[:1], K, V, torch.ones(4, 5))[0].shape == (4, 6), "one query, four rows of output"


@shows("Q1-nan-in-masked-value")
def _() -> None:
    for poison in (math.nan, math.inf):
        values = V.clone()
        values[0] = poison
        output, weights = attention(Q, K, values, ROW_0_EMPTY[1:2])
        assert (weights[:, 0] == 0).all()
        assert output.isnan().all()


@shows("Q1-nan-in-masked-key-gradient")
def _() -> None:
    q, keys = Q.clone().requires_grad_(), K.clone()
    keys[0] = math.nan
    output, _ = attention(q, keys, V, ROW_0_EMPTY[1:2])
    assert output.isfinite().all()
    (gradient,) = torch.autograd.grad(output.sum(), q)
    assert gradient.isnan().all()


@shows("Q1-no-keys-zeros")
def _() -> None:
    assert not attention(Q, K[:0], V[:0])[0].any()
    assert attention(Q, K, V, torch.zeros(3, 5))[0].all(), "hiding all keys gives their mean"
    mha = module()
    output, _ = mha(normal(2, 3, 8), *(normal(2, 0, 8),) * 2)
    assert_close(output, mha.W_o.bias.expand(2, 3, 8))


@shows("Q1-no-dropout")
def _() -> None:
    mha, x = module(), normal(2, 5, 8)
    assert_close(mha.train()(*itself(x)), mha.eval()(*itself(x)), rtol=0, atol=0)
    assert {type(part) for part in mha.children()} == {nn.Linear}
    assert list(signature(MultiHeadAttention).parameters) == ["d_model", "n_heads"]


@shows("Q1-indivisible-width")
def _() -> None:
    mha = module(10, 4)
    with pytest.raises(RuntimeError):
        mha(*itself(normal(1, 3, 10)))
    output, weights = mha(*itself(normal(1, 4, 10)))
    assert (output.shape, weights.shape) == ((1, 4, 10), (1, 4, 5, 5))


@shows("Q1-key-bias-without-effect")
def _() -> None:
    mha, x = module(), normal(2, 5, 8)
    before = mha(*itself(x))[0]
    of_key, of_query = torch.autograd.grad(before.square().sum(), (mha.W_k.bias, mha.W_q.bias))
    assert of_key.abs().max() < 1e-12 < 1e-3 < of_query.abs().max()
    with torch.no_grad():
        mha.W_k.bias.add_(3 * normal(8))
    assert_close(mha(*itself(x))[0], before, rtol=1e-12, atol=1e-12)


@shows("Q1-unbatched-input")
def _() -> None:
    mha, x = module(), normal(5, 8)
    output, weights = mha(*itself(x))
    assert_close(weights, torch.ones(5, 2, 1, 1, dtype=torch.float64))
    assert_close(output, mha.W_o(mha.W_v(x))[:, None])


@shows("Q1-empty-batch-raises")
def _() -> None:
    with pytest.raises(RuntimeError, match="ambiguous"):
        module()(*itself(normal(0, 5, 8)))
    assert attention(*itself(normal(0, 5, 8)))[0].shape == (0, 5, 8)


@shows("Q1-extra-axes-folded")
def _() -> None:
    mha, x = module(), normal(2, 3, 5, 8)
    assert_close(mha(*itself(x)), mha(*itself(x.reshape(2, 15, 8))))


@shows("Q1-key-batch-folded")
def _() -> None:
    mha, query, key = module(), normal(2, 3, 8), normal(4, 5, 8, seed=2)
    output, weights = mha(query, key, key)
    assert (output.shape, weights.shape) == ((2, 3, 8), (2, 2, 3, 10))
    assert_close((output, weights), mha(query, *(key.reshape(2, 10, 8),) * 2))


@shows("Q1-single-key-batch-cut")
def _() -> None:
    mha, query, key = module(), normal(2, 3, 8), normal(1, 6, 8, seed=2)
    halves = torch.cat((key[:, :3], key[:, 3:]))
    assert_close(mha(query, key, key), mha(query, halves, halves))
    with pytest.raises(RuntimeError):
        mha(query, key[:, :5], key[:, :5])


@shows("Q1-mask-without-head-axis")
def _() -> None:
    mha, x, mask = module(), normal(2, 5, 8), (normal(2, 5, 5, seed=7) > -0.5)
    read = mha(*itself(x), mask)[0]
    assert_close(read, mha(*itself(x), mask[None, :])[0])
    assert not torch.allclose(read, mha(*itself(x), mask[:, None])[0]), "one mask per sample is meant"
    with pytest.raises(RuntimeError):
        mha(*itself(normal(3, 5, 8)), torch.ones(3, 5, 5))


@shows("Q1-padding-mask-without-axes")
def _() -> None:
    mha, x, mask = module(), normal(5, 5, 8), torch.ones(5, 5).tril()
    read = mha(*itself(x), mask)[0]
    assert_close(read, mha(*itself(x), mask[None, None])[0])
    assert not torch.allclose(read, mha(*itself(x), mask[:, None, None])[0]), "padding per sample is meant"
    with pytest.raises(RuntimeError):
        mha(*itself(normal(3, 5, 8)), torch.ones(3, 5))


@shows("Q1-mask-multiplies-query")
def _() -> None:
    mha, query, key = module(), normal(2, 1, 8), normal(2, 4, 8, seed=2)
    output, _ = mha(query, key, key, torch.ones(4, 4).tril())
    assert output.shape == (2, 4, 8), "one query, four positions"
    assert_close(output[:, 3:], mha(query, key, key)[0])
    assert not torch.allclose(output[:, :1], output[:, 3:])
    assert mha(*itself(normal(1, 5, 8)), torch.ones(4, 1, 1, 5))[0].shape == (1, 20, 8)
