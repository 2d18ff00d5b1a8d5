"""Projections: what makes a module of a kernel."""

from __future__ import annotations

import copy
import io
import pickle

import torch
from torch import nn

from ..cases.case import MASKED, PADDED, PLAIN, SMALL, Case, Mask, vary
from ..cases.inputs import ROLES, Drawn
from ..dtypes import torch_dtype
from ..experiments.training import holding, parameters_agree, the_rest_agrees
from ..foreign.edge import foreign
from ..oracle.comparing import Departure, NotApplicable, require_equal
from ..oracle.expectations import Near
from ..rulebook import rule
from ..trials.trial import INPUT_NAMES, Trial

MODULE = ("module",)
_HEADS = tuple(
    Case(f"{heads} heads of {width}", heads=heads, width=width) for heads, width in ((1, 8), (2, 3), (3, 5), (8, 4))
)


@rule(
    "PROJECTION-001",
    source="Document 1, section 3 (view and transpose split and merge heads)",
    cases=(
        PLAIN,
        *_HEADS,
        Case("H = L", heads=5, queries=5),
        Case("H = D", heads=8),
        Case("L = S, masked", queries=6, keys=6, mask=Mask("random", "BHLS")),
    ),
    kinds=MODULE,
)
def heads_are_split_and_merged_in_order(trial: Trial) -> None:
    """Heads are consecutive slices of the projected features, split and merged in the same order."""
    trial.agrees(trial.run())


@rule(
    "PROJECTION-002",
    source="Document 1, section 3 (W_q, W_k, W_v, W_o)",
    cases=(PLAIN,),
    kinds=MODULE,
    needs={"inputs": "cross"},
)
def each_projection_gets_its_own_input(trial: Trial) -> None:
    """Query, key and value are projected from their own inputs: changing one changes only what depends on it."""
    inputs = trial.inputs
    for name in ("query", "key", "value"):
        changed = inputs.changed(**{name: getattr(inputs, name).flip(0) * 2})
        trial.agrees(trial.run(changed), changed)


@rule(
    "PROJECTION-003",
    source="Document 1, section 3: four linear maps with bias",
    cases=(PLAIN, MASKED),
    kinds=MODULE,
    modes=("train",),
    needs={"gradient": ("once", "twice")},
)
def parameters_get_their_gradients(trial: Trial) -> None:
    """Every weight and bias of the projections gets the gradient that the definition gives."""
    parameters_agree(trial, trial.run(), trial.subject.module(trial.inputs), trial.inputs)


@rule(
    "PROJECTION-004",
    source="torch.nn.Module: what is not registered is not trained, moved or saved",
    cases=(PLAIN,),
    kinds=MODULE,
    dtypes="once",
)
def parameters_are_registered_and_independent(trial: Trial) -> None:
    """The projections are registered parameters that ask for gradients, and no two of them share memory."""
    subject, inputs = trial.subject, trial.inputs
    module, layout = subject.fresh(inputs), subject.layout(inputs)
    parameters = dict(module.named_parameters(remove_duplicate=False))
    for name in layout.names:
        if name not in parameters:
            raise Departure(f"{name} is a buffer, not a parameter", inputs=inputs)
        if not parameters[name].requires_grad:
            raise Departure(f"{name} asks for no gradient", inputs=inputs)
    places: dict[int, str] = {}
    for name in layout.names:
        other = places.setdefault(parameters[name].data_ptr(), name)
        if other != name and parameters[name].numel():
            raise Departure(f"{other} and {name} lie in the same memory", inputs=inputs)


@rule("PROJECTION-005", source="torch.nn.Module.state_dict (SNAP)", cases=(PLAIN, PADDED), kinds=MODULE, dtypes="first")
def state_dict_holds_everything(trial: Trial) -> None:
    """A second module that loads the state_dict gives the same bits."""
    subject, inputs = trial.subject, trial.inputs
    first = subject.fresh(inputs)
    expected = trial.subject.run(inputs, first).output
    second = subject.blank(inputs)
    buffer = io.BytesIO()
    torch.save(first.state_dict(), buffer)
    buffer.seek(0)
    foreign(second.load_state_dict, torch.load(buffer, weights_only=True))
    trial.agrees(subject.run(inputs, second))
    require_equal(
        what="output after loading the state_dict",
        actual=subject.run(inputs, second).output,
        expected=expected,
        inputs=inputs,
    )


@rule(
    "PROJECTION-006",
    source="Reports of modules that keep graph tensors, lambdas or shared state (sktime/sktime#10928, TransformerLensOrg/TransformerLens#1229)",
    cases=(PLAIN,),
    kinds=MODULE,
    dtypes="once",
)
def copies_work_and_are_independent(trial: Trial) -> None:
    """After a call a module can be deep-copied and pickled; a copy gives the same bits and shares no parameter."""
    subject, inputs = trial.subject, trial.inputs
    module = subject.fresh(inputs)
    expected = subject.run(inputs, module).output.detach().clone()
    for how, twin in (("deepcopy", foreign(copy.deepcopy, module)), ("pickle", _pickled(trial, module))):
        if twin is None:
            continue
        require_equal(
            what=f"output of a {how}", actual=subject.run(inputs, twin).output, expected=expected, inputs=inputs
        )
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.zero_()
        require_equal(
            what=f"output of the original after its {how} was changed",
            actual=subject.run(inputs, module).output,
            expected=expected,
            inputs=inputs,
        )


def _pickled(trial: Trial, module: nn.Module) -> nn.Module | None:
    """Return a pickled copy; None where the class itself cannot be found again by name, which is no fault of the module."""
    kind = type(module)
    if "<locals>" in kind.__qualname__ or kind.__module__ == "__main__":
        return None
    twin: nn.Module = foreign(pickle.loads, foreign(pickle.dumps, module))
    return twin


@rule(
    "PROJECTION-007",
    source="Constants that keep the dtype in which they were made (DTYPE)",
    cases=(MASKED,),
    kinds=MODULE,
)
def module_follows_its_dtype(trial: Trial) -> None:
    """After `.to(dtype)` every parameter and buffer, and the output, have that dtype."""
    module = trial.subject.fresh(trial.inputs)
    wanted = trial.inputs.query.dtype
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        if tensor.is_floating_point() and tensor.dtype != wanted:
            raise Departure(f"{name} has dtype {tensor.dtype} after .to({wanted})", inputs=trial.inputs)
    result = trial.run()
    if result.output.dtype != wanted:
        raise Departure(f"the output has dtype {result.output.dtype} after .to({wanted})", inputs=trial.inputs)
    trial.agrees(result)


@rule("PROJECTION-008", source="Two instances of one class share nothing", cases=(PLAIN,), kinds=MODULE, dtypes="once")
def two_instances_are_independent(trial: Trial) -> None:
    """Two instances share no parameter, and a call of one does not change what the other returns."""
    subject, inputs = trial.subject, trial.inputs
    first, second = subject.fresh(inputs), subject.blank(inputs)
    places = {parameter.data_ptr() for parameter in first.parameters() if parameter.numel()}
    shared = [
        name for name, parameter in second.named_parameters() if parameter.data_ptr() in places and parameter.numel()
    ]
    if shared:
        raise Departure(f"two instances share the parameter {shared[0]}", inputs=inputs)
    expected = subject.run(inputs, first).output.detach().clone()
    subject.run(inputs, second)
    require_equal(
        what="output after a call of another instance",
        actual=subject.run(inputs, first).output,
        expected=expected,
        inputs=inputs,
    )


@rule(
    "PROJECTION-009",
    source="Document 1, section 3: forward is repeatable after training steps",
    cases=(PLAIN,),
    kinds=MODULE,
    dtypes="first",
)
def changed_parameters_change_the_output(trial: Trial) -> None:
    """After new values are put into the parameters the output follows them: nothing derived from the old ones is kept."""
    subject, inputs = trial.subject, trial.inputs
    module = subject.fresh(inputs)
    subject.run(inputs, module)
    drawn = inputs.parameters
    if drawn is None:
        return
    halved = type(drawn)(
        *({role: table[role] * 0.5 for role in ROLES} for table in (drawn.full, drawn.head, drawn.bias))
    )
    changed = inputs.changed(parameters=halved)
    subject.layout(inputs).write(module, halved)
    trial.agrees(subject.run(changed, module), changed)


@rule(
    "PROJECTION-010",
    source="Document 1, section 3: every head has rows of its own in W_q, W_k and W_v and columns in W_o",
    cases=(PLAIN, Case("one head changed, masked", mask=Mask("random", "BHLS"))),
    kinds=MODULE,
    modes=("eval",),
)
def parameters_of_a_head_belong_to_it(trial: Trial) -> None:
    """Other parameters for one head change the output as the definition says, and the weights of no other head."""
    subject, inputs, drawn = trial.subject, trial.inputs, trial.inputs.parameters
    structure = subject.layout(inputs).structure
    if drawn is None or structure.shared or structure.kv_heads is not None:
        raise NotApplicable("heads share their projections")
    head, width = 1, inputs.case.width
    rows = slice(head * width, (head + 1) * width)
    full = {role: tensor.clone() for role, tensor in drawn.full.items()}
    for role in ("query", "key"):
        full[role][rows] = full[role][rows].flip(0) * 4
    full["value"][rows] *= -2
    changed = inputs.changed(parameters=Drawn(full, drawn.head, drawn.bias))
    before, after = trial.run(), subject.run(changed, subject.fresh(changed))
    trial.agrees(after, changed)
    shape = trial.expectation().truth.weights.shape
    if before.second is None or after.second is None or before.second.shape != shape:
        return
    others = [other for other in range(inputs.case.heads) if other != head]
    kept = before.second[:, others].detach().double()
    error = 2 * trial.expectation().weights.allowed[:, others]
    trial.near("weights of the other heads", after.second[:, others], Near(kept, error), changed)


@rule(
    "PROJECTION-011",
    source="torch.optim: a step writes into the parameters in place; what was derived from them before is stale",
    cases=(PLAIN,),
    kinds=MODULE,
    modes=("train",),
    needs={"gradient": ("once", "twice")},
    dtypes="first",
)
def training_steps_reach_all_projections(trial: Trial) -> None:
    """Two steps of gradient descent change all four projections, and after each output and gradients follow them."""
    module, start = trial.subject.fresh(trial.inputs), trial.inputs
    layout = trial.subject.layout(start)
    parameters = [tensor for name, tensor in module.named_parameters() if name in layout.names]
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    inputs = start
    for step in (1, 2):
        held = {name: tensor.detach().clone() for name, tensor in module.named_parameters()}
        result = trial.subject.run(inputs, module)
        optimizer.zero_grad()
        foreign(result.output.backward, inputs.upstream.clone())
        optimizer.step()
        for name, weight in layout.gather(dict(module.named_parameters())).items():
            if name.endswith("weight") and torch.equal(weight, layout.gather(held)[name]):
                raise Departure(f"step {step} leaves {name} as it was", inputs=inputs)
        inputs = holding(module, trial, start)
        result = trial.subject.run(inputs, module)
        trial.agrees(result, inputs)
        parameters_agree(trial, result, module, inputs, f" after step {step}")


@rule(
    "PROJECTION-012",
    source="Fine-tuning freezes parameters, and inputs rarely ask for gradients: a path chosen by the first tensor's flag loses the rest",
    cases=(SMALL,),
    kinds=MODULE,
    modes=("train",),
    needs={"gradient": ("once", "twice")},
    dtypes="first",
)
def frozen_parts_leave_the_other_gradients(trial: Trial) -> None:
    """Where some parameters, or the inputs, ask for no gradient, all others get theirs unchanged."""
    layout = trial.subject.layout(trial.inputs)
    every = dict.fromkeys(layout.names)
    roles = {role: {slot.name for slot in slots} for role, slots in layout.weights.items()}
    choices = [("no input", set(INPUT_NAMES), set()), ("no parameter", set(), set(every))]
    choices += [(f"not the {role} projection", set(), names) for role, names in roles.items()]
    choices += [(f"only the {role} projection", set(INPUT_NAMES), set(every) - names) for role, names in roles.items()]
    for asking, still, frozen in choices:
        if frozen == set(every) and still:
            continue
        the_rest_agrees(trial, still, frozen, asking)


@rule(
    "PROJECTION-013",
    source="Modules that are copied or saved before they were ever called: lazily made state, methods bound to the original",
    cases=(PLAIN,),
    kinds=MODULE,
    dtypes="once",
)
def copies_made_before_the_first_call_work(trial: Trial) -> None:
    """A copy made before the first call gives the same bits, and the names in the state_dict never change."""
    subject, inputs = trial.subject, trial.inputs
    original = subject.fresh(inputs)
    names = list(original.state_dict())
    twin = foreign(copy.deepcopy, original)
    error = trial.expectation().output.allowed
    before = subject.run(inputs, twin).output.detach().clone()
    trial.agrees(subject.run(inputs, twin))
    after = subject.run(inputs, original).output
    trial.unchanged("output of the original after its copy was called", after, before, error, inputs)
    with torch.no_grad():
        for parameter in original.parameters():
            parameter.zero_()
    after = subject.run(inputs, twin).output
    trial.unchanged("output of a copy after the original was changed", after, before, error, inputs)
    if list(original.state_dict()) != names:
        new = set(original.state_dict()) ^ set(names)
        raise Departure(f"a call changed the names in the state_dict: {', '.join(sorted(new))}", inputs=inputs)


@rule(
    "PROJECTION-014",
    source="torch.nn.Module.to: a conversion that copies, casts or reorders parameters again each time",
    cases=(MASKED, PLAIN),
    kinds=MODULE,
    dtypes="exact",
)
def conversions_there_and_back_change_nothing(trial: Trial) -> None:
    """After `.double()` and the way back the module gives the bits that it gave before."""
    subject, inputs = trial.subject, trial.inputs
    module = subject.fresh(inputs)
    expected = subject.run(inputs, module).output.detach().clone()
    wanted = torch_dtype(trial.dtype)
    foreign(module.double)
    for name, parameter in module.named_parameters():
        if parameter.dtype != torch.float64:
            raise Departure(f"{name} has dtype {parameter.dtype} after .double()", inputs=inputs)
    foreign(module.to, wanted)
    foreign(module.to, device=trial.subject.implementation.device, dtype=wanted)
    found = subject.run(inputs, module).output
    error = trial.expectation().output.allowed
    trial.unchanged("output after .double() and back", found, expected, error, inputs)


@rule(
    "PROJECTION-015",
    source="Batch size or lengths of the first call kept in the module",
    cases=(PLAIN,),
    kinds=MODULE,
    dtypes="first",
)
def one_module_serves_every_batch_size(trial: Trial) -> None:
    """One module serves batches of two, three and one, and other lengths, one after the other."""
    trial.keep_module()
    sizes = ((2, 5, 7), (3, 5, 7), (1, 5, 7), (2, 8, 3), (3, 1, 1), (2, 5, 7))
    for batch, queries, keys in sizes:
        other = trial.at(
            vary(trial.case, f"batch {batch}, lengths {queries} and {keys}", batch=batch, queries=queries, keys=keys)
        )
        other.agrees(other.run())
