"""Every quirk of document 2 is so: each function fails if its quirk goes away."""

from __future__ import annotations

import math
from inspect import signature

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from attention_conformance.reference import SelfAttention
from attention_conformance.reference.document2_quirks import DOCUMENT_2
from tests.reference.listings import Calls, Show, build, listing_text, make_identity, normal, showing

SHOWN: dict[str, Show] = {}
shows = showing(SHOWN)

X = normal(2, 5, 8)
HIDE_0 = torch.tensor([0, 1, 1, 1, 1])


def module(width: int = 8, heads: int = 2, dtype: torch.dtype = torch.float64) -> SelfAttention:
    return build(SelfAttention, width, heads, dtype)


def plain(width: int = 8, heads: int = 2, dtype: torch.dtype = torch.float64) -> SelfAttention:
    """Return a module whose four layers return their input, so that its scores can be written down."""
    attention = module(width, heads, dtype)
    make_identity(attention.values, attention.keys, attention.queries, attention.fc_out)
    return attention


def by_head(attention: SelfAttention, values: Tensor) -> Tensor:
    """Return the projected values with the heads joined again."""
    projected: Tensor = attention.values(values.reshape(*values.shape[:2], attention.heads, -1))
    return projected.flatten(-2)


def softmax_of(
    attention: SelfAttention, values: Tensor, keys: Tensor, query: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return what goes into the softmax of one forward pass and what comes out."""
    with Calls(torch.softmax) as softmax:
        attention(values, keys, query, mask)
    ((arguments, weights),) = softmax.seen
    return arguments[0], weights


@pytest.mark.parametrize("identifier", [quirk.id for quirk in DOCUMENT_2])
def test_quirk_is_shown(identifier: str) -> None:
    SHOWN[identifier]()


def test_every_quirk_is_shown_and_nothing_else() -> None:
    assert sorted(SHOWN) == sorted(quirk.id for quirk in DOCUMENT_2)


@shows("Q2-single-head-by-title")
def _() -> None:
    _, weights = softmax_of(module(), X, X, X, None)
    assert weights.shape == (2, 2, 5, 5)
    assert not torch.allclose(weights[:, 0], weights[:, 1]), "two heads, two softmaxes"


@shows("Q2-prose-omits-output-layer")
def _() -> None:
    attention = module()
    assert [type(layer) for layer in attention.children()] == [nn.Linear] * 4
    with Calls(torch.einsum) as einsum:
        output = attention(X, X, X, None)
    joined = einsum.seen[-1][1].flatten(-2)
    assert_close(output, attention.fc_out(joined))
    assert not torch.allclose(output, joined)


@shows("Q2-no-dropout")
def _() -> None:
    attention = module()
    assert_close(attention.train()(X, X, X, None), attention.eval()(X, X, X, None), rtol=0, atol=0)
    assert {type(part) for part in attention.children()} == {nn.Linear}
    assert list(signature(SelfAttention).parameters) == ["embed_size", "heads"]


@shows("Q2-assert-vanishes")
def _() -> None:
    with pytest.raises(AssertionError):
        module(10, 4)
    names: dict[str, type[SelfAttention]] = {}
    exec(compile(listing_text("self_attention"), "self_attention", "exec", optimize=1), names)  # as python -O does
    attention = build(names["SelfAttention"], 10, 4)
    with pytest.raises(RuntimeError, match="shape"):
        attention(*(normal(2, 5, 10),) * 3, None)
    assert attention(X, X, X, None).shape == (2, 5, 10), "width 8 in, width 10 out"


@shows("Q2-projections-shared-by-heads")
def _() -> None:
    attention = module()
    assert attention.queries.weight.shape == attention.keys.weight.shape == attention.values.weight.shape == (4, 4)
    make_identity(attention.fc_out)
    assert_close(attention(*(X.roll(4, -1),) * 3, None), attention(X, X, X, None).roll(4, -1))


@shows("Q2-projections-without-bias")
def _() -> None:
    attention = module()
    assert [name for name, _ in attention.named_parameters() if "bias" in name] == ["fc_out.bias"]
    zeros = torch.zeros_like(X)
    assert_close(attention(zeros, zeros, zeros, None), attention.fc_out.bias.expand(2, 5, 8))


@shows("Q2-self-by-name")
def _() -> None:
    attention, query = module(), normal(2, 3, 8, seed=2)
    output = attention(X, X, query, None)
    assert output.shape == (2, 3, 8)
    assert not torch.allclose(output, attention(query, query, query, None))


@shows("Q2-argument-order")
def _() -> None:
    assert list(signature(SelfAttention.forward).parameters) == ["self", "values", "keys", "query", "mask"]
    attention, keys, values = module(), normal(2, 5, 8, seed=2), normal(2, 5, 8, seed=3)
    named = attention(query=X, keys=keys, values=values, mask=None)
    assert_close(attention(values, keys, X, None), named)
    usual = attention(X, keys, values, None)
    assert usual.shape == named.shape
    assert not torch.allclose(usual, named)


@shows("Q2-mask-required")
def _() -> None:
    with pytest.raises(TypeError, match="mask"):
        module()(X, X, X)  # type: ignore[call-arg]
    assert module()(X, X, X, None).shape == X.shape


@shows("Q2-head-sees-own-slice")
def _() -> None:
    attention, other = module(), X.clone()
    make_identity(attention.fc_out)
    other[..., 4:] += normal(2, 5, 4, seed=2)
    before, after = attention(X, X, X, None), attention(other, other, other, None)
    assert_close(after[..., :4], before[..., :4])
    assert not torch.allclose(after[..., 4:], before[..., 4:])


@shows("Q2-batch-and-width-trade")
def _() -> None:
    attention, narrow = module(), normal(4, 5, 4, seed=2)
    wide = narrow.reshape(2, 5, 8)
    assert_close(attention(narrow, narrow, X, None), attention(wide, wide, X, None))


@shows("Q2-einsum-list")
def _() -> None:
    with Calls(torch.einsum) as einsum:
        module()(X, X, X, None)
    given = [arguments[1:] for arguments, _ in einsum.seen if isinstance(arguments[1], list)]
    assert [len(operands) for (operands,) in given] == [2, 2]
    with pytest.raises(ValueError, match="operands"):
        np.einsum("nqhd,nkhd->nhqk", [x.detach().numpy() for x in given[0][0]])


@shows("Q2-additive-mask-inverted")
def _() -> None:
    additive = torch.tensor([-math.inf, 0, 0, 0, 0])
    assert (softmax_of(module(), X, X, X, additive)[1][..., 0] == 1).all(), "all weight on the hidden key"
    assert (softmax_of(module(), X, X, X, additive == 0)[1][..., 0] == 0).all()


@shows("Q2-any-nonzero-attends")
def _() -> None:
    odd = torch.tensor([0.5, -1, math.nan, 1e-30, math.inf])
    assert_close(module()(X, X, X, odd), module()(X, X, X, None), rtol=0, atol=0)


@shows("Q2-fill-before-scaling")
def _() -> None:
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        x = X.to(dtype)
        scores, weights = softmax_of(module(dtype=dtype), x, x, x, HIDE_0)
        fill = torch.tensor(-1e20, dtype=dtype) / math.sqrt(8)
        assert_close(scores[..., 0], fill.expand(2, 2, 5))
        assert (weights[..., 0] == 0).all()
    query = torch.zeros(1, 1, 8, dtype=torch.float64)
    query[..., ::4] = -2e20  # a score of -2e20 is -7e19 once scaled: it loses to the -1e20 that was not
    ones = torch.ones(1, 5, 8, dtype=torch.float64)
    assert (softmax_of(plain(), ones, ones, query, HIDE_0)[1][..., 0] == 1).all()


@shows("Q2-fp16-mask-raises")
def _() -> None:
    attention, x = module(dtype=torch.float16), X.half()
    assert attention(x, x, x, None).isfinite().all()
    with pytest.raises(RuntimeError, match="overflow"):
        attention(x, x, x, torch.ones(5, 5))


@shows("Q2-empty-row-uniform")
def _() -> None:
    attention = module()
    mean = by_head(attention, X).mean(1, keepdim=True).expand(2, 5, 8)
    assert_close(attention(X, X, X, torch.zeros(5, 5)), attention.fc_out(mean))


@shows("Q2-mask-without-head-axis")
def _() -> None:
    attention, mask = module(), normal(2, 5, 5, seed=7) > -0.5
    read = attention(X, X, X, mask)
    assert_close(read, attention(X, X, X, mask[None, :]))
    assert not torch.allclose(read, attention(X, X, X, mask[:, None])), "one mask per sample is meant"
    with pytest.raises(RuntimeError):
        attention(*(normal(3, 5, 8),) * 3, torch.ones(3, 5, 5))


@shows("Q2-padding-mask-without-axes")
def _() -> None:
    attention, x, mask = module(), normal(5, 5, 8), torch.ones(5, 5).tril()
    read = attention(x, x, x, mask)
    assert_close(read, attention(x, x, x, mask[None, None]))
    assert not torch.allclose(read, attention(x, x, x, mask[:, None, None])), "padding per sample is meant"
    with pytest.raises(RuntimeError):
        attention(X, X, X, torch.ones(2, 5))


@shows("Q2-scale-from-embed-size")
def _() -> None:
    with Calls(torch.einsum) as einsum:
        scores, _ = softmax_of(module(8, 2), X, X, X, None)
    products = einsum.seen[0][1]
    assert_close(scores, products / math.sqrt(8))
    assert_close(scores * math.sqrt(2), products / math.sqrt(4))  # sqrt(heads) from the head's own scale


@shows("Q2-fp16-score-overflow")
def _() -> None:
    attention, ones = plain(32, 2, torch.float16), torch.ones(1, 3, 32, dtype=torch.float16)
    assert attention(ones, 64 * ones, 64 * ones, None).isnan().all()
    assert attention(ones, 64 * ones, 8 * ones, None).isfinite().all(), "the scaled scores fit"


@shows("Q2-lengths-of-one-broadcast")
def _() -> None:
    attention = module()
    projected = by_head(attention, X)
    total = projected.sum(1, keepdim=True).expand(2, 5, 8)
    assert_close(attention(X, X[:, :1], X, None), attention.fc_out(total))
    assert_close(attention(X[:, :1], X, X, None), attention.fc_out(projected[:, :1].expand(2, 5, 8)))
    with pytest.raises(RuntimeError):
        attention(X, X[:, :2], X, None)


@shows("Q2-nan-in-masked-value")
def _() -> None:
    for poison in (math.nan, math.inf):
        values = X.clone()
        values[:, 0] = poison
        assert module()(values, X, X, HIDE_0).isnan().all()


@shows("Q2-nan-in-masked-key-gradient")
def _() -> None:
    keys, query = X.clone(), X.clone().requires_grad_()
    keys[:, 0] = math.nan
    output = module()(X, keys, query, HIDE_0)
    assert output.isfinite().all()
    (gradient,) = torch.autograd.grad(output.sum(), query)
    assert gradient.isnan().all()


@shows("Q2-no-keys-bias")
def _() -> None:
    attention, none = module(), normal(2, 0, 8)
    assert_close(attention(none, none, X, None), attention.fc_out.bias.expand(2, 5, 8))
    assert not torch.allclose(attention(X, X, X, torch.zeros(5, 5)), attention.fc_out.bias.expand(2, 5, 8))


@shows("Q2-no-weights")
def _() -> None:
    assert isinstance(module()(X, X, X, None), Tensor)
