"""A fault is not taken for a convention: under what the probe finds, faulty programs are still rejected."""

from __future__ import annotations

import torch
from torch import Tensor

from attention_conformance.implementation import describe
from attention_conformance.probing import Profile, probe


def _attend(query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None = None) -> Tensor:
    scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
    if hidden is not None:
        scores = scores.masked_fill(hidden, torch.finfo(scores.dtype).min)
    return scores.softmax(-1) @ value


def _found(function: object, **declared: object) -> Profile:
    return probe(describe(function, **declared))  # type: ignore[arg-type]


def _open(profile: Profile) -> set[str]:
    return {finding.capability for finding in profile.open}


def test_a_mask_that_is_ignored_stays_to_be_judged() -> None:
    def ignores(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return _attend(query, key, value)

    profile = _found(ignores)
    assert profile.answers["mask"][:2] == ("bool", "number")
    assert "mask" in _open(profile)
    assert "bool is ignored" in next(f.evidence for f in profile.findings if f.capability == "mask")


def test_a_mask_that_is_applied_after_the_softmax_is_named() -> None:
    def late(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        weights = (query @ key.transpose(-2, -1) / query.size(-1) ** 0.5).softmax(-1)
        return (weights if mask is None else weights * mask) @ value

    profile = _found(late)
    assert "mask" in _open(profile)
    assert "mask_after_softmax" in next(f.evidence for f in profile.findings if f.capability == "mask")


def test_numbers_that_are_added_are_not_offered() -> None:
    def adds(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = query @ key.transpose(-2, -1) / query.size(-1) ** 0.5
        return (scores if mask is None else scores + mask).softmax(-1) @ value

    profile = _found(adds)
    assert profile.answers["mask"] == ("additive",)
    assert profile.answers["empty_row"] == "nan"
    assert "bool is added to the scores" in next(f.evidence for f in profile.findings if f.capability == "mask")


def test_a_causal_option_without_effect_stays_to_be_judged() -> None:
    def ignores(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, is_causal: bool = False
    ) -> Tensor:
        return _attend(query, key, value, None if mask is None else mask == 0)

    profile = _found(ignores)
    assert profile.answers["causal"] == "top-left"
    assert "causal" in _open(profile)


def test_an_option_that_is_swallowed_is_not_offered() -> None:
    def swallows(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, **options: object) -> Tensor:
        return _attend(query, key, value, None if mask is None else mask == 0)

    answers = _found(swallows).answers
    assert answers["causal"] is None
    assert answers["options"] == ()


def test_a_scale_that_no_formula_gives_stays_to_be_judged() -> None:
    def scales(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return _attend(query / query.size(-1), key, value, None if mask is None else mask == 0)

    profile = _found(scales)
    assert profile.answers["scale"] == "1/sqrt(D)"
    assert "scale" in _open(profile)


def test_a_wrong_answer_at_one_width_stays_to_be_judged() -> None:
    def cuts(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        output = _attend(query, key, value, None if mask is None else mask == 0)
        return output if value.size(-1) == key.size(-1) else output.flip(-1)

    assert _found(cuts).answers["value_width"] == "any"


def test_two_answers_for_an_empty_row_are_told() -> None:
    def differs(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        hidden = None if mask is None else mask == 0
        output = _attend(query, key, value, hidden)
        if hidden is None or torch.is_grad_enabled():
            return output
        return output.masked_fill(hidden.expand(*output.shape[:-1], key.size(-2)).all(-1, keepdim=True), 0.0)

    profile = _found(differs)
    assert "empty_row" in _open(profile)
    evidence = next(f.evidence for f in profile.findings if f.capability == "empty_row")
    assert "train: uniform" in evidence
    assert "eval: zeros" in evidence


def test_a_call_that_nothing_answers_is_told() -> None:
    def refuses(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        raise ValueError("never")

    profile = _found(refuses)
    assert "layout" in _open(profile)
    assert "no call was answered: it raised ValueError: never" in profile.findings[0].evidence


def test_a_wrong_shape_at_one_width_stays_to_be_judged() -> None:
    def as_wide_as_the_key(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        output = _attend(query, key, value, None if mask is None else mask == 0)
        return output if value.size(-1) == key.size(-1) else output.new_zeros(*output.shape[:-1], key.size(-1))

    profile = _found(as_wide_as_the_key)
    assert profile.answers["inputs"] == "cross"
    assert profile.answers["value_width"] == "any"
    assert _open(profile) == {"value_width"}


def test_axes_are_not_merged_to_hide_a_fault_of_heads() -> None:
    def rolls(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        output = _attend(query, key, value, None if mask is None else mask == 0)
        return output.roll(1, -3) if output.dim() > 3 else output

    assert "layout" in _open(_found(rolls))


def test_a_value_that_is_not_read_is_no_context() -> None:
    def reads_the_key_twice(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return _attend(query, key, key, None if mask is None else mask == 0)

    profile = _found(reads_the_key_twice)
    assert profile.answers["inputs"] == "cross"
    assert "layout" in _open(profile)


def test_an_additive_mask_with_a_known_fault_stays_to_be_judged() -> None:
    def scales_the_mask(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        scores = query @ key.transpose(-2, -1)
        if mask is not None and mask.dtype == torch.bool:
            scores = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        elif mask is not None:
            scores = scores + mask
        return (scores / query.size(-1) ** 0.5).softmax(-1) @ value

    profile = _found(scales_the_mask)
    assert "additive" in profile.answers["mask"]
    assert "mask" in _open(profile)
