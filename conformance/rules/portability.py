"""Portability: the same answer under the transforms of torch. What a transform cannot do with an implementation is not asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from ..cases.case import SMALL, SMALL_MASKED, Case, Mask, vary
from ..cases.inputs import Drawn, Inputs, make
from ..experiments.autocast import gradients_under_autocast_agree, in_fp32, several, widened
from ..experiments.forward_mode import by_dual_numbers, by_func, directional, forward_tolerance, of_the_differentiated
from ..experiments.transforming import Function, as_function, compiler_reset, fresh_module, offered, sent_tensors
from ..foreign.edge import foreign
from ..oracle.comparing import Departure, NotApplicable
from ..oracle.expectations import Expectation
from ..oracle.gradients import expected_gradients
from ..rulebook import rule
from ..trials.subject import Result
from ..trials.trial import INPUT_NAMES, Trial

_CASES = (SMALL, SMALL_MASKED)
_TORCH = {"framework": "torch"}
_DIFFERENTIABLE = {**_TORCH, "gradient": ("once", "twice")}


def _listed(trial: Trial) -> None:
    """Raise NotApplicable for a variation of a listed case, by which a failure is narrowed down: each takes seconds."""
    if trial.case.name not in {case.name for case in _CASES}:
        raise NotApplicable("asked for the listed cases only")


def _longer(trial: Trial) -> Trial:
    return trial.at(vary(trial.case, f"{trial.case.name}, longer", queries=5, keys=6))


def _lengths(trial: Trial) -> Iterator[Trial]:
    """Yield the trial, others of more and fewer queries and keys, and the trial again."""
    yield trial
    yield _longer(trial)
    yield trial.at(vary(trial.case, f"{trial.case.name}, shorter", queries=2, keys=3))
    yield trial


@rule(
    "PORTABILITY-001",
    source="torch.compile with the backends eager and aot_eager (pytorch/pytorch#100318, pytorch/pytorch#158212)",
    cases=_CASES,
    dtypes="first",
    thorough=True,
    needs=_TORCH,
)
def compiled_calls_agree(trial: Trial) -> None:
    """Under torch.compile the output and the gradients agree, for the lengths first seen and for later ones.

    The backends need no compiler, so that what differs is the path taken, not generated code: `eager` without
    gradients, `aot_eager`, which traces the backward pass as well, with them.
    """
    _listed(trial)
    backend = "eager" if trial.mode == "eval" else "aot_eager"
    with offered(f"torch.compile, backend {backend}"), compiler_reset():
        run = _compiled(trial, backend)
        # Other lengths make the compiler work with symbols, which takes seconds: once is enough.
        several = trial.case.mask is not None or not trial.capabilities.mask
        for other in _lengths(trial) if several else (trial,):
            result = run(other)
            other.agrees(result)
            if result.output.requires_grad:
                other.gradients_agree(result)


def _compiled(trial: Trial, backend: str) -> Callable[[Trial], Result]:
    module = fresh_module(trial)
    subject = trial.subject
    if module is not None:
        compiled: Any = foreign(torch.compile, module, backend=backend)
        return lambda other: subject.run(other.inputs, compiled)
    target = foreign(torch.compile, subject.implementation.target, backend=backend)
    twin = subject.twin(implementation=replace(subject.implementation, target=target))
    return lambda other: twin.run(other.inputs)


class _Program(nn.Module):
    """Holds a function and the module in it, as torch.export asks for."""

    def __init__(self, function: Function, module: nn.Module | None) -> None:
        super().__init__()
        self.module, self.function = module, function

    def forward(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        return self.function(query, key, value, mask)


@rule(
    "PORTABILITY-002",
    source="torch.export (microsoft/onnxscript#656)",
    cases=_CASES,
    modes=("eval",),
    dtypes="first",
    thorough=True,
    needs=_TORCH,
)
def exported_program_agrees(trial: Trial) -> None:
    """A program exported by torch.export gives what the definition gives, for other values as well."""
    _listed(trial)
    _seen_before(trial)
    other = trial.at(vary(trial.case, f"{trial.case.name}, other values", seed=5))
    with offered("torch.export"), torch.no_grad():
        _exported_agrees(_exported(trial, None), trial, other)


@rule(
    "PORTABILITY-003",
    source="torch.export with a dynamic length (huggingface/transformers#47617)",
    cases=_CASES,
    modes=("eval",),
    dtypes="first",
    thorough=True,
    needs=_TORCH,
)
def exported_program_agrees_at_other_lengths(trial: Trial) -> None:
    """A program that torch.export made for any length gives what the definition gives at another length."""
    _listed(trial)
    longer = _longer(trial)
    _seen_before(longer, trial)
    with offered("torch.export with dynamic lengths"), torch.no_grad():
        _exported_agrees(_exported(trial, _dynamic_axes(sent_tensors(trial), sent_tensors(longer))), trial, longer)


def _seen_before(*trials: Trial) -> None:
    """Call plainly first, so that nothing is traced into a table that the implementation keeps for later calls."""
    for trial in trials:
        trial.run()


def _exported_agrees(run: Function, *trials: Trial) -> None:
    for trial in trials:
        trial.near("output of the exported program", foreign(run, *sent_tensors(trial)), trial.expectation().output)


def _exported(trial: Trial, axes: Any) -> Function:
    module = fresh_module(trial)
    program = _Program(as_function(trial, module), module)
    exported = foreign(torch.export.export, program, sent_tensors(trial), dynamic_shapes=axes)
    runnable: Function = foreign(exported.module)
    return runnable


def _dynamic_axes(short: Sequence[Tensor | None], long: Sequence[Tensor | None]) -> dict[str, Any]:
    """Return which axes of the arguments vary: those that differ between two calls, one name for each pair of sizes."""
    dims: dict[tuple[int, int], Any] = {}
    axes: dict[str, Any] = {}
    for name, a, b in zip((*INPUT_NAMES, "mask"), short, long, strict=True):
        pairs = [] if a is None or b is None else list(zip(a.shape, b.shape, strict=True))
        varying = {axis: pair for axis, pair in enumerate(pairs) if pair[0] != pair[1]}
        for pair in varying.values():
            dims.setdefault(pair, torch.export.Dim(f"length{len(dims)}", min=2, max=64))
        axes[name] = {axis: dims[pair] for axis, pair in varying.items()} if a is not None else None
    return axes


_MAPPED = (("query", "key", "value", "mask"), ("query", "key", "value"), ("query",))
"""Which arguments of a mapped function vary; the others are the same for all."""


@rule(
    "PORTABILITY-004",
    source="torch.func.vmap (pytorch/pytorch#188764: query, key and value are flattened, the mask is not)",
    cases=(
        *_CASES,
        Case("small with mask per head", batch=2, heads=2, queries=3, keys=4, width=4, mask=Mask("random", "BHLS")),
    ),
    modes=("eval",),
    dtypes="first",
    thorough=True,
    needs=_TORCH,
)
def mapped_calls_equal_a_loop(trial: Trial) -> None:
    """Under torch.func.vmap each element of the mapped axis gives what it gives alone, mask mapped or not."""
    function = as_function(trial, fresh_module(trial))
    for mapped in _MAPPED[:2] if trial.capabilities.inputs != "cross" else _MAPPED:
        if trial.case.mask is None and "mask" in mapped:
            continue
        elements = _elements(trial, mapped)
        sent = [sent_tensors(trial, inputs) for inputs in elements]
        arguments, axes = _stacked(sent, mapped)
        with offered("torch.func.vmap"), torch.no_grad():
            outputs = foreign(torch.func.vmap(function, in_dims=axes), *arguments)
            for output, inputs in zip(outputs, elements, strict=True):
                trial.near(f"output with {', '.join(mapped)} mapped", output, trial.expectation(inputs).output, inputs)


def _elements(trial: Trial, mapped: Sequence[str]) -> list[Inputs]:
    """Return three inputs that differ in what is mapped."""
    first = trial.inputs
    own = {"query": ("query",), "key": ("key",), "value": ("value",), "mask": ("allowed", "finite")}
    names = [name for argument in mapped for name in own[argument]]
    others = [trial.at(vary(trial.case, trial.case.name, seed=seed)).inputs for seed in (1, 2)]
    return [first, *(first.changed(**{name: getattr(other, name) for name in names}) for other in others)]


def _stacked(
    sent: Sequence[tuple[Tensor | None, ...]], mapped: Sequence[str]
) -> tuple[list[Tensor | None], tuple[int | None, ...]]:
    arguments: list[Tensor | None] = []
    axes: list[int | None] = []
    for place, name in enumerate((*INPUT_NAMES, "mask")):
        tensors = [tensor for each in sent if (tensor := each[place]) is not None]
        varies = name in mapped and bool(tensors)
        arguments.append(torch.stack(tensors) if varies else sent[0][place])
        axes.append(0 if varies else None)
    return arguments, tuple(axes)


@rule(
    "PORTABILITY-005",
    source="torch.inference_mode: no path of its own (facebookresearch/xformers#655 is of this kind)",
    cases=_CASES,
    modes=("eval",),
    dtypes="first",
    thorough=True,
    needs=_TORCH,
)
def inference_mode_gives_the_same(trial: Trial) -> None:
    """Under torch.inference_mode the output agrees, with inputs made inside and outside of it."""
    trial.keep_module()
    _seen_before(trial)
    delivered = trial.subject.deliver(trial.inputs)
    with offered("torch.inference_mode"), torch.inference_mode():
        trial.agrees(trial.subject.call(delivered, trial.inputs, trial.module))
        trial.agrees(trial.run())
    trial.agrees(trial.run())


@rule(
    "PORTABILITY-006",
    source="torch.autocast on the inputs of mixed precision (pytorch/pytorch#99012, pytorch/pytorch#111276)",
    cases=(
        *_CASES,
        Case(
            "small with an additive mask",
            batch=2,
            heads=2,
            queries=3,
            keys=4,
            width=4,
            mask=Mask("random", "LS", ("additive",)),
        ),
        Case(
            "300 keys under autocast",
            values="ones value, zero query",
            batch=1,
            heads=1,
            queries=2,
            keys=300,
            width=4,
            value_width=2,
        ),
    ),
    needs={**_TORCH, "dtypes": "fp32"},
    dtypes="once",
    thorough=True,
)
def autocast_is_as_near_as_bf16(trial: Trial) -> None:
    """Under autocast to bf16 the result for fp32 inputs is as near to the definition as eager bf16 is.

    The inputs are numbers of bf16, so that casting them rounds nothing.
    """
    trial = in_fp32(trial)
    narrow = make(trial.case, trial.is_module, "bf16")
    wide = widened(narrow)
    module = fresh_module(trial, wide)
    setting = replace(trial.subject.setting_for(narrow), precision="eager")
    expected = Expectation(narrow, setting)
    trial.subject.run(wide, module)
    with offered("torch.autocast"):
        with torch.autocast(torch.device(trial.subject.implementation.device).type, dtype=torch.bfloat16):
            result = trial.subject.run(wide, module)
        if result.output.dtype not in (torch.float32, torch.bfloat16):
            raise Departure(f"output has dtype {result.output.dtype}, expected float32 or bfloat16", inputs=wide)
        trial.near("output under autocast", result.output, several(expected.output), wide)
        if result.output.requires_grad:
            gradients_under_autocast_agree(trial, result, wide, expected_gradients(expected))


@rule(
    "PORTABILITY-007",
    source="torch.func.jvp and dual numbers, against differences of the definition; <g, J x> = <J^T g, x> follows",
    cases=_CASES,
    modes=("train",),
    needs=_DIFFERENTIABLE,
    dtypes="first",
    thorough=True,
)
def forward_mode_agrees(trial: Trial) -> None:
    """The derivative in a direction, taken in forward mode, agrees with the definition's."""
    tolerance = forward_tolerance(trial)
    function = of_the_differentiated(trial, as_function(trial, fresh_module(trial)))
    tensors = [tensor for tensor in sent_tensors(trial)[: len(trial.capabilities.distinct)] if tensor is not None]
    generator = torch.Generator().manual_seed(23)
    directions = [torch.randn(tensor.shape, generator=generator, dtype=torch.float64).to(tensor) for tensor in tensors]
    near = directional(trial, tensors, directions, tolerance)
    taken = 0
    for what, forward in (("torch.func.jvp", by_func), ("dual numbers", by_dual_numbers)):
        try:
            with offered(what):
                found = forward(function, tensors, directions)
        except NotApplicable as reason:
            refused = reason
            continue
        trial.near(f"derivative in a direction by {what}", found, near)
        taken += 1
    if not taken:
        raise refused


@rule(
    "PORTABILITY-008",
    source="torch.func.grad, and vmap of it for one gradient per sample",
    cases=_CASES,
    modes=("train",),
    needs={**_DIFFERENTIABLE, "inputs": "cross"},
    dtypes="first",
    thorough=True,
)
def functional_gradients_agree(trial: Trial) -> None:
    """torch.func.grad gives the gradients of the definition, alone and mapped over an axis."""
    function, upstream = as_function(trial, fresh_module(trial)), trial.inputs.upstream
    loss = _loss(function, upstream)
    gradients_of = torch.func.grad(loss, argnums=(0, 1, 2))
    with offered("torch.func.grad"):
        found = foreign(gradients_of, *sent_tensors(trial))
        _agree(trial, found, trial.inputs, "torch.func.grad")
    elements = _elements(trial, INPUT_NAMES)
    arguments, axes = _stacked([sent_tensors(trial, inputs) for inputs in elements], INPUT_NAMES)
    with offered("torch.func.vmap of torch.func.grad"):
        mapped = foreign(torch.func.vmap(gradients_of, in_dims=axes), *arguments)
        for place, inputs in enumerate(elements):
            _agree(trial, [gradient[place] for gradient in mapped], inputs, "torch.func.vmap of torch.func.grad")


def _loss(function: Function, upstream: Tensor) -> Function:
    def loss(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
        return (function(query, key, value, mask) * upstream.to(query.device)).sum()

    return loss


def _agree(trial: Trial, found: Sequence[Tensor], inputs: Inputs, how: str) -> None:
    expected = trial.expected_gradients(inputs)
    for name, gradient in zip(INPUT_NAMES, found, strict=True):
        trial.near(f"gradient of the {name} by {how}", trial.canonical(gradient, name, inputs), expected[name], inputs)


@rule(
    "PORTABILITY-009",
    source="torch.func.functional_call: a module computes with the parameters that it is given",
    cases=_CASES,
    dtypes="first",
    kinds=("module",),
    thorough=True,
    needs=_TORCH,
)
def functional_call_takes_other_parameters(trial: Trial) -> None:
    """Under torch.func.functional_call a module computes with the parameters that it is handed, not with its own."""
    parameters = trial.inputs.parameters
    if parameters is None:
        raise NotApplicable("parameters: none are recognised")
    halved = Drawn(*({role: tensor / 2 for role, tensor in table.items()} for table in _tables(parameters)))
    inputs = trial.inputs.changed(parameters=halved)
    own, other = trial.subject.fresh(trial.inputs), trial.subject.fresh(inputs)
    program = _Program(as_function(trial, own), own)
    given = {f"module.{name}": tensor for name, tensor in other.state_dict(keep_vars=True).items()}
    with offered("torch.func.functional_call"), torch.set_grad_enabled(trial.mode == "train"):
        output = foreign(torch.func.functional_call, program, given, sent_tensors(trial))
        trial.near("output of functional_call", output, trial.expectation(inputs).output, inputs)


def _tables(parameters: Drawn) -> tuple[Mapping[str, Tensor], Mapping[str, Tensor], Mapping[str, Tensor]]:
    return parameters.full, parameters.head, parameters.bias
