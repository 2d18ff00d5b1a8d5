"""What is sent: cases are made alike each time, shared tensors stay as they are, masks and memory hold their promise."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from attention_conformance import check
from attention_conformance.cases.case import Case, Mask
from attention_conformance.cases.inputs import Inputs, make
from attention_conformance.cases.masks import CONTENTS, choose_pattern, draw, encode, letters_of, shape_as
from attention_conformance.cases.memory import MEMORY, place
from attention_conformance.dtypes import DTYPES, torch_dtype
from attention_conformance.implementation import Implementation, describe
from attention_conformance.rulebook import catalogue
from attention_conformance.selection import fitted_cases
from tests.rules.fakes import FAKES
from tests.zoo.faulty import MUTANTS
from tests.zoo.mutant import Mutant

_TENSORS = ("query", "key", "value", "allowed", "finite", "bias", "upstream", "upstream_weights")
_SIZES: Mapping[str, int] = {"B": 2, "H": 4, "L": 5, "S": 7}
MUTATING = (
    "query_scaled_in_place",
    "hidden_values_zeroed_in_place",
    "mask_inverted_in_place",
    "upstream_gradient_halved_in_place",
)


def _digest(inputs: Inputs) -> str:
    found = hashlib.sha256()
    for name in _TENSORS:
        tensor = getattr(inputs, name)
        if tensor is not None:
            found.update(name.encode())
            found.update(tensor.double().contiguous().numpy().tobytes())
    return found.hexdigest()


@pytest.mark.parametrize("module", [False, True], ids=["kernel", "module"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_case_is_made_alike_each_time(module: bool, dtype: str) -> None:
    case = Case("made twice", value_width=8, mask=Mask("random", "BHLS", finite=True), bias=None if module else "1HLS")
    assert _digest(make.__wrapped__(case, module, dtype)) == _digest(make.__wrapped__(case, module, dtype))
    torch.rand(3)
    assert _digest(make(case, module, dtype)) == _digest(make.__wrapped__(case, module, dtype))


def test_another_name_or_seed_gives_other_numbers() -> None:
    first, second, third = (
        make(case, False, "fp64").query for case in (Case("one"), Case("another"), Case("one", seed=1))
    )
    assert not torch.equal(first, second)
    assert not torch.equal(first, third)


def _sent(implementation: Implementation) -> dict[str, str]:
    cases = [case for rule in catalogue().values() for case in fitted_cases(rule, implementation)[0]]
    return {repr(case): _digest(make(case, implementation.is_module, "fp32")) for case in cases}


@pytest.mark.parametrize("name", MUTATING)
def test_what_an_implementation_overwrites_is_its_own_copy(name: str) -> None:
    mutant: Mutant = next(mutant for mutant in (*MUTANTS, *FAKES) if mutant.name == name)
    implementation = describe(mutant.target, **{**mutant.capabilities, "dtypes": ("fp32",)})
    before = _sent(implementation)
    list(check(implementation))
    assert _sent(implementation) == before


@pytest.mark.parametrize("how", [how for how in MEMORY if how != "expanded"])
@pytest.mark.parametrize("shape", [(), (3,), (4, 3), (2, 4, 5, 3), (2, 0, 3)], ids=str)
def test_another_place_in_memory_holds_the_same_values_in_a_copy(how: str, shape: tuple[int, ...]) -> None:
    tensor = torch.randn(shape, generator=torch.Generator().manual_seed(3))
    before = tensor.clone()
    placed = place(tensor, how)
    assert torch.equal(placed, tensor)
    placed.fill_(9.0)
    assert torch.equal(tensor, before)


@pytest.mark.parametrize(
    ("how", "stride", "offset"),
    [
        ("contiguous", (60, 15, 3, 1), 0),
        ("transposed", (60, 15, 1, 5), 0),
        ("heads swapped", (60, 3, 12, 1), 0),
        ("sliced", (120, 30, 6, 2), 0),
        ("offset", (60, 15, 3, 1), 3),
        ("rows apart", (160, 40, 8, 1), 2),
        ("expanded", (0, 15, 3, 1), 0),
    ],
)
def test_strides_are_those_that_the_name_says(how: str, stride: tuple[int, ...], offset: int) -> None:
    placed = place(torch.randn(2, 4, 5, 3, generator=torch.Generator().manual_seed(4)), how)
    assert placed.shape == (2, 4, 5, 3)
    assert (placed.stride(), placed.storage_offset()) == (stride, offset)


def test_expanded_repeats_the_first_element() -> None:
    placed = place(torch.arange(6.0).reshape(3, 2), "expanded")
    assert placed.tolist() == [[0.0, 1.0]] * 3


@pytest.mark.parametrize("content", CONTENTS)
def test_only_contents_called_empty_leave_a_row_without_a_key(content: str) -> None:
    allowed = draw(Mask(content, "BHLS"), _SIZES, torch.Generator().manual_seed(5))
    empty = ~allowed.any(-1)
    assert bool(empty.any()) == content.startswith("empty")
    if content == "empty row":
        assert not bool(empty.all())


@pytest.mark.parametrize("axes", ["S", "LS", "11LS", "B11S", "B1LS", "1HLS", "BH1S", "BHLS"])
def test_a_mask_is_drawn_with_size_one_where_it_leaves_an_axis_out(axes: str) -> None:
    allowed = draw(Mask("random", axes), _SIZES, torch.Generator().manual_seed(6))
    assert allowed.shape == tuple(_SIZES.get(letter, 1) for letter in axes.rjust(4, "1"))
    assert shape_as(allowed, axes, _SIZES).shape == tuple(_SIZES.get(letter, 1) for letter in axes)


def test_a_mask_folds_batch_and_heads_in_that_order() -> None:
    allowed = draw(Mask("random", "BHLS"), _SIZES, torch.Generator().manual_seed(7))
    folded = shape_as(allowed, "(BH)LS", _SIZES)
    assert letters_of("(BH)LS") == ("BH", "L", "S")
    assert torch.equal(folded[1 * 4 + 2], allowed[1, 2])


@pytest.mark.parametrize(
    ("accepted", "axes", "pattern"),
    [
        ("broadcast", "B11S", "B11S"),
        (("BHLS", "LS"), "LS", "LS"),
        (("BHLS",), "LS", "BHLS"),
        (("BLS", "(BH)LS"), "BHLS", "(BH)LS"),
        (("LS",), "B11S", None),
    ],
)
def test_a_mask_comes_in_the_first_accepted_shape_that_holds_it(
    accepted: str | tuple[str, ...], axes: str, pattern: str | None
) -> None:
    assert choose_pattern(accepted, axes) == pattern


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("means", ["attend", "hide"])
@pytest.mark.parametrize("numbers", ["int", "float", "odd"])
@pytest.mark.parametrize("form", ["bool", "number"])
def test_zero_and_nonzero_say_which_keys_attend(form: str, numbers: str, means: str, dtype: str) -> None:
    allowed = draw(Mask("random", "BHLS"), _SIZES, torch.Generator().manual_seed(8))
    written = encode(allowed, Mask(numbers=numbers), form, means, torch_dtype(dtype), None)
    assert torch.equal(written != 0, allowed if means == "attend" else ~allowed)
    assert (written.dtype == torch.bool) == (form == "bool")
    if form == "number" and numbers == "float":
        assert written.dtype == torch_dtype(dtype)


@pytest.mark.parametrize("means", ["attend", "hide"])
def test_an_additive_mask_has_one_polarity_and_keeps_finite_values(means: str) -> None:
    allowed = torch.tensor([[True, False, True]])
    finite = torch.tensor([[0.5, 0.25, -2.0]])
    plain = encode(allowed, Mask(), "additive", means, torch.float32, None)
    valued = encode(allowed, Mask(finite=True), "additive", means, torch.float32, finite)
    assert plain.tolist() == [[0.0, -torch.inf, 0.0]]
    assert valued.tolist() == [[0.5, -torch.inf, -2.0]]


def test_the_same_tensors_serve_every_implementation() -> None:
    case = Case("shared between implementations")
    assert make(case, False, "fp32") is make(Case("shared between implementations"), False, "fp32")
    tensor: Tensor = make(case, False, "fp32").query
    assert not tensor.requires_grad
