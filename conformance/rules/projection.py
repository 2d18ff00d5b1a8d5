"""Projections: what makes a module of a kernel."""

from __future__ import annotations

import copy
import io
import pickle

import torch
from torch import nn

from ..cases import MASKED, PADDED, PLAIN, Case, Mask
from ..comparing import Departure, require_equal
from ..edge import foreign
from ..inputs import ROLES
from ..rulebook import rule
from ..trial import Trial

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
    subject, inputs = trial.subject, trial.inputs
    layout, module = subject.layout(inputs), subject.module(inputs)
    result = trial.run()
    named = {name: tensor for name, tensor in module.named_parameters() if name in layout.names}
    found = trial.backward(result, named, inputs)
    missing = [name for name, gradient in found.items() if gradient is None]
    if missing:
        raise Departure(f"no gradient reaches the parameter {missing[0]}", inputs=inputs)
    gradients = layout.gather({name: gradient for name, gradient in found.items() if gradient is not None})
    expected = trial.expected_gradients()
    for name, gradient in gradients.items():
        near = expected[name]
        trial.near(f"gradient of {name}", gradient.reshape(near.value.shape), near)


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
