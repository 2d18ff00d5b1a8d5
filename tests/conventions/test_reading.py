"""What a refusal or a wrong answer is told to declare."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attention_conformance import Outcome, check


def _attend(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None) -> Tensor:
    scores = query @ key.mT / query.size(-1) ** 0.5
    if hidden is not None:
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return scores.softmax(-1) @ value


def per_sample(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Take masks (B, L, S) only."""
    if mask is not None and mask.dim() != 3:
        raise ValueError("the mask is (B, L, S)")
    return _attend(query, key, value, None if mask is None else mask[:, None] == 0)


def of_keys(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Take masks (B, S) of padded keys only."""
    if mask is not None and mask.shape != (query.size(0), key.size(-2)):
        raise ValueError("the mask is (B, S)")
    return _attend(query, key, value, None if mask is None else mask[:, None, None] != 0)


def in_full(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
    """Take masks (B, H, L, S) only."""
    if mask is not None and mask.shape != (*query.shape[:3], key.size(-2)):
        raise ValueError("the mask is (B, H, L, S)")
    return _attend(query, key, value, None if mask is None else mask == 0)


@pytest.mark.parametrize(
    ("target", "declare"),
    [
        (per_sample, "mask_shapes=('BLS',)"),
        (of_keys, "mask_means='hide', mask_shapes=('BS',)"),
        (in_full, "mask_shapes=('BHLS',)"),
    ],
)
def test_a_shape_of_mask_that_is_refused_costs_one_failure(target: object, declare: str) -> None:
    how = {"layout": "BHLD", "leading": "equal", "second": None}
    records = list(check(target, select=["MASK", "fp32"], **how))  # type: ignore[arg-type]
    failed = [record.rule for record in records if record.failing]
    assert failed == ["MASK-001"]
    message = next(record.message for record in records if record.rule == "MASK-001")
    assert f"with {declare} everything agrees" in message


def test_a_shape_that_is_taken_and_wrong_is_no_matter_of_declaring() -> None:
    def first_row_for_all(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = None if mask is None else mask == 0
        if hidden is not None and hidden.dim() == 2:
            hidden = hidden[:1]
        return _attend(query, key, value, hidden)

    records = list(check(first_row_for_all, select=["MASK", "fp32"], layout="BHLD", second=None))
    assert all("mask_shapes=" not in record.message for record in records)
    assert sum(record.outcome is Outcome.FAILED for record in records) > 3
