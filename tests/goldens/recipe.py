"""What a golden vector is made of: sizes, few-bit numbers drawn from its id, a mask, and for odd calls what they equal.

Every number is a multiple of a power of two with at most five significant bits, so fp64, fp32, bf16 and fp16 hold it
exactly. They come from SHA-256 of the id, which no library's random generator can change.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from attention_conformance.cases import masks
from attention_conformance.cases.case import Case, Mask
from attention_conformance.cases.inputs import ROLES, Drawn, Inputs
from attention_conformance.dtypes import DTYPES
from attention_conformance.oracle.expectations import Setting, Structure
from attention_conformance.references import REFERENCES

MUST, MAY = "must agree", "may differ"
WIDE = ("fp64", "fp32", "bf16")
EVERY_FORM = ("bool", "number", "additive")


@dataclass(frozen=True)
class Masking:
    """A mask: what it hides (`content`), its axes, the form in which it is stored and those that say the same."""

    content: str = "some"
    axes: str = "LS"
    forms: tuple[str, ...] = EVERY_FORM
    numbers: str = "int"
    finite: bool = False


@dataclass(frozen=True)
class Odd:
    """A call that is no ordinary one. `sent` changes the ordinary tensors (query, key, value, mask) into those of the
    call, `plain` says to which ordinary inputs the answer belongs; `listing_nan` takes the places of NaN from the
    listing, and `all_nan` says that everything is NaN, where no ordinary problem has an answer."""

    sent: Callable[[dict[str, Tensor | None]], dict[str, Tensor | None]] = lambda tensors: tensors
    plain: Callable[[dict[str, Tensor | None]], dict[str, Tensor | None]] = lambda tensors: tensors
    form: str = "bool"
    listing_nan: bool = False
    all_nan: bool = False


@dataclass(frozen=True)
class Recipe:
    """One vector. `query`, `key`, `value` are powers of two (or 0) that multiply the drawn numbers of these tensors.
    `identity` gives a module projections that return their input; `biases` multiplies its drawn biases; `leftover` are
    features of a module that its heads do not divide, which is then solved as a kernel."""

    id: str
    title: str
    reference: str
    batch: int = 1
    heads: int = 2
    queries: int = 2
    keys: int = 3
    width: int = 2
    value_width: int = 3
    leading: str = "BH"
    broadcast: tuple[str, ...] = ()
    same: bool = False
    query: float = 1.0
    key: float = 1.0
    value: float = 1.0
    mask: Masking | None = None
    quirks: tuple[str, ...] = ()
    agreement: str = MUST
    dtypes: tuple[str, ...] = DTYPES
    identity: bool = False
    leftover: int = 0
    biases: Mapping[str, float] = field(default_factory=dict, hash=False)
    odd: Odd | None = None

    @property
    def is_module(self) -> bool:
        """Whether the reference is a module, whose value is as wide as its key."""
        return REFERENCES[self.reference].kind == "module"

    def setting(self) -> Setting:
        """Return the reference's own conventions."""
        own = REFERENCES[self.reference].defaults
        structure = Structure()
        if self.reference == "SelfAttention":
            structure = Structure(shared=True, biases=frozenset({"output"}))
        return Setting(self.is_module and not self.leftover, own.get("scale", "1/sqrt(D)"), structure=structure)


def numbers(seed: str, shape: tuple[int, ...], factor: float = 1.0) -> Tensor:
    """Return `factor` times multiples of 1/8 between -15/8 and 15/8, drawn from `seed`."""
    count, found, block = int(torch.tensor(shape).prod()), [], 0
    while len(found) < count:
        digest = hashlib.sha256(f"{seed} {block}".encode()).digest()
        found += [(byte % 31 - 15) / 8 for byte in digest if byte < 248]
        block += 1
    return factor * torch.tensor(found[:count], dtype=torch.float64).reshape(shape)


def case_of(recipe: Recipe) -> Case:
    """Return the sizes and the mask of a recipe as a case."""
    mask = None
    if recipe.mask is not None:
        content = "empty row" if recipe.mask.content in ("empty row", "none") else "random"
        mask = Mask(content, recipe.mask.axes, recipe.mask.forms, recipe.mask.numbers, recipe.mask.finite)
    return Case(
        f"{recipe.id}: {recipe.title}", recipe.batch, recipe.heads, recipe.queries, recipe.keys, recipe.width,
        recipe.width if recipe.is_module else recipe.value_width, leading=recipe.leading, mask=mask,
        broadcast=recipe.broadcast, values="needles" if recipe.identity else "signed",
    )  # fmt: skip


def ordinary(recipe: Recipe) -> Inputs:
    """Return the inputs of a recipe before an odd call changes them."""
    from attention_conformance.cases.inputs import shapes_of

    case, tensors = case_of(recipe), {}
    shapes = shapes_of(case, recipe.is_module)
    for name in ("query", "key", "value"):
        tensors[name] = numbers(f"{recipe.id} {name}", getattr(shapes, name), getattr(recipe, name))
    if recipe.same:
        tensors["key"] = tensors["value"] = tensors["query"]
    lead = torch.broadcast_shapes(shapes.query[:-2], shapes.key[:-2], shapes.value[:-2])
    upstream = numbers(f"{recipe.id} upstream", (*lead, recipe.queries, shapes.value[-1]))
    allowed, finite = _mask(recipe)
    spread = torch.zeros(*((recipe.batch, recipe.heads) if recipe.is_module else lead), recipe.queries, recipe.keys)
    return Inputs(
        case, "fp64", tensors["query"], tensors["key"], tensors["value"], allowed, finite, None, upstream,
        spread.double(), _parameters(recipe) if recipe.is_module else None,
    )  # fmt: skip


def in_dtype(inputs: Inputs, dtype: str) -> Inputs:
    """Return the same numbers labelled with another dtype; expectations compute on them in float64 all the same."""
    return replace(inputs, dtype=dtype)


def _mask(recipe: Recipe) -> tuple[Tensor | None, Tensor | None]:
    """Return what is allowed, (b, h, l, s), and the finite values of an additive mask."""
    if recipe.mask is None:
        return None, None
    sizes = {"B": recipe.batch, "H": recipe.heads, "L": recipe.queries, "S": recipe.keys, "1": 1}
    shape = tuple(sizes[letter] for letter in recipe.mask.axes.rjust(4, "1"))
    seed = f"{recipe.id} mask"
    allowed = CONTENTS[recipe.mask.content](seed, shape)
    finite = numbers(f"{seed} values", shape) if recipe.mask.finite else None
    return allowed, finite


def _some(seed: str, shape: tuple[int, ...]) -> Tensor:
    """Hide about a third of the keys, at least one and never all in a row of two or more."""
    drawn = numbers(seed, shape)
    allowed = drawn > -0.5
    if shape[-1] > 1:
        allowed |= drawn == drawn.amax(-1, keepdim=True)
        allowed &= drawn != drawn.amin(-1, keepdim=True)
    return allowed


def _padding(seed: str, shape: tuple[int, ...]) -> Tensor:
    lengths = torch.tensor([max(1, shape[-1] - 1 - b) for b in range(shape[0])])
    return (torch.arange(shape[-1]) < lengths[:, None, None, None]).expand(shape).clone()


def _empty_row(seed: str, shape: tuple[int, ...]) -> Tensor:
    allowed = _some(seed, shape)
    allowed[..., 0, :] = False
    return allowed


CONTENTS: Mapping[str, Callable[[str, tuple[int, ...]], Tensor]] = {
    "some": _some,
    "padding": _padding,
    "empty row": _empty_row,
    "none": lambda seed, shape: torch.zeros(shape, dtype=torch.bool),
    "causal": lambda seed, shape: torch.ones(shape, dtype=torch.bool).tril(),
    "one key": lambda seed, shape: (torch.arange(shape[-1]) == (torch.arange(shape[-2]) * 2 % shape[-1])[:, None]).expand(shape).clone(),
    "last hidden": lambda seed, shape: (torch.arange(shape[-1]) < shape[-1] - 1).expand(shape).clone(),
}  # fmt: skip


def _parameters(recipe: Recipe) -> Drawn:
    model, width = recipe.heads * recipe.width, recipe.width
    full, head, bias = {}, {}, {}
    for role in ROLES:
        seed = f"{recipe.id} {role}"
        full[role] = torch.eye(model).double() if recipe.identity else numbers(f"{seed} weight", (model, model), 0.5)
        head[role] = torch.eye(width).double() if recipe.identity else numbers(f"{seed} weight", (width, width), 0.5)
        bias[role] = numbers(f"{seed} bias", (model,), 0.0 if recipe.identity else recipe.biases.get(role, 0.5))
    return Drawn(full, head, bias)


def written_mask(recipe: Recipe, inputs: Inputs) -> tuple[str, Tensor] | None:
    """Return the form in which the mask is stored and the mask in that form and its own shape."""
    if recipe.mask is None or inputs.allowed is None:
        return None
    form, mask = recipe.mask.forms[0], inputs.case.mask
    assert mask is not None
    if form == "lengths":
        return form, inputs.allowed.sum((1, 2, 3))
    sizes = inputs.sizes
    shaped = masks.shape_as(inputs.allowed, recipe.mask.axes, sizes)
    finite = None if inputs.finite is None else masks.shape_as(inputs.finite, recipe.mask.axes, sizes)
    return form, masks.encode(shaped, mask, form, "attend", torch.float64, finite)
