"""One implementation in one dtype, called in canonical form: layouts, masks and modules are dealt with here."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..bridges import bridge_for
from ..calling.building import Construction, construction_of
from ..calling.delivered import Delivered
from ..calling.form import Form
from ..calling.packing import settled
from ..calling.recognising import form_of
from ..calling.returned import split
from ..cases import masks
from ..cases.inputs import Inputs
from ..cases.layouts import from_layout, hides_heads, to_layout
from ..cases.memory import place
from ..dtypes import torch_dtype
from ..errors import UnknownParameters
from ..foreign.edge import WrongResult, foreign
from ..foreign.process_state import computing_state_kept
from ..implementation import Implementation
from ..oracle.comparing import NotApplicable
from ..oracle.expectations import Setting
from ..parameters import Experiment, Layout, experiment, recognise

MODES = ("train", "eval")
"""`train`: gradients are recorded, modules are in train mode. `eval`: no_grad, modules are in eval mode."""


@dataclass(frozen=True)
class Result:
    """What came back: `output` in canonical axes where its number of axes allows, `second` as returned."""

    output: Tensor
    second: Tensor | None
    delivered: Delivered
    pick: str = ""
    """The Python that picks the output out of what was returned."""


class Subject:
    """One implementation in one dtype and one mode, ready to be called in canonical form."""

    def __init__(self, implementation: Implementation, dtype: str, mode: str = "train") -> None:
        self.implementation = implementation
        self.capabilities = implementation.capabilities
        self.dtype = dtype
        self.mode = mode
        self._modules: dict[tuple[str, int], tuple[nn.Module, object]] = {}
        self._layouts: dict[tuple[int, int], Layout] = {}
        self._constructions: dict[str, Construction] = {}
        self._form: Form | None = None
        self.changed_grad_mode = False
        self.pick = ""

    def in_mode(self, mode: str) -> Subject:
        """Return the same subject in another mode; modules are shared."""
        return self.twin(mode=mode)

    def twin(self, *, implementation: Implementation | None = None, mode: str | None = None) -> Subject:
        """Return a subject of the same dtype that shares the modules, in another mode or under other capabilities."""
        other = Subject(implementation or self.implementation, self.dtype, mode or self.mode)
        other._modules, other._layouts, other._constructions = self._modules, self._layouts, self._constructions
        if other.capabilities == self.capabilities:
            other._form = self._form
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

        Raises Raised, UnknownCall, or WrongResult where it gives no torch module.
        """
        factory, device, construction = self.implementation.target, self.implementation.device, self._construction
        with torch.random.fork_rng(devices=[device] if device.startswith("cuda") else []):
            # torch.manual_seed keeps a trace of the stack for every kind of device that is not in use yet.
            seed = torch.default_generator.manual_seed if device == "cpu" else torch.manual_seed
            seed(0)
            module = foreign(construction.build, factory, d_model, heads)
        if not isinstance(module, nn.Module):
            raise WrongResult(f"the factory returned {type(module).__name__}, not a torch.nn.Module; return the module")
        return module.to(device=device, dtype=torch_dtype(self.dtype))

    @property
    def _construction(self) -> Construction:
        key = self.capabilities.layout
        if key not in self._constructions:
            self._constructions[key] = construction_of(self.implementation.target, self.implementation.label, key)
        return self._constructions[key]

    def layout(self, inputs: Inputs) -> Layout:
        """Return where the module keeps its projections."""
        heads, d_model = inputs.case.heads, inputs.case.heads * inputs.case.width
        if (d_model, heads) not in self._layouts:
            module, trying = self.build(d_model, heads), self._experiment(heads, inputs.case.width)
            given = self.implementation.parameters
            try:
                self._layouts[d_model, heads] = recognise(module, d_model, heads, given, trying)
            except UnknownParameters as error:
                if heads != 1 or not self._layouts:
                    raise
                # Some modules leave a projection out where there is nothing to merge.
                raise NotApplicable("one head: the projections are others than with several") from error
        return self._layouts[d_model, heads]

    def _experiment(self, heads: int, width: int) -> Experiment | None:
        """Return how to try a reading of the parameters: in eval mode, in the dtype that shows most."""
        dtype = next((exact for exact in ("fp64", "fp32") if exact in self.capabilities.dtypes), self.dtype)
        trying = Subject(self.implementation, dtype, "eval")
        return experiment(
            self.implementation, trying.setting, trying.dtype,
            lambda: trying.build(heads * width, heads).eval(),
            lambda module, inputs: trying.run(inputs, module).output,
            (heads, width),
        )  # fmt: skip

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
        if case.shared or self.capabilities.inputs != "cross":
            made["value"] = made["key"]
        if case.shared == "qkv" or self.capabilities.inputs == "self":
            made["key"] = made["value"] = made["query"]
        options = case.options()
        if (self.capabilities.causal or "").startswith("always"):
            options.pop("causal", None)
        if inputs.bias is not None:
            options["bias"] = self._leaf(inputs.bias.clone().to(self.implementation.device))
        if hides_heads(self.capabilities.layout) and not self.implementation.is_module:
            options["heads"] = case.heads
            if case.kv_heads is not None:
                options["kv_heads"] = case.kv_heads
        return Delivered(
            made["query"], made["key"], made["value"], self.mask(inputs), options, heads_of(inputs), self._pattern(inputs)
        )  # fmt: skip

    def _place(self, tensor: Tensor, name: str, inputs: Inputs) -> Tensor:
        layout = self.capabilities.layout
        how = inputs.case.memory if name in inputs.case.strided else "contiguous"
        # Expanded over the batch, which is the first axis of the canonical layout only.
        placed = to_layout(place(tensor, how), layout) if how == "expanded" else place(to_layout(tensor, layout), how)
        return self._leaf(placed.to(self.implementation.device))

    def _leaf(self, tensor: Tensor) -> Tensor:
        return tensor.detach().requires_grad_(self.mode == "train" and self.capabilities.gradient != "none")

    def _pattern(self, inputs: Inputs) -> str | None:
        """Return the pattern of the mask that `mask` returns, `lengths` for lengths; None for any that broadcasts."""
        mask, own = inputs.case.mask, self.capabilities
        if inputs.allowed is None or mask is None:
            return None
        if next(form for form in mask.forms if form in own.mask) == "lengths":
            return "lengths"
        return None if own.mask_patterns == "broadcast" else masks.choose_pattern(own.mask_patterns, mask.axes)

    def mask(self, inputs: Inputs) -> Tensor | None:
        """Return the mask in the declared kind, polarity and shape; None if the case has none."""
        mask, own = inputs.case.mask, self.capabilities
        if inputs.allowed is None or mask is None:
            return None
        form = next(form for form in mask.forms if form in own.mask)
        if form == "lengths":
            return inputs.allowed.expand(inputs.sizes["B"], 1, 1, -1).sum((1, 2, 3)).to(self.implementation.device)
        pattern = masks.choose_pattern(own.mask_patterns, mask.axes) or mask.axes
        sizes = inputs.sizes
        shaped = masks.shape_as(inputs.allowed, pattern, sizes)
        finite = None if inputs.finite is None else masks.shape_as(inputs.finite, pattern, sizes)
        encoded = masks.encode(shaped, mask, form, own.mask_means, torch_dtype(self.dtype), finite)
        if mask.memory == "expanded":
            # To the full shape, with stride 0 along every axis that the mask leaves out.
            full = own.mask_patterns == "broadcast" or "BHLS" in own.mask_patterns
            whole = encoded.clone()
            whole = whole.expand(*(sizes[axis] for axis in "BHLS")) if full and whole.dim() == 4 else whole
            return whole.to(self.implementation.device)
        return place(encoded, mask.memory).to(self.implementation.device)

    def run(self, inputs: Inputs, module: nn.Module | None = None) -> Result:
        """Deliver and call. Raises Raised or WrongResult."""
        return self.call(self.deliver(inputs), inputs, module)

    def call(
        self, delivered: Delivered, inputs: Inputs, module: nn.Module | None = None, *, tidy: bool = True
    ) -> Result:  # fmt: skip
        """Call the implementation with these very tensors; a `tidy` call leaves no setting behind that decides how
        numbers are computed."""
        target: Any = self.implementation.target
        if self.implementation.is_module:
            target = module if module is not None else self.module(inputs)
        kept = computing_state_kept() if tidy else nullcontext()
        with kept, torch.set_grad_enabled(self.mode == "train" and self.capabilities.gradient != "none"):
            wanted = torch.is_grad_enabled()
            self.prepare(target, delivered)
            returned = foreign(self._across, target, delivered)
            self.changed_grad_mode = torch.is_grad_enabled() != wanted
        self._synchronise()
        result = self.result_of(returned, delivered)
        self.pick = result.pick
        return result

    def form(self, target: Any) -> Form:
        """Return how the target (the kernel, or a module) is called where no `call` says so; read once."""
        if self._form is None:
            own = self.implementation
            self._form = form_of(target, own.reference, self.capabilities, own.label)
        return self._form

    def prepare(self, target: Any, sent: Delivered) -> None:
        """Find out how the target is called, before anything that traces the call. Raises UnknownCall."""
        if self.implementation.call is None:
            form = self.form(target)
            if form.packed is not None and form.axis is None:
                self._form = settled(form, target, sent)

    def _across(self, target: Any, sent: Delivered) -> object:
        """Call with tensors, or with arrays of the implementation's framework; modules see to that themselves."""
        bridge = None if self.implementation.is_module else bridge_for(self.implementation.framework)
        if bridge is None:
            return self.invoke(target, sent)
        return bridge.invoke(lambda arrays: self.invoke(target, arrays), sent)

    def invoke(self, target: Any, sent: Delivered) -> object:
        """Call the target as it is declared or recognised, and return what it returns; nothing is kept around it."""
        call = self.implementation.call
        if call is None:
            return self.form(target).invoke(target, sent)
        if sent.mask is None:
            return call(target, sent.query, sent.key, sent.value, **sent.options)
        return call(target, sent.query, sent.key, sent.value, sent.mask, **sent.options)

    def _synchronise(self) -> None:
        if self.implementation.device.startswith("cuda"):
            foreign(torch.cuda.synchronize)

    def result_of(self, returned: object, delivered: Delivered) -> Result:
        """Return output and second result out of what was returned. Raises WrongResult."""
        advice = "call=lambda f, query, key, value, mask=None: f(...)" if self._form is None else self._form.suggested
        first, second, pick = split(returned, self.capabilities.second, advice)
        if first.layout is not torch.strided or first.is_meta or first.is_quantized or first.is_nested:
            raise WrongResult(
                f"it returned a tensor {_unreadable(first)}; return a dense one of the inputs' dtype and device"
            )
        if second is not None and self.capabilities.layout == "(BH)LD":
            second = _unmerged(second, delivered.heads[0])
        return Result(self.canonical(first, delivered.heads[0]), second, delivered, pick)

    def canonically(self, delivered: Delivered) -> Delivered:
        """Return the delivered inputs in canonical axes, as they lie in memory."""
        heads, kv_heads = delivered.heads
        return replace(
            delivered,
            query=self.canonical(delivered.query, heads),
            key=self.canonical(delivered.key, kv_heads),
            value=self.canonical(delivered.value, kv_heads),
        )

    def canonical(self, tensor: Tensor, heads: int) -> Tensor:
        """Return a tensor of so many heads (a result, what was delivered, its gradient) in canonical axes."""
        return from_layout(tensor, self.capabilities.layout, heads)


def _unreadable(tensor: Tensor) -> str:
    """Say why the values of a tensor cannot be read as they are."""
    if tensor.is_meta:
        return "without values, on the device meta"
    if tensor.is_nested:
        return "of nested tensors"
    return "of quantised values" if tensor.is_quantized else f"whose layout is {tensor.layout}"


def heads_of(inputs: Inputs) -> tuple[int, int]:
    """Return the number of heads of the query, and of key and value."""
    return inputs.case.heads, inputs.case.kv_heads or inputs.case.heads


def _unmerged(second: Tensor, heads: int) -> Tensor:
    """Return a second result (BH, ...) as (B, H, ...)."""
    return second if not second.dim() or second.shape[0] % heads else second.unflatten(0, (-1, heads))


def modes_of(implementation: Implementation) -> tuple[str, ...]:
    """Return the modes in which an implementation can differ."""
    return MODES if has_two_modes(implementation) else MODES[-1:]


def has_two_modes(implementation: Implementation) -> bool:
    """Say whether train and eval can differ for it."""
    return implementation.capabilities.gradient != "none" or implementation.is_module
