"""What a rule works with: one implementation, one dtype, one mode, one case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..bridges import underflow_of
from ..cases.case import Case
from ..cases.inputs import Inputs, make
from ..fitting import Excluded, fit
from ..foreign.edge import Raised, foreign
from ..oracle.comparing import Departure, NotApplicable, require_dtype, require_equal, require_near, require_shape
from ..oracle.expectations import Expectation, Near, expect, expect_of
from ..oracle.gradients import expected_gradients, upstream_of
from .subject import Result, Subject, heads_of

INPUT_NAMES = ("query", "key", "value")


class Trial:
    """One case of one rule. Results are compared as they come; the worst ratio is kept in `ratio`, and `remark` is what a
    rule that holds has to say all the same."""

    def __init__(self, subject: Subject, case: Case) -> None:
        self.subject = subject
        self.case = case
        self.dtype = subject.dtype
        self.mode = subject.mode
        self.capabilities = subject.capabilities
        self.is_module = subject.implementation.is_module
        self.ratio: float | None = None
        self.remark = ""
        self.module: nn.Module | None = None

    @property
    def inputs(self) -> Inputs:
        """The canonical tensors of the case; nobody writes to them."""
        return make(self.case, self.is_module, self.dtype)

    def at(self, case: Case) -> Trial:
        """Return a trial of another case by the same subject; its ratios count here.

        Raises NotApplicable where a capability rules the case out.
        """
        fitted = fit(replace(case, draw=self.case.draw), self.subject.implementation)
        if isinstance(fitted, Excluded):
            raise NotApplicable(fitted.capability)
        other = Trial(self.subject, fitted)
        other.note = self.note  # type: ignore[method-assign]
        other.module = self.module
        return other

    def keep_module(self) -> None:
        """Use one new module for every call of this trial and of those made by `at`; nothing to do for a kernel.

        Parameters depend on the sizes of heads only, so that cases of equal heads can share a module.
        """
        if self.is_module:
            self.module = self.subject.fresh(self.inputs)

    def run(self, inputs: Inputs | None = None) -> Result:
        """Call the implementation with the inputs of the case, or changed ones."""
        return self.subject.run(self.inputs if inputs is None else inputs, self.module)

    def expectation(self, inputs: Inputs | None = None) -> Expectation:
        """Return what a sound implementation gives."""
        setting = self.subject.setting_for(self.inputs if inputs is None else inputs)
        if inputs is None or inputs is self.inputs:
            return expect(self.case, setting, self.dtype)
        return expect_of(inputs, setting)

    def note(self, ratio: float) -> None:
        """Take a ratio of error to allowance into account; the worst is kept."""
        self.ratio = ratio if self.ratio is None else max(self.ratio, ratio)

    def near(
        self, what: str, actual: Tensor, near: Near, inputs: Inputs | None = None, ignore: Tensor | None = None
    ) -> None:
        """Compare within the allowance and note the ratio."""
        underflow = underflow_of(self.subject.implementation.framework)
        near = Near(near.value, near.allowed + underflow) if underflow else near
        self.note(require_near(what=what, actual=actual, near=near, inputs=inputs or self.inputs, ignore=ignore))

    def agrees(self, result: Result, inputs: Inputs | None = None) -> None:
        """Compare the output with the expectation."""
        expectation = self.expectation(inputs)
        self.near("output", result.output, expectation.output, inputs, expectation.unspecified_rows)

    def unchanged(self, what: str, actual: Tensor, before: Tensor, allowed: Tensor, inputs: Inputs) -> None:
        """Compare two runs that sound code makes alike: bit for bit, or within both allowances where it is not
        deterministic."""
        if self.capabilities.deterministic == "no":
            self.near(what, actual, Near(before.detach().double(), 2 * allowed), inputs)
        else:
            require_equal(what=what, actual=actual, expected=before, inputs=inputs)

    def weights(self, result: Result, inputs: Inputs | None = None) -> Tensor:
        """Return the second result where it holds weights per head. Raises NotApplicable where there is none."""
        second = self.capabilities.second
        if second == "optional weights" and result.second is None:
            raise NotApplicable("second: no weights are returned")
        if second not in ("weights", "optional weights"):
            raise NotApplicable(f"second={second!r}")
        if result.second is None:
            raise Departure("no second result was returned", inputs=inputs or self.inputs, declare="second=None")
        shape = tuple(self.expectation(inputs).truth.weights.shape)
        require_shape(what="second result (weights)", actual=result.second, shape=shape, inputs=inputs or self.inputs)
        return result.second

    # Gradients

    def backward(
        self,
        result: Result,
        wanted: Mapping[str, Tensor],
        inputs: Inputs,
        through: str = "output",
        twice: bool = False,
    ) -> dict[str, Tensor | None]:
        """Differentiate a result with respect to some delivered tensors; None where nothing arrives.

        With `twice` the gradients can be differentiated again.
        """
        targets, upstreams = [], []
        for part in through.split(" and "):
            target = self._target(result, inputs, part)
            upstream = _copy(upstream_of(inputs, part)).to(target.device)
            targets.append(target)
            upstreams.append(upstream if part == "output" else upstream.to(target.dtype))
        leaves, kept = list(wanted.values()), {"retain_graph": True, "create_graph": twice}
        found: Sequence[Tensor | None]
        try:
            found = foreign(torch.autograd.grad, targets, leaves, upstreams, allow_unused=True, **kept)
        except Raised as error:
            # Checkpoints that are entered anew offer the accumulation in leaves only.
            if "incompatible with .grad()" not in error.text:
                raise
            found = _accumulated(targets, leaves, upstreams, kept)
        return dict(zip(wanted, found, strict=True))

    def _target(self, result: Result, inputs: Inputs, part: str) -> Tensor:
        """Return the result that is differentiated.

        A logsumexp, or weights averaged for the eye, may stand outside the graph; output and weights may not.
        """
        if part == "output":
            require_dtype(what="output", actual=result.output, dtype=self.dtype, inputs=inputs)
            target = result.output
        else:
            target = self.second_result(result, inputs, part)
        if target.requires_grad:
            return target
        if part not in ("output", "weights"):
            raise NotApplicable(f"second={self.capabilities.second!r}: the {part} is outside the graph")
        raise Departure(f"the {part} does not require a gradient although its inputs do", inputs=inputs)

    def second_result(self, result: Result, inputs: Inputs, part: str) -> Tensor:
        """Return the second result of the kind `part` in its right shape."""
        if part == "weights":
            return self.weights(result, inputs)
        if result.second is None:
            raise Departure("no second result was returned", inputs=inputs, declare="second=None")
        shape = tuple(upstream_of(inputs, part).shape)
        require_shape(what=f"second result ({part})", actual=result.second, shape=shape, inputs=inputs)
        return result.second

    @property
    def second(self) -> str | None:
        """The kind of the second result: `weights`, `averaged weights`, `lse`, `lse2` or None."""
        declared = self.capabilities.second
        return "weights" if declared == "optional weights" else declared

    def input_gradients(
        self, result: Result, inputs: Inputs | None = None, through: str = "output"
    ) -> dict[str, Tensor]:
        """Return the gradients of the inputs and the bias in canonical axes; a missing one is a Departure."""
        inputs = inputs or self.inputs
        sent = result.delivered
        wanted = {name: getattr(sent, name) for name in INPUT_NAMES}
        if isinstance(sent.options.get("bias"), Tensor):
            wanted["bias"] = sent.options["bias"]
        found = self.backward(result, wanted, inputs, through)
        gradients = {}
        for name, gradient in found.items():
            if gradient is None:
                if name == "value" and "output" not in through:
                    continue
                raise Departure(f"no gradient reaches the {name}", inputs=inputs, ratio=float("inf"))
            gradients[name] = self.canonical(gradient, name, inputs)
        return gradients

    def canonical(self, tensor: Tensor, name: str, inputs: Inputs | None = None) -> Tensor:
        """Return an input as it was delivered, or its gradient, in canonical axes; a bias has no others."""
        if name == "bias":
            return tensor
        heads, kv_heads = heads_of(inputs or self.inputs)
        return self.subject.canonical(tensor, heads if name == "query" else kv_heads)

    def expected_gradients(self, inputs: Inputs | None = None, through: str = "output") -> Mapping[str, Near]:
        """Return the gradients that a sound implementation gives."""
        return expected_gradients(self.expectation(inputs), through)

    def expected_sums(self, inputs: Inputs | None = None, through: str = "output") -> Mapping[str, Near]:
        """Return the expected gradients; a tensor that serves several arguments has their sum under each name."""
        return self.sums(self.expected_gradients(inputs, through), (inputs or self.inputs).case.shared)

    def sums(self, expected: Mapping[str, Near], shared: str | None = None) -> Mapping[str, Near]:
        """Return gradients per argument as they arrive at the tensors that serve the arguments."""
        shared = self.case.shared if shared is None else shared
        return summed(expected, shared) if shared else expected

    def joined(self, inputs: Inputs) -> Inputs:
        """Return changed inputs in which the key stands for every argument that is no tensor of its own."""
        others = {name: inputs.key for name in ("query", "value") if self._is_the_key(name)}
        return inputs.changed(**others) if others else inputs

    def _is_the_key(self, name: str) -> bool:
        return self.capabilities.inputs == "self" or (name == "value" and self.capabilities.inputs == "context")

    def spread(self, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return query, key and value where `tensors` are the distinct ones."""
        return {name: tensors[min(place, len(tensors) - 1)] for place, name in enumerate(INPUT_NAMES)}

    def gradients_agree(self, result: Result, inputs: Inputs | None = None, through: str = "output") -> None:
        """Compare the gradients of all inputs with the expected ones."""
        found = self.input_gradients(result, inputs, through)
        expected = self.expected_sums(inputs, through)
        for name, gradient in found.items():
            self.near(f"gradient of the {name}{_by(through)}", gradient, expected[name], inputs)

    def replace_capabilities(self, **answers: Any) -> Trial:
        """Return a trial of the same case under other declared answers."""
        implementation = self.subject.implementation
        changed = replace(implementation, capabilities=replace(self.capabilities, **answers))
        return Trial(self.subject.twin(implementation=changed), self.case)


def _by(through: str) -> str:
    return "" if through == "output" else f" through the {through}"


def _accumulated(
    targets: list[Tensor], leaves: list[Tensor], upstreams: list[Tensor], kept: Mapping[str, bool]
) -> list[Tensor | None]:
    """Differentiate by what is accumulated in the leaves, and leave them as they were."""
    before = [leaf.grad for leaf in leaves]
    try:
        for leaf in leaves:
            leaf.grad = None
        foreign(torch.autograd.backward, targets, upstreams, **kept)
        return [leaf.grad for leaf in leaves]
    finally:
        for leaf, gradient in zip(leaves, before, strict=True):
            leaf.grad = gradient


def _copy(tensor: Tensor) -> Tensor:
    """Return a copy with the strides of the original, so that foreign code cannot write into a shared tensor."""
    if 0 in tensor.stride():
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype).copy_(tensor)


def summed(expected: Mapping[str, Near], shared: str) -> dict[str, Near]:
    """A tensor that serves several arguments gets the sum of their gradients; autograd returns it for each name."""
    names = INPUT_NAMES if shared == "qkv" else ("key", "value")
    value = sum((expected[name].value for name in names[1:]), expected[names[0]].value)
    allowed = sum((expected[name].allowed for name in names[1:]), expected[names[0]].allowed)
    return {**expected, **{name: Near(value, allowed) for name in names}}
