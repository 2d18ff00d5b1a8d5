"""Purity: a call changes nothing but its result, and depends on nothing but its arguments."""

from __future__ import annotations

import itertools
from dataclasses import replace

import torch
from torch import Tensor

from ..calling.delivered import Delivered
from ..cases.case import MASKED, PLAIN, SMALL, SMALL_MASKED, Case, Mask, vary
from ..cases.inputs import Inputs
from ..dtypes import DTYPES
from ..experiments.global_state import elsewhere, global_state, same, shown_change
from ..fitting import Excluded, fit
from ..foreign.process_state import process_state_kept
from ..oracle.comparing import Departure, NotApplicable, require_equal
from ..rulebook import rule
from ..trials.subject import Result, Subject
from ..trials.trial import Trial


@rule(
    "PURITY-001",
    source="Known kind of fault: mutation; query scaled in place, mask filled in place (microsoft/onnxruntime#20555, Shujun-He/RibonanzaNet#7)",
    cases=(
        Case("mask of floats", mask=Mask("random", "LS", ("number",), numbers="float")),
        Case("tail hidden from all", mask=Mask("tail hidden", "LS")),
        PLAIN,
        MASKED,
        Case("additive mask", mask=Mask("random", "BHLS", ("additive", "number"))),
    ),
)
def inputs_and_mask_are_left_as_they_were(trial: Trial) -> None:
    """Inputs, mask and options hold the same values after a call, and after a backward pass."""
    delivered = trial.subject.deliver(trial.inputs)
    if trial.mode == "train" and trial.capabilities.gradient != "none":
        result, before = _on_copies(trial)
        trial.gradients_agree(result)
    else:
        before = {name: tensor.detach().clone() for name, tensor in delivered.tensors().items()}
        result = trial.subject.call(delivered, trial.inputs)
    for name, tensor in result.delivered.tensors().items():
        require_equal(what=f"{name} after the call", actual=tensor.detach(), expected=before[name], inputs=trial.inputs)


def _on_copies(trial: Trial) -> tuple[Result, dict[str, Tensor]]:
    delivered = trial.subject.deliver(trial.inputs)
    before = {name: tensor.detach().clone() for name, tensor in delivered.tensors().items()}
    return trial.subject.call(delivered, trial.inputs), before


@rule(
    "PURITY-002",
    source="races, uninitialised memory, hidden randomness",
    cases=(PLAIN, MASKED, SMALL, Case("past a block, repeated", batch=1, heads=2, queries=33, keys=65)),
    needs={"deterministic": ("yes", "forward")},
)
def same_call_gives_the_same_bits(trial: Trial) -> None:
    """The same call gives the same bits each time."""
    first = trial.run()
    kept = first.output.detach().clone()
    # Enough calls to meet a fault of every eighth one on the smallest case.
    for _ in range(8 if trial.case.queries < 4 else 2):
        second = trial.run()
        require_equal(what="output of the same call again", actual=second.output, expected=kept, inputs=trial.inputs)
        if first.second is not None and second.second is not None:
            require_equal(
                what="second result of the same call again",
                actual=second.second,
                expected=first.second,
                inputs=trial.inputs,
            )


@rule(
    "PURITY-003",
    source="Known kind of fault: stale state; a mask, length or dtype of an earlier call is kept (flashinfer-ai/flashinfer#1028, facebookresearch/xformers#655)",
    cases=(SMALL,),
    depends=("layout", "scale", "causal", "mask_means"),
)
def earlier_calls_leave_no_trace(trial: Trial) -> None:
    """Calls with other masks, lengths, values and options in between change nothing."""
    trial.keep_module()
    between = [
        vary(SMALL, "longer, in between", queries=5, keys=6),
        vary(SMALL, "shorter, in between", queries=2, keys=3),
        vary(SMALL, "other values, in between", seed=1),
    ]
    if trial.capabilities.mask:
        between += [
            vary(SMALL, "masked, in between", mask=Mask("random", "LS")),
            vary(SMALL, "other mask", mask=Mask("single", "LS")),
            vary(SMALL, "masked again", mask=Mask("random", "LS"), seed=3),
            vary(SMALL, "padded", mask=Mask("padding", "B11S")),
        ]
    if trial.capabilities.causal in ("top-left", "bottom-right"):
        between += [vary(SMALL, "causal, in between", causal=True, queries=4)]
    for case in _fitting(trial, between):
        other = trial.at(case)
        other.agrees(other.run())
        trial.agrees(trial.run())


def _fitting(trial: Trial, cases: list[Case]) -> list[Case]:
    fitted = [fit(case, trial.subject.implementation) for case in cases]
    return [case for case in fitted if not isinstance(case, Excluded)]


@rule("PURITY-004", source="Buffers that are reused for the next result", cases=(SMALL,))
def results_are_not_overwritten_later(trial: Trial) -> None:
    """A result keeps its values when the implementation is called again with other values of the same shape."""
    trial.keep_module()
    first = trial.run()
    output = first.output.detach().clone()
    second = None if first.second is None else first.second.detach().clone()
    for case in _fitting(trial, [vary(SMALL, "other values, later", seed=2)]):
        trial.at(case).run()
    require_equal(what="output after a later call", actual=first.output, expected=output, inputs=trial.inputs)
    if first.second is not None and second is not None:
        require_equal(
            what="second result after a later call", actual=first.second, expected=second, inputs=trial.inputs
        )


@rule(
    "PURITY-005",
    source="A result that is a view of an input changes with it",
    cases=(PLAIN, Case("one key, aliased", keys=1, queries=1, value_width=8)),
)
def result_shares_no_memory_with_its_inputs(trial: Trial) -> None:
    """The output shares no memory with query, key, value or mask."""
    result = trial.run()
    for name, tensor in result.delivered.tensors().items():
        if tensor.numel() and result.output.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr():
            raise Departure(f"the output lies in the memory of the {name}", inputs=trial.inputs)


@rule("PURITY-006", source="Global state belongs to the caller", cases=(SMALL, SMALL_MASKED), dtypes="once")
def global_state_is_left_alone(trial: Trial) -> None:
    """A call leaves the random generator, default dtype, grad mode, threads, precision and warnings as they were."""
    delivered = trial.subject.deliver(trial.inputs)
    with elsewhere():
        untouched = global_state()
        # What a library sets up when it is first used (a compiler its cache, say) is put back, and not judged.
        with process_state_kept():
            trial.run()
        before = global_state()
        trial.subject.call(delivered, trial.inputs, trial.module, tidy=False)
        after = global_state()
    if trial.subject.changed_grad_mode:
        raise Departure("the call switched gradients on or off for what comes after it", inputs=trial.inputs)
    for first, second in ((untouched, before), (before, after)):
        for name, value in first.items():
            if not same(value, second[name]):
                shown = "" if isinstance(value, Tensor) else shown_change(value, second[name])
                raise Departure(f"the call changed the {name}{shown}", inputs=trial.inputs)


@rule(
    "PURITY-007",
    source="Reports of dropout at evaluation, and of paths that differ by mode (MODE)",
    cases=(PLAIN, MASKED),
    modes=("eval",),
    kinds=("module",),
)
def train_without_dropout_equals_eval(trial: Trial) -> None:
    """Train and eval give the same output where no dropout was asked for, with and without gradients."""
    trial.agrees(trial.run())
    trained = Trial(trial.subject.in_mode("train"), trial.case)
    trained.agrees(trained.run())
    trial.agrees(trial.run())


@rule(
    "PURITY-008",
    source="Other dtypes in between: constants and caches keep the first dtype",
    cases=(SMALL_MASKED,),
    dtypes="once",
)
def other_dtypes_in_between_change_nothing(trial: Trial) -> None:
    """Calls in other dtypes in between, in every order, change neither the values nor the dtype of a result."""
    if trial.is_module:
        raise NotApplicable("a module has one dtype at a time")
    declared = [dtype for dtype in DTYPES if dtype in trial.capabilities.dtypes]
    for first, second in itertools.permutations(declared, 2):
        for dtype in (first, second):
            other = Trial(Subject(trial.subject.implementation, dtype, trial.mode), trial.case)
            other.agrees(other.run())


@rule(
    "PURITY-009",
    source="Atomic sums in a backward pass (a known kind of fault: determinism)",
    cases=(PLAIN,),
    modes=("train",),
    needs={"deterministic": "yes", "gradient": ("once", "twice")},
)
def same_backward_gives_the_same_bits(trial: Trial) -> None:
    """The same backward pass gives the same bits each time."""
    first = trial.input_gradients(trial.run())
    second = trial.input_gradients(trial.run())
    for name, gradient in first.items():
        require_equal(
            what=f"gradient of the {name}, again", actual=second[name], expected=gradient, inputs=trial.inputs
        )


@rule(
    "PURITY-010",
    source="torch.nn.Module: mode, parameters and their gradients belong to the caller",
    cases=(SMALL, SMALL_MASKED),
    kinds=("module",),
    dtypes="once",
)
def module_is_left_as_it_was(trial: Trial) -> None:
    """A call leaves the mode, parameters, buffers and gradients of a module as they were."""
    trial.keep_module()
    module = trial.module or trial.subject.fresh(trial.inputs)
    for parameter in module.parameters():
        parameter.grad = torch.ones_like(parameter)
    before = {name: tensor.detach().clone() for name, tensor in module.state_dict().items()}
    trial.run()
    if module.training != (trial.mode == "train"):
        raise Departure(
            f"the call left the module in {'train' if module.training else 'eval'} mode", inputs=trial.inputs
        )
    for name, tensor in module.state_dict().items():
        require_equal(
            what=f"{name} after the call",
            actual=tensor.detach(),
            expected=before.get(name, tensor),
            inputs=trial.inputs,
        )
    for name, parameter in module.named_parameters():
        if parameter.grad is None or not bool((parameter.grad == 1).all()):
            raise Departure(f"the call changed the gradient that was stored for {name}", inputs=trial.inputs)


@rule(
    "PURITY-011",
    source="A cache by identity or address answers for values that are no longer there",
    cases=(SMALL, SMALL_MASKED),
    depends=("layout", "scale", "causal", "mask_means"),
)
def values_written_into_the_same_tensors_are_seen(trial: Trial) -> None:
    """New values written into the same query, key, value and mask are seen by the next call."""
    trial.keep_module()
    other = trial.at(vary(trial.case, f"{trial.case.name}, written over", seed=trial.case.seed + 1))
    sent, fresh = trial.subject.deliver(trial.inputs), trial.subject.deliver(other.inputs)
    trial.agrees(trial.subject.call(sent, trial.inputs, trial.module))
    _write(sent, fresh)
    other.agrees(trial.subject.call(sent, other.inputs, trial.module))
    _write(sent, trial.subject.deliver(trial.inputs))
    trial.agrees(trial.subject.call(sent, trial.inputs, trial.module))


def _write(sent: Delivered, fresh: Delivered) -> None:
    new = fresh.tensors()
    with torch.no_grad():
        for name, tensor in sent.tensors().items():
            tensor.copy_(new[name])


@rule(
    "PURITY-012",
    source="torch: a tensor's shape, gradient flag, gradient and hooks belong to the caller",
    cases=(SMALL, SMALL_MASKED),
)
def tensors_of_the_caller_keep_everything_but_their_values_too(trial: Trial) -> None:
    """A call leaves shape, strides, gradient flag, stored gradient and hooks of its inputs as they were."""
    sent = trial.subject.deliver(trial.inputs)
    before = {name: _outside(tensor) for name, tensor in sent.tensors().items()}
    trial.subject.call(sent, trial.inputs)
    for name, tensor in sent.tensors().items():
        after = _outside(tensor)
        for what, value in before[name].items():
            if after[what] != value:
                told = f"the call changed the {what} of the {name}: {value} before, {after[what]} after"
                raise Departure(told, inputs=trial.inputs)


def _outside(tensor: Tensor) -> dict[str, object]:
    """Return what a tensor is apart from its values."""
    return {
        "shape": tuple(tensor.shape),
        "strides": tensor.stride(),
        "dtype": tensor.dtype,
        "address": tensor.data_ptr(),
        "gradient flag": tensor.requires_grad,
        "gradient": tensor.grad is None,
        "hooks": len(tensor._backward_hooks or ()),
    }


@rule(
    "PURITY-013",
    source="Buffers made under inference_mode or no_grad and used again where gradients are recorded",
    cases=(SMALL, SMALL_MASKED),
    modes=("train",),
    needs={"gradient": ("once", "twice")},
)
def calls_without_gradients_in_between_change_no_gradient(trial: Trial) -> None:
    """Calls under no_grad and inference_mode before a call with gradients change neither its output nor its gradients."""
    trial.keep_module()
    for guard in (torch.no_grad, torch.inference_mode):
        with guard():
            trial.subject.in_mode("eval").run(trial.inputs, trial.module)
        if trial.module is not None:
            trial.module.train()
        result = trial.run()
        trial.agrees(result)
        trial.gradients_agree(result)


@rule(
    "PURITY-014",
    source="State of a class or of the process where it belongs to one module",
    cases=(SMALL,),
    kinds=("module",),
)
def two_modules_do_not_share_anything(trial: Trial) -> None:
    """Two modules of one size with other parameters, used in turn, each give their own output."""
    others = _other_parameters(trial.inputs)
    first, second = trial.subject.fresh(trial.inputs), trial.subject.fresh(others)
    for module, inputs in ((first, trial.inputs), (second, others), (first, trial.inputs)):
        trial.agrees(trial.subject.run(inputs, module), inputs)


def _other_parameters(inputs: Inputs) -> Inputs:
    """Return the inputs with the parameters turned round."""
    drawn = inputs.parameters
    if drawn is None:
        return inputs
    turned = (
        {role: tensor.flip(-1).neg() for role, tensor in group.items()}
        for group in (drawn.full, drawn.head, drawn.bias)
    )
    return inputs.changed(parameters=replace(drawn, **dict(zip(("full", "head", "bias"), turned, strict=True))))


@rule(
    "PURITY-015",
    source="Parameters packed, converted or merged once and kept (weights that are updated in place are not seen)",
    cases=(SMALL,),
    kinds=("module",),
)
def parameters_are_read_at_each_call(trial: Trial) -> None:
    """Parameters that are updated in place, as an optimiser does, are seen by the next call."""
    others = _other_parameters(trial.inputs)
    module, layout = trial.subject.fresh(trial.inputs), trial.subject.layout(trial.inputs)
    trial.agrees(trial.subject.run(trial.inputs, module))
    if others.parameters is not None:
        layout.write(module, others.parameters)
    trial.agrees(trial.subject.run(others, module), others)
