"""Ways of writing attention that are in use and were blamed once: no rule speaks against them."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from attention_conformance import check


def _blamed(target: Any, **declared: Any) -> list[tuple[str, str]]:
    return [(str(record.key), record.message) for record in check(target, **declared) if record.bad]


def added_lowest_number(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Adds the lowest number of the dtype to hidden scores, which leaves an empty row uniform and its gradient alive."""
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores + (mask == 0).to(scores.dtype) * torch.finfo(scores.dtype).min
    return scores.softmax(-1) @ value


def _plain(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return scores.softmax(-1) @ value


def checkpointed(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
    """Recomputes itself in the backward pass, in a way that allows no torch.autograd.grad."""
    if not torch.is_grad_enabled():
        return _plain(query, key, value, mask)
    return checkpoint(_plain, query, key, value, mask, use_reentrant=True)


def of_one_tensor(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attends to itself."""
    if x.size(-2) == 0:
        raise ValueError("nothing to attend to")
    return _plain(x, x, x, mask)


class NothingToMerge(nn.Module):
    """Has no output projection where there is one head."""

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        self.heads = n_heads
        self.q_proj, self.k_proj, self.v_proj = (nn.Linear(d_model, d_model) for _ in range(3))
        self.out_proj = nn.Linear(d_model, d_model) if n_heads > 1 else nn.Identity()

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Any:
        split = (
            projection(tensor).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for projection, tensor in ((self.q_proj, query), (self.k_proj, key), (self.v_proj, value))
        )
        return self.out_proj(_plain(*split, mask).transpose(1, 2).flatten(2))


def test_an_added_fill_is_not_blamed_for_the_gradient_of_its_empty_rows() -> None:
    assert not _blamed(added_lowest_number, second=None, dtypes=("fp64", "fp32"))


def test_a_reentrant_checkpoint_is_not_blamed() -> None:
    assert not _blamed(checkpointed, second=None, gradient="once", dtypes=("fp64",))


def test_a_kernel_of_one_tensor_is_not_blamed() -> None:
    assert not _blamed(of_one_tensor, inputs="self", second=None, no_keys="error", dtypes=("fp32",))


def test_a_module_that_projects_less_with_one_head_is_not_blamed() -> None:
    declared = {"second": None, "no_keys": "unspecified", "dtypes": ("fp32",)}
    assert not _blamed(NothingToMerge, **declared)


def test_a_kernel_of_one_tensor_is_asked_for_no_smaller_key() -> None:
    grouped = check(of_one_tensor, inputs="self", heads="grouped", second=None, dtypes=("fp32",), select=("OPTIONS",))
    assert not [record.key for record in grouped if record.bad]


def turning(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False) -> Tensor:
    """Aligns bottom-right while there are more keys and top-left while there are more queries."""
    if causal:
        offset = max(key.size(-2) - query.size(-2), 0)
        mask = torch.ones(query.size(-2), key.size(-2), dtype=torch.bool).tril(offset)
    return _plain(query, key, value, mask)


def test_no_declaration_is_offered_that_fits_one_case_only() -> None:
    for declared in ("top-left", "bottom-right"):
        records = check(turning, second=None, causal=declared, dtypes=("fp32",), select=("CAUSAL-001",))
        failed = [record for record in records if record.bad]
        assert failed
        assert not any(text.startswith("declare") for record in failed for text in record.diagnosis)
