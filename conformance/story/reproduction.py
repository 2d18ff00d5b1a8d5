"""A failure as a script that can be pasted: it needs only torch and the implementation.

Tensors are drawn as `inputs.make` draws them, where their family is a normal draw; others are written out.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from ..bridges import script as arrays
from ..bridges.modules import Projected
from ..calling.building import construction_of
from ..calling.delivered import Delivered
from ..cases import values
from ..cases.inputs import ROLES, Drawn, Inputs, make, parameter_seed, seed_of, shapes_of
from ..cases.layouts import lines_from, lines_to
from ..dtypes import is_half, torch_dtype
from ..goldens.inputs import vector_of
from ..oracle.expectations import allowed_of, scale_of
from ..parameters import Layout, Slot
from ..trials.subject import Subject
from ..trials.trial import Trial
from .loading import load_lines

MOST_NUMBERS = 2500
"""Tensors with more elements are not written out."""


def script(trial: Trial, inputs: Inputs) -> list[str] | None:
    """Return the lines of a script that prints the difference from the definition, or None where it cannot be told."""
    implementation = trial.subject.implementation
    loading = load_lines(implementation)
    tensors = _tensors(inputs, implementation.is_module)
    if loading is None or tensors is None:
        return None
    # The annotations of an adapter's functions name what only this package imports.
    future = ["from __future__ import annotations"] if any(line.startswith("def ") for line in loading) else []
    lines = [*_vector(inputs), *future, "import torch", *loading, *tensors, *_mask(trial, inputs)]
    if implementation.framework != "torch":
        lines += arrays.conversions(implementation.framework, inputs.dtype)
    if implementation.is_module:
        lines += _module(trial, inputs)
    lines += _call(trial, inputs)
    lines += _definition(trial, inputs)
    if _is_differentiated(trial):
        lines += _gradients(trial, inputs)
    return lines


def _is_differentiated(trial: Trial) -> bool:
    return trial.mode == "train" and trial.capabilities.gradient != "none"


def _vector(inputs: Inputs) -> list[str]:
    """Return a line that names the golden vector from which the inputs are."""
    vector = vector_of(inputs.case)
    return [] if vector is None else [f"# golden vector {vector.id}: attention_conformance/snapshots/{vector.file}"]


# Loading


# Tensors


def _tensors(inputs: Inputs, module: bool) -> list[str] | None:
    case, dtype = inputs.case, torch_dtype(inputs.dtype)
    if case.values in values.AFFINE and _is_drawn(inputs, module):
        return _drawn(inputs, module)
    named = {name: getattr(inputs, name) for name in ("query", "key", "value")}
    if sum(tensor.numel() for tensor in named.values()) > MOST_NUMBERS:
        return None
    return [f"{name} = {_literal(tensor)}.to({dtype})" for name, tensor in named.items()]


def _is_drawn(inputs: Inputs, module: bool) -> bool:
    drawn = make(inputs.case, module, inputs.dtype)
    return all(torch.equal(getattr(drawn, name), getattr(inputs, name)) for name in ("query", "key", "value"))


def _drawn(inputs: Inputs, module: bool) -> list[str]:
    case, recipe = inputs.case, values.AFFINE[inputs.case.values]
    shapes = shapes_of(case, module)
    half = recipe.half if is_half(inputs.dtype) else 1.0
    lines = [f"g = torch.Generator().manual_seed({seed_of(case)})"]
    pairs = {"query": (recipe.query, half), "key": (recipe.key, half), "value": (recipe.value, 1.0)}
    for name, ((factor, offset), more) in pairs.items():
        drawn = f"torch.randn({getattr(shapes, name)}, generator=g, dtype=torch.float64)"
        drawn = drawn if factor * more == 1 else f"{factor * more} * {drawn}"
        drawn = drawn if offset == 0 else f"{drawn} + {offset}"
        lines.append(f"{name} = ({drawn}).to({torch_dtype(inputs.dtype)})")
    if case.shared:
        lines.append("key = value = query" if case.shared == "qkv" else "value = key")
    return lines


def _literal(tensor: Tensor) -> str:
    if tensor.dtype == torch.bool:
        return f"torch.tensor({tensor.int().tolist()}).bool()"
    text = repr(tensor.double().tolist()).replace("nan", "float('nan')").replace("inf", "float('inf')")
    return f"torch.tensor({text}, dtype=torch.float64).reshape({tuple(tensor.shape)})"


def _mask(trial: Trial, inputs: Inputs) -> list[str]:
    """Return lines for `allowed`, what may be attended to, and `mask`, the same as the implementation takes it."""
    allowed = allowed_of(inputs, trial.subject.setting)
    lines = [f"allowed = {'None' if allowed is None else _literal(allowed)}"]
    mask = trial.subject.mask(inputs)
    if mask is None:
        return lines
    if mask.dtype.is_floating_point:
        text = repr(mask.double().tolist()).replace("-inf", "-INF")
        return [*lines, "INF = float('inf')", f"mask = torch.tensor({text}, dtype={mask.dtype})"]
    return [*lines, f"mask = {_literal(mask) if mask.dtype == torch.bool else f'torch.tensor({mask.tolist()})'}"]


# Modules


def _module(trial: Trial, inputs: Inputs) -> list[str]:
    case, layout = inputs.case, trial.subject.layout(inputs)
    model, width, dtype = case.heads * case.width, case.width, torch_dtype(inputs.dtype)
    lines = [f"g = torch.Generator().manual_seed({parameter_seed(case)})"]
    roles = repr(ROLES)
    if inputs.parameters is not None and vector_of(case) is not None:
        lines = _written_parameters(inputs.parameters, dtype)
    elif case.values in values.AS_THEY_ARE:
        lines += [
            f"full = {{role: torch.eye({model}, dtype={dtype}) for role in {roles}}}",
            f"head = {{role: torch.eye({width}, dtype={dtype}) for role in {roles}}}",
            f"bias = {{role: torch.zeros({model}, dtype={dtype}) for role in {roles}}}",
        ]
    else:
        normal = "torch.randn({}, generator=g, dtype=torch.float64)"
        lines += [
            f"full = {{role: ({normal.format(f'{model}, {model}')} * {model}**-0.5).to({dtype}) for role in {roles}}}",
            f"head = {{role: ({normal.format(f'{width}, {width}')} * {width}**-0.5).to({dtype}) for role in {roles}}}",
            f"bias = {{role: (0.5 * {normal.format(f'{model}')}).to({dtype}) for role in {roles}}}",
        ]
    target = trial.subject.implementation.target
    if isinstance(target, Projected):
        return lines + arrays.module(target.biases, case.heads, target.framework)
    lines += [
        f"module = {_building(trial, model)}.to({dtype}).train({trial.mode == 'train'})",
        "with torch.no_grad():",
    ]
    return lines + [f"    {line}" for line in _copies(layout)]


def _building(trial: Trial, d_model: int) -> str:
    implementation = trial.subject.implementation
    construction = construction_of(implementation.target, implementation.label, trial.capabilities.layout)
    return construction.written("attend", d_model, trial.case.heads)


def _written_parameters(drawn: Drawn, dtype: torch.dtype) -> list[str]:
    """Return lines that write the parameters out, number by number."""
    return [
        f"{name} = {{{', '.join(f'{role!r}: {_literal(tensor)}.to({dtype})' for role, tensor in table.items())}}}"
        for name, table in (("full", drawn.full), ("head", drawn.head), ("bias", drawn.bias))
    ]


def _copies(layout: Layout) -> list[str]:
    lines = []
    for kind, table in (("weight", layout.weights), ("bias", layout.biases)):
        for role, slots in table.items():
            shared = layout.structure.shared and role != "output"
            source = f"bias[{role!r}]" if kind == "bias" else f"{'head' if shared else 'full'}[{role!r}]"
            start = 0
            for slot in slots:
                columns = ":, " if role == "output" and kind == "weight" else ""
                whole = len(slots) == 1 and not _is_narrow(role, layout)
                piece = source if whole else f"{source}[{columns}{start}:{start + slot.rows}]"
                lines.append(f"p = {_view(slot)}; p.copy_({piece}.reshape(p.shape))")
                start += slot.rows
    return lines


def _is_narrow(role: str, layout: Layout) -> bool:
    return role in ("key", "value") and layout.structure.kv_heads is not None


def _view(slot: Slot) -> str:
    """Return the slot as a view of its parameter; separate parameters stored as (out, in) are taken as they are."""
    text = f"module.get_parameter({slot.name!r})"
    if slot.axes in ("PDE", "PD", "E") and not slot.output and slot.count == slot.sizes[0]:
        return text
    if slot.axes in ("EPD", "E") and slot.output:
        return text
    text = f"{text}.view({slot.sizes})"
    if "P" in slot.axes and slot.count != slot.sizes[slot.axes.index("P")]:
        text = f"{text}.narrow({slot.axes.index('P')}, {slot.start}, {slot.count})"
    return f"{text}.permute({slot.order})" if slot.order != tuple(range(len(slot.order))) else text


# Call and definition


def _call(trial: Trial, inputs: Inputs) -> list[str]:
    own, subject = trial.capabilities, trial.subject
    names = {name: lines_to(own.layout, name) for name in ("query", "key", "value")}
    names |= {"mask": "mask", "bias": "bias_option"}
    lines = []
    delivered = subject.deliver(inputs)
    if isinstance(delivered.options.get("bias"), Tensor):
        lines.append(f"bias_option = {_literal(delivered.options['bias'].detach())}.to({torch_dtype(inputs.dtype)})")
    if subject.implementation.framework != "torch":
        return lines + _call_of_arrays(trial, inputs, delivered, names)
    if _is_differentiated(trial):
        lines.append("for tensor in (query, key, value): tensor.requires_grad_()")
    lines.append(f"with torch.set_grad_enabled({trial.mode == 'train'}):")
    lines.append(f"    result = {_invocation(subject, inputs, delivered, names)}")
    lines.append(f"output = {_picked(subject)}")
    return lines + _turned(trial, inputs)


def _picked(subject: Subject) -> str:
    usual = "result[0] if isinstance(result, (tuple, list)) else result"
    return usual if subject.pick in ("", "[0]") else f"result{subject.pick}"


def _turned(trial: Trial, inputs: Inputs) -> list[str]:
    turned = lines_from(trial.capabilities.layout, "output", inputs.case.heads)
    return [] if turned == "output" else [f"output = {turned}"]


def _call_of_arrays(trial: Trial, inputs: Inputs, delivered: Delivered, names: Mapping[str, str]) -> list[str]:
    present = {"query", "key", "value", *delivered.tensors()}
    sent = {"bias_option" if name == "bias" else name: text for name, text in names.items() if name in present}
    written = {name: "bias_option" if name == "bias" else name for name in names}
    invocation = _invocation(trial.subject, inputs, delivered, written)
    distinct = {"qkv": 1, "kv": 2}.get(inputs.case.shared, 3) if _is_differentiated(trial) else None
    return [*arrays.call(invocation, _picked(trial.subject), sent, distinct), *_turned(trial, inputs)]


def _invocation(subject: Subject, inputs: Inputs, delivered: Delivered, names: Mapping[str, str]) -> str:
    implementation = subject.implementation
    name = "module" if implementation.is_module else "attend"
    if implementation.call is None:
        target = subject.module(inputs) if implementation.is_module else implementation.target
        subject.prepare(target, delivered)
        return subject.form(target).written(name, delivered, names)
    tensors = [names[each] for each in ("query", "key", "value", *(["mask"] if delivered.mask is not None else []))]
    options = [f"{key}={names.get(key, repr(value))}" for key, value in delivered.options.items()]
    return f"call({', '.join([name, *tensors, *options])})"


def _definition(trial: Trial, inputs: Inputs) -> list[str]:
    case, module = inputs.case, trial.is_module
    lines = ["q, k, v = (tensor.detach().double().requires_grad_() for tensor in (query, key, value))"]
    if case.shared:
        # One tensor gathers the gradients of everything that it is.
        lines.append("k = v = q" if case.shared == "qkv" else "v = k")
    names = "q, k, v"
    if module:
        lines += _projected(trial, inputs)
        names = "qh, kh, vh"
    elif case.kv_heads is not None:
        repeats = case.heads // case.kv_heads
        lines.append(f"kh, vh = (tensor.repeat_interleave({repeats}, -3) for tensor in (k, v))")
        names = "q, kh, vh"
    a, b, c = names.split(", ")
    lines.append(f"scores = {a} @ {b}.mT * {scale_of(trial.subject.setting.scale, case)!r}")
    if case.softcap is not None:
        lines.append(f"scores = {case.softcap} * torch.tanh(scores / {case.softcap})")
    if inputs.bias is not None:
        lines.append("scores = scores + bias_option.double()")
    if inputs.finite is not None:
        lines.append(f"scores = scores + {_literal(inputs.finite)}")
    lines += _softmax(trial)
    lines.append(f"expected = weights @ {c}")
    if module:
        layout = trial.subject.layout(inputs)
        merged = "expected = expected.transpose(1, 2).flatten(2)"
        lines += [f"{merged} @ W['output'].double().T" if layout.structure.output else merged]
        if "output" in layout.biases:
            lines.append("expected = expected + bias['output'].double()")
    return [*lines, 'print("output: largest difference", (output.double() - expected).abs().max().item())']


def _softmax(trial: Trial) -> list[str]:
    lowest = {"uniform": "-1e30", "unspecified": "-1e30"}.get(trial.capabilities.empty_row, "float('-inf')")
    lines = [f"if allowed is not None: scores = scores.masked_fill(~allowed.broadcast_to(scores.shape), {lowest})"]
    weights = "scores.softmax(-1)"
    return [
        *lines,
        f"weights = {weights}.nan_to_num(0.0)" if trial.capabilities.empty_row == "zeros" else f"weights = {weights}",
    ]


def _projected(trial: Trial, inputs: Inputs) -> list[str]:
    case, layout = inputs.case, trial.subject.layout(inputs)
    lines = ["W = full"]
    if layout.structure.shared:
        eye = f"torch.eye({case.heads}, dtype=torch.float64)"
        lines.append(
            f"W = {{role: torch.kron({eye}, head[role].double()) if role != 'output' else full[role] for role in full}}"
        )
    for name, role in (("q", "query"), ("k", "key"), ("v", "value")):
        kv_heads = layout.structure.kv_heads if _is_narrow(role, layout) else None
        rows = "" if kv_heads is None else f"[:{kv_heads * case.width}]"
        plus = f" + bias[{role!r}]{rows}.double()" if role in layout.biases else ""
        repeat = "" if kv_heads is None else f".repeat_interleave({case.heads // kv_heads}, 1)"
        lines.append(
            f"{name}h = ({name} @ W[{role!r}]{rows}.double().T{plus})"
            f".unflatten(-1, ({kv_heads or case.heads}, -1)).transpose(1, 2){repeat}"
        )
    return lines


def _gradients(trial: Trial, inputs: Inputs) -> list[str]:
    upstream = "torch.ones_like(expected)"
    if vector_of(inputs.case) is not None:
        upstream = f"{_literal(inputs.upstream)}.expand_as(expected)"
    if trial.subject.implementation.framework != "torch":
        layout, heads = trial.capabilities.layout, inputs.case.heads
        as_returned = lines_to(layout, f"upstream.to({torch_dtype(inputs.dtype)})")
        return [f"upstream = {upstream}", *arrays.gradients(as_returned, lines_from(layout, "found", heads))]
    return [
        f"upstream = {upstream}",
        "torch.autograd.backward(output, upstream.to(output.dtype)); torch.autograd.backward(expected, upstream)",
        'for name, a, b in (("query", query, q), ("key", key, k), ("value", value, v)):',
        "    if a.grad is None: print('gradient of the', name, 'is missing')",
        "    else: print('gradient of the', name + ': largest difference', (a.grad.double() - b.grad).abs().max().item())",
    ]
