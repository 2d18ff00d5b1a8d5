"""Lines of a pasted script that call a kernel of arrays, or a function that is handed the parameters of a module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .modules import ROLES


def conversions(framework: str, dtype: str) -> list[str]:
    """Return lines that define `as_array` and `as_tensor`."""
    lines = ["import numpy"]
    if framework == "jax":
        lines = ["import jax, numpy"]
        lines += ['jax.config.update("jax_enable_x64", True)'] if dtype == "fp64" else []
    elif dtype == "bf16":
        lines += ["import ml_dtypes"]
    made = "tensor.detach().double().numpy().astype(str(tensor.dtype)[6:])"
    return [
        *lines,
        f"def as_array(tensor): return {f'jax.numpy.asarray({made})' if framework == 'jax' else made}",
        'def as_tensor(array): return torch.from_numpy(numpy.array(array, dtype="float64"))',
    ]


def module(biases: Sequence[str], heads: int, framework: str) -> list[str]:
    """Return lines that define `module`, which hands the drawn parameters to the function `attend`."""
    turned = "{}" if framework == "torch" else "as_array({})"
    weight, bias = (turned.format(f"{table}[role]") for table in ("full", "bias"))
    return [
        f"parameters = {{f'{{role}}.weight': {weight} for role in {ROLES!r}}}",
        f"parameters |= {{f'{{role}}.bias': {bias} for role in {tuple(biases)!r}}}",
        "def module(*tensors, **options):",
        f"    return attend(*tensors, **options, parameters=parameters, heads={heads})",
    ]


def call(invocation: str, output: str, sent: Mapping[str, str], distinct: int | None) -> list[str]:
    """Return lines that bind `output`, a tensor, and where `distinct` inputs are differentiated, `pull`.

    `invocation` is the call of arrays called as in `sent`, which maps their names to expressions of tensors; `output`
    is the expression of the output in `result`.
    """
    rest = {name: text for name, text in sent.items() if name not in ("query", "key", "value")}
    listed = ", ".join(f"as_array({sent[name]})" for name in ("query", "key", "value"))
    named = ", ".join(f"{name!r}: as_array({text})" for name, text in rest.items())
    lines = [
        f"def run(query, key, value{''.join(f', {name}' for name in rest)}):",
        f"    result = {invocation}",
        f"    return {output}",
        f"arrays, others = [{listed}], {{{named}}}",
    ]
    if distinct is None:
        return [*lines, "output = as_tensor(run(*arrays, **others))"]
    names = ("query", "key", "value")[:distinct]
    passed = ", ".join(names[min(place, distinct - 1)] for place in range(3))
    return [
        *lines,
        f"output, pull = jax.vjp(lambda {', '.join(names)}: run({passed}, **others), *arrays[:{distinct}])",
        "output = as_tensor(output)",
    ]


def gradients(upstream: str, turned: str) -> list[str]:
    """Return lines that print how far the gradients are from those of the definition.

    `upstream` is the expression of the gradient of the output as it was returned, `turned` that of `found` in the axes
    of the definition.
    """
    return [
        "torch.autograd.backward(expected, upstream)",
        f"for name, found, b in zip(('query', 'key', 'value'), map(as_tensor, pull(as_array({upstream}))), (q, k, v)):",
        f"    print('gradient of the', name + ': largest difference', ({turned} - b.grad).abs().max().item())",
    ]
