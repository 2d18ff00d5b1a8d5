"""What is sent: as the capabilities allow, and the same values for everybody."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attention_conformance.benching.contenders import MHA, SDPA, Contender, contenders, covered
from attention_conformance.benching.groups import DIRECTIONS, Group, NotMeasured, Plan, case_for, groups
from attention_conformance.benching.workload import Workload, draw
from attention_conformance.foreign.edge import WrongResult
from attention_conformance.implementation import Implementation, describe
from attention_conformance.loading import load
from attention_conformance.reference import MultiHeadAttention, SelfAttention
from attention_conformance.reference.attention import attention

PLAN = Plan(sizes=(6, 9), heads=2, width=4)


class Seen:
    """A kernel that remembers what it got."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.grad_modes: list[bool] = []

    def __call__(self, query: Any, key: Any, value: Any, mask: Any = None, **options: Any) -> Any:
        self.sent.append((query, key, value, mask, options))
        self.grad_modes.append(torch.is_grad_enabled())
        return query


def only(implementation: Implementation, **plan: Any) -> Group:
    """Return the first group of an implementation."""
    return groups(Plan(**{"sizes": (6,), "heads": 2, "width": 4, **plan}), implementation)[0]


def test_there_is_a_group_for_each_size_and_direction() -> None:
    found = groups(PLAN, describe(attention))
    assert [(each.direction, each.length) for each in found] == [(d, size) for d in DIRECTIONS for size in (6, 9)]
    assert {(each.batch, each.heads, each.width, each.dtype, each.mask) for each in found} == {
        (1, 2, 4, "fp32", "none")
    }
    assert len({each.name for each in found}) == 4


def test_without_gradients_there_is_no_backward_group() -> None:
    found = groups(PLAN, describe(attention, gradient="none"))
    assert {each.direction for each in found} == {"forward"}
    with pytest.raises(NotMeasured, match="gradient='none'"):
        groups(Plan(directions=("forward and backward",)), describe(attention, gradient="none"))


@pytest.mark.parametrize(
    ("dtypes", "chosen"), [(("fp64", "fp32"), "fp32"), (("bf16",), "bf16"), (("fp64", "bf16"), "fp64")]
)
def test_the_dtype_is_fp32_or_the_first_that_is_declared(dtypes: tuple[str, ...], chosen: str) -> None:
    assert only(describe(attention, dtypes=dtypes)).dtype == chosen


def test_a_dtype_that_is_not_declared_is_not_measured() -> None:
    with pytest.raises(NotMeasured, match=r"dtypes=\('fp32',\) does not hold fp16"):
        only(describe(attention, dtypes=("fp32",)), dtype="fp16")


def test_the_width_is_the_nearest_accepted_one_for_everybody() -> None:
    implementation = describe(attention, widths=(16, 32))
    group = only(implementation, width=64)
    assert group.width == 32
    for entry in contenders("it", implementation):
        Workload(entry.implementation, group)()


@pytest.mark.parametrize(
    ("declared", "told", "sends_mask"),
    [
        ({"causal": "top-left"}, "by option", False),
        ({}, "by mask", True),
        ({"causal": "always bottom-right", "mask": ()}, "always", False),
    ],
)
def test_causal_is_told_by_option_or_by_mask(declared: dict[str, Any], told: str, sends_mask: bool) -> None:
    seen = Seen()
    implementation = describe(seen, second=None, **declared)
    workload = Workload(implementation, only(implementation, mask="causal"))
    workload()
    mask, options = seen.sent[0][3:]
    assert workload.told == told
    assert (mask is not None) == sends_mask
    assert options == ({"causal": True} if told == "by option" else {})
    if sends_mask:
        assert torch.equal(mask.bool(), torch.ones(6, 6).tril().bool())


def test_one_that_is_always_causal_is_compared_with_causal_ones() -> None:
    implementation = describe(Seen(), causal="always top-left", mask=())
    group = only(implementation)
    assert group.mask == "causal"
    assert [case_for(group, entry.implementation)[1] for entry in contenders("it", implementation)] == [
        "always", "by mask", "by option",
    ]  # fmt: skip
    with pytest.raises(NotMeasured, match="mask=\\(\\)"):
        only(implementation, mask="random")


@pytest.mark.parametrize("mask", ["causal", "random"])
def test_a_mask_that_is_not_taken_is_not_measured(mask: str) -> None:
    with pytest.raises(NotMeasured, match=r"mask=\(\) rules out"):
        only(describe(attention, mask=()), mask=mask)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("layout", ["BLHD", "LBHD", "BHLD"])
def test_everybody_gets_the_same_values_each_in_its_layout(layout: str, direction: str) -> None:
    plain, own = Seen(), Seen()
    group = only(describe(own, layout=layout, second=None), directions=(direction,), batch=3)
    order = {"BLHD": (0, 2, 1, 3), "LBHD": (1, 2, 0, 3), "BHLD": (0, 1, 2, 3)}[layout]
    Workload(describe(plain, second=None), group)()
    Workload(describe(own, layout=layout, second=None), group)()
    for mine, theirs in zip(own.sent[0][:3], plain.sent[0][:3], strict=True):
        assert theirs.shape == (3, 2, 6, 4)
        assert torch.equal(mine.permute(order), theirs)
    assert own.grad_modes == [direction != "forward"]


def test_a_module_with_one_tensor_is_compared_on_one_tensor() -> None:
    implementation = load(MHA + "[self]")[0].implementation
    group = only(implementation)
    assert group.shared
    assert group.module
    delivered = Workload(describe(MultiHeadAttention), group)._delivered
    assert delivered.query is delivered.key is delivered.value


def test_a_kernel_that_takes_one_tensor_is_measured() -> None:
    def attend(values: torch.Tensor) -> torch.Tensor:
        return attention(values, values, values)[0]  # type: ignore[no-any-return]

    implementation = describe(attend, inputs="self", mask=(), second=None)
    gradients = Workload(implementation, only(implementation, directions=DIRECTIONS[1:]))()
    assert isinstance(gradients, tuple)
    assert len(gradients) == 1


@pytest.mark.parametrize(("target", "gradients"), [(attention, 3), (MultiHeadAttention, 3 + 8), (SelfAttention, 3 + 5)])
def test_backward_gives_the_gradients_of_inputs_and_parameters(target: Any, gradients: int) -> None:
    implementation = describe(target)
    found = Workload(implementation, only(implementation, directions=DIRECTIONS[1:]))()
    assert isinstance(found, tuple)
    assert len(found) == gradients
    assert all(gradient is not None and bool(gradient.any()) for gradient in found)


def test_forward_gives_an_output_outside_any_graph() -> None:
    output = Workload(describe(attention), only(describe(attention)))()
    assert isinstance(output, torch.Tensor)
    assert not output.requires_grad


def test_an_output_without_a_gradient_says_what_to_declare() -> None:
    def detached(query: Any, key: Any, value: Any, mask: Any = None) -> Any:
        return attention(query, key, value, mask)[0].detach()

    implementation = describe(detached)
    with pytest.raises(WrongResult, match="declare gradient='none'"):
        Workload(implementation, only(implementation, directions=DIRECTIONS[1:]))()


def test_nothing_of_the_size_of_the_scores_is_drawn() -> None:
    case, _ = case_for(only(describe(attention), sizes=(512,)), describe(attention))
    inputs = draw(case, False, "fp32")
    tensors = [value for value in vars(inputs).values() if isinstance(value, torch.Tensor)]
    assert max(tensor.numel() for tensor in tensors) == 2 * 512 * 4


# Who stands beside whom


def names(*entries: Contender) -> list[tuple[str, str, bool]]:
    return [(entry.name, entry.role, entry.asked) for entry in entries]


REFERENCE = "attention_conformance.reference.attention:attention"


def test_a_kernel_stands_beside_its_reference_and_torchs_own() -> None:
    found = contenders("mine", describe(Seen()))
    assert names(*found) == [("mine", "target", True), (REFERENCE, "reference", False), (SDPA, "torch", False)]


@pytest.mark.parametrize(
    ("target", "reference"), [(MultiHeadAttention, "MultiHeadAttention"), (SelfAttention, "SelfAttention")]
)
def test_a_module_stands_beside_its_reference_and_torchs_own(target: Any, reference: str) -> None:
    class Mine(target):  # type: ignore[misc]
        pass

    found = contenders("mine", describe(Mine, reference=reference))
    assert names(*found[1:]) == [
        (f"attention_conformance.reference:{reference}", "reference", False), (MHA, "torch", False),
    ]  # fmt: skip


@pytest.mark.parametrize(("text", "role", "other"), [(REFERENCE, "reference", "torch"), (SDPA, "torch", "reference")])
def test_a_target_that_is_one_of_the_others_stands_once(text: str, role: str, other: str) -> None:
    found = contenders(text, load(text)[0].implementation)
    assert [(entry.role, entry.asked) for entry in found] == [(role, True), (other, False)]


def test_another_way_to_call_torchs_own_is_a_target_of_its_own() -> None:
    found = contenders(SDPA + "[math]", load(SDPA + "[math]")[0].implementation)
    assert [entry.role for entry in found] == ["target", "reference", "torch"]


def test_companions_stand_on_the_targets_device() -> None:
    found = contenders("mine", describe(Seen(), device="meta"))
    assert {entry.implementation.device for entry in found} == {"meta"}


def test_targets_that_stand_beside_others_have_no_run_of_their_own() -> None:
    assert covered((REFERENCE, SDPA, "a:b", SDPA, "a:b", MHA)) == (REFERENCE, "a:b", MHA)
