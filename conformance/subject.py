"""One implementation in one dtype, called in canonical form: layouts, masks and modules are dealt with here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from . import masks
from .comparing import NotApplicable
from .dtypes import torch_dtype
from .edge import WrongResult, foreign
from .errors import UnknownParameters
from .expectations import Setting
from .implementation import Implementation
from .inputs import Inputs
from .memory import place
from .parameters import Layout, recognise

MODES = ("train", "eval")
"""`train`: gradients are recorded, modules are in train mode. `eval`: no_grad, modules are in eval mode."""

ORDERS: Mapping[str, tuple[int, ...]] = {"BLHD": (0, 2, 1, 3), "LBHD": (2, 0, 1, 3), "LBE": (1, 0, 2)}
"""How the canonical axes are permuted for each layout that differs from them."""


def inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the permutation that undoes `order`."""
    return tuple(order.index(axis) for axis in range(len(order)))


@dataclass(frozen=True)
class Delivered:
    """The tensors exactly as the implementation gets them."""

    query: Tensor
    key: Tensor
    value: Tensor
    mask: Tensor | None
    options: Mapping[str, Any]

    def tensors(self) -> dict[str, Tensor]:
        """Return every tensor by name."""
        named = {"query": self.query, "key": self.key, "value": self.value, "mask": self.mask, **self.options}
        return {name: tensor for name, tensor in named.items() if isinstance(tensor, Tensor)}


@dataclass(frozen=True)
class Result:
    """What came back: `output` in canonical axes where its number of axes allows, `second` as returned."""

    output: Tensor
    second: Tensor | None
    delivered: Delivered


class Subject:
    """One implementation in one dtype and one mode, ready to be called in canonical form."""

    def __init__(self, implementation: Implementation, dtype: str, mode: str = "train") -> None:
        self.implementation = implementation
        self.capabilities = implementation.capabilities
        self.dtype = dtype
        self.mode = mode
        self._modules: dict[tuple[str, int], tuple[nn.Module, object]] = {}
        self._layouts: dict[tuple[int, int], Layout] = {}
        self.changed_grad_mode = False

    def in_mode(self, mode: str) -> Subject:
        """Return the same subject in another mode; modules are shared."""
        return self.twin(mode=mode)

    def twin(self, *, implementation: Implementation | None = None, mode: str | None = None) -> Subject:
        """Return a subject of the same dtype that shares the modules, in another mode or under other capabilities."""
        other = Subject(implementation or self.implementation, self.dtype, mode or self.mode)
        other._modules, other._layouts = self._modules, self._layouts
        return other

    @cached_property
    def setting(self) -> Setting:
        """The declared conventions as far as an expectation depends on them."""
        own = self.capabilities
        return Setting(self.implementation.is_module, own.scale, own.empty_row, own.no_keys, own.causal, own.precision)

    def setting_for(self, inputs: Inputs) -> Setting:
        """Return the setting with the structure of the module that these inputs are sent to."""
        if not self.implementation.is_module:
            return self.setting
        return replace(self.setting, structure=self.layout(inputs).structure)

    # Modules

    def build(self, d_model: int, heads: int) -> nn.Module:
        """Call the factory, without touching the global random state, and move the result to the dtype.

        Raises Raised, or WrongResult where it gives no torch module.
        """
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            module = foreign(self.implementation.target, d_model, heads)
        if not isinstance(module, nn.Module):
            raise WrongResult(f"the factory returned {type(module).__name__}, not a torch.nn.Module")
        return module.to(device=self.implementation.device, dtype=torch_dtype(self.dtype))

    def layout(self, inputs: Inputs) -> Layout:
        """Return where the module keeps its projections."""
        heads, d_model = inputs.case.heads, inputs.case.heads * inputs.case.width
        if (d_model, heads) not in self._layouts:
            module = self.build(d_model, heads)
            try:
                self._layouts[d_model, heads] = recognise(module, d_model, heads, self.implementation.parameters)
            except UnknownParameters as error:
                if heads != 1 or not self._layouts:
                    raise
                # Some modules leave a projection out where there is nothing to merge.
                raise NotApplicable("one head: the projections are others than with several") from error
        return self._layouts[d_model, heads]

    def fresh(self, inputs: Inputs) -> nn.Module:
        """Return a new module that holds the parameters of the inputs."""
        layout, module = self.layout(inputs), self.blank(inputs)
        if inputs.parameters is not None:
            layout.write(module, inputs.parameters)
        return module

    def blank(self, inputs: Inputs) -> nn.Module:
        """Return a new module of the size that the inputs ask for, with the parameters of its own making."""
        module = self.build(inputs.case.heads * inputs.case.width, inputs.case.heads)
        return module.train(self.mode == "train")

    def module(self, inputs: Inputs) -> nn.Module:
        """Return the module for these inputs, made once per case and parameters."""
        key = (inputs.case.name, id(inputs.parameters))
        if key not in self._modules:
            # The parameters are kept beside the module, so that no other object can take their identity.
            self._modules[key] = (self.fresh(inputs), inputs.parameters)
        return self._modules[key][0].train(self.mode == "train")

    # Calls

    def deliver(self, inputs: Inputs) -> Delivered:
        """Return fresh tensors in the layout, mask form and memory that the implementation and the case ask for."""
        case = inputs.case
        made = {name: self._place(getattr(inputs, name), name, inputs) for name in ("query", "key", "value")}
        if case.shared or self.capabilities.inputs == "self":
            made["value"] = made["key"]
            if case.shared != "kv":
                made["key"] = made["value"] = made["query"]
        options = dict(case.options())
        if (self.capabilities.causal or "").startswith("always"):
            options.pop("causal", None)
        if inputs.bias is not None:
            options["bias"] = self._leaf(inputs.bias.clone().to(self.implementation.device))
        return Delivered(made["query"], made["key"], made["value"], self.mask(inputs), options)

    def _place(self, tensor: Tensor, name: str, inputs: Inputs) -> Tensor:
        order = ORDERS.get(self.capabilities.layout)
        how = inputs.case.memory if name in inputs.case.strided else "contiguous"
        if how == "expanded":
            # Over the batch, which is the first axis of the canonical layout only.
            tensor = place(tensor, how)
            return self._leaf((tensor if order is None else tensor.permute(order)).to(self.implementation.device))
        tensor = tensor if order is None else tensor.permute(order)
        return self._leaf(place(tensor, how).to(self.implementation.device))

    def _leaf(self, tensor: Tensor) -> Tensor:
        return tensor.detach().requires_grad_(self.mode == "train" and self.capabilities.gradient != "none")

    def mask(self, inputs: Inputs) -> Tensor | None:
        """Return the mask in the declared kind, polarity and shape; None if the case has none."""
        mask, own = inputs.case.mask, self.capabilities
        if inputs.allowed is None or mask is None:
            return None
        form = next(form for form in mask.forms if form in own.mask)
        if form == "lengths":
            return inputs.allowed.expand(inputs.sizes["B"], 1, 1, -1).sum((1, 2, 3)).to(self.implementation.device)
        pattern = masks.choose_pattern(own.mask_shapes, mask.axes) or mask.axes
        sizes = inputs.sizes
        shaped = masks.shape_as(inputs.allowed, pattern, sizes)
        finite = None if inputs.finite is None else masks.shape_as(inputs.finite, pattern, sizes)
        encoded = masks.encode(shaped, mask, form, own.mask_means, torch_dtype(self.dtype), finite)
        if mask.memory == "expanded":
            # To the full shape, with stride 0 along every axis that the mask leaves out.
            full = own.mask_shapes == "broadcast" or "BHLS" in own.mask_shapes
            whole = encoded.expand(*(sizes[axis] for axis in "BHLS")) if full and encoded.dim() == 4 else encoded
            return whole.to(self.implementation.device)
        return place(encoded, mask.memory).to(self.implementation.device)

    def run(self, inputs: Inputs, module: nn.Module | None = None) -> Result:
        """Deliver and call. Raises Raised or WrongResult."""
        return self.call(self.deliver(inputs), inputs, module)

    def call(self, delivered: Delivered, inputs: Inputs, module: nn.Module | None = None) -> Result:
        """Call the implementation with these very tensors."""
        target: Any = self.implementation.target
        if self.implementation.is_module:
            target = module if module is not None else self.module(inputs)
        with torch.set_grad_enabled(self.mode == "train" and self.capabilities.gradient != "none"):
            wanted = torch.is_grad_enabled()
            returned = foreign(self._invoke, target, delivered)
            self.changed_grad_mode = torch.is_grad_enabled() != wanted
        self._synchronise()
        return self._result(returned, delivered)

    def _invoke(self, target: Any, sent: Delivered) -> object:
        call, reference = self.implementation.call, self.implementation.reference
        if call is not None:
            if sent.mask is None:
                return call(target, sent.query, sent.key, sent.value, **sent.options)
            return call(target, sent.query, sent.key, sent.value, sent.mask, **sent.options)
        if self.capabilities.inputs == "self":
            arguments: tuple[Tensor, ...] = (sent.query,)
        else:
            arguments = tuple(getattr(sent, name) for name in reference.arguments)
        if sent.mask is not None or reference.mask_required:
            return target(*arguments, sent.mask, **sent.options)
        return target(*arguments, **sent.options)

    def _synchronise(self) -> None:
        if self.implementation.device.startswith("cuda"):
            foreign(torch.cuda.synchronize)

    def _result(self, returned: object, delivered: Delivered) -> Result:
        first, second = _split(returned)
        order = ORDERS.get(self.capabilities.layout)
        if order is not None and first.dim() == len(order):
            first = self.canonical(first)
        return Result(first, second, delivered)

    def canonically(self, delivered: Delivered) -> Delivered:
        """Return the delivered inputs in canonical axes, as they lie in memory."""
        query, key, value = map(self.canonical, (delivered.query, delivered.key, delivered.value))
        return replace(delivered, query=query, key=key, value=value)

    def canonical(self, tensor: Tensor) -> Tensor:
        """Return a delivered tensor (or its gradient) in canonical axes."""
        order = ORDERS.get(self.capabilities.layout)
        return tensor if order is None else tensor.permute(inverse(order))


def _split(returned: object) -> tuple[Tensor, Tensor | None]:
    if isinstance(returned, Tensor):
        return returned, None
    if isinstance(returned, (tuple, list)) and returned and isinstance(returned[0], Tensor):
        second = returned[1] if len(returned) > 1 else None
        return returned[0], second if isinstance(second, Tensor) else None
    raise WrongResult(
        f"it returned {type(returned).__name__}, neither a tensor nor a tuple that starts with one; "
        "pick the output with call=lambda f, query, key, value, mask=None: f(...)[...]"
    )


def has_two_modes(implementation: Implementation) -> bool:
    """Say whether train and eval can differ for it."""
    return implementation.capabilities.gradient != "none" or implementation.is_module
