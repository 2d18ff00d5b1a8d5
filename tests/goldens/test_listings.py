"""The documents' code itself gives every vector, the ones that may differ included, in every dtype where it runs."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from attention_conformance.goldens import files as goldens
from attention_conformance.goldens.inputs import near
from tests.goldens.make import RECIPES
from tests.goldens.proof import listing, prove
from tests.goldens.recipe import Recipe

BY_ID: Mapping[str, Recipe] = {recipe.id: recipe for recipe in RECIPES}
CALLS = [(recipe.id, dtype) for recipe in RECIPES for dtype in recipe.dtypes]


def beyond(found: Mapping[str, Tensor], identifier: str, dtype: str) -> list[str]:
    """Return the names of the results that are not as the vector says."""
    wrong = []
    for name, tensor in found.items():
        expected = near(identifier, name if name in ("output", "weights") else f"gradient of {name}", dtype, "eager")
        same_nan = torch.equal(tensor.isnan(), expected.value.isnan())
        inside = ((tensor - expected.value).abs() <= expected.allowed) | expected.value.isnan()
        wrong += [] if tensor.shape == expected.value.shape and same_nan and bool(inside.all()) else [name]
    return wrong


@pytest.mark.parametrize(("identifier", "dtype"), CALLS)
def test_the_listing_gives_the_vector(identifier: str, dtype: str) -> None:
    recipe = BY_ID[identifier]
    sent = prove(recipe).sent
    if dtype == "fp16" and sent.mask is not None:
        with pytest.raises(RuntimeError, match="overflow"):
            listing(recipe, sent, dtype)
        return
    found = listing(recipe, sent, dtype)
    vector = goldens.get(identifier)
    assert set(found) == {*vector.expected, *vector.gradients}
    assert not beyond(found, identifier, dtype)


@pytest.mark.parametrize("identifier", [recipe.id for recipe in RECIPES if recipe.agreement == "may differ"])
def test_a_vector_that_may_differ_shows_one_quirk(identifier: str) -> None:
    assert len(goldens.get(identifier).quirks) == 1


@pytest.mark.parametrize("dtype", ["fp64", "fp32"])
@pytest.mark.parametrize("result", ["output", "query"])
def test_a_listing_that_is_off_would_be_seen(dtype: str, result: str) -> None:
    recipe = BY_ID["ATTN-001"]
    found = listing(recipe, prove(recipe).sent, dtype)
    found[result] = found[result] * (1 + (1e-4 if dtype == "fp32" else 1e-12))
    assert beyond(found, recipe.id, dtype) == [result]
