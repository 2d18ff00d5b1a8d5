"""What is taken for attention, what is near and why it is left out, and what is passed over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from attention_conformance.bridges import FRAMEWORKS as BRIDGED
from attention_conformance.calling.building import construction_of
from attention_conformance.calling.recognising import form_of
from attention_conformance.implementation import describe
from attention_conformance.starting.findings import Findings
from attention_conformance.starting.layout import layout_of
from attention_conformance.starting.recognise import FRAMEWORKS, recognise
from attention_conformance.starting.scan import scan
from tests.starting.trees import plant

MODULE = "from torch import nn\nclass Attention(nn.Module):\n"
MIXER = "from torch.nn import Module\nclass Mixer(Module):\n def __init__(self, d_model, h): ...\n"


ATTENTION = [
    ("def f(q, k, v): ...", "kernels.f", "query key value"),
    (
        "def f(query_states, keyStates, VALUE, attn_mask=None, *, is_causal=False): ...",
        "kernels.f",
        "query key value",
    ),
    ("def f(value, key, query): ...", "kernels.f", "query key value"),
    ("def f(qkv, softmax_scale=None): ...", "kernels.f", "qkv"),
    ("def f(q, kv, causal): ...", "kernels.f", "query kv"),
    ("def f(q: 'dict[str, int]', k=(1, 2), v: int = {1: 2}) -> 'a': ...", "kernels.f", "query key value"),
    ("if True:\n    def f(q, k, v): ...", "kernels.f", "query key value"),
    (
        "try:\n    import nothing_of_this_name\nexcept ImportError:\n    def f(q, k, v): ...",
        "kernels.f",
        "query key value",
    ),
    ("@compiled(1)\ndef f(q, k, v): ...", "kernels.f", "query key value"),
    (
        MODULE + " def __init__(self, embed_dim, num_heads, dropout=0.1): ...\n def forward(self, x, mask=None): ...",
        "kernels.Attention",
        "x",
    ),
    (
        MODULE + " def __init__(self, dim, heads=8, dim_head=64): ...\n def forward(self, x, context): ...",
        "kernels.Attention",
        "x context",
    ),
    (
        MODULE + " def __init__(self, dim, heads): ...\n def forward(self, z): ...",
        "kernels.Attention",
        "x",
    ),
    (
        f"{MIXER} def forward(self, q, k, v): ...",
        "kernels.Mixer",
        "query key value",
    ),
    (
        f"{MIXER} def forward(self, x): return x.softmax(-1)",
        "kernels.Mixer",
        "x",
    ),
    (
        MODULE + " def __init__(self, scale=None, dropout=0.1): ...\n def forward(self, q, k, v): ...",
        "kernels.Attention(dropout=0.0)",
        "query key value",
    ),
    (MODULE + " def forward(self, q, k, v): ...", "kernels.Attention()", "query key value"),
]
"""Definitions, what is registered of them, and the arguments that carry the inputs."""


def findings(folder: Path) -> Findings:
    """What a folder holds."""
    return recognise(scan(layout_of(folder)).sources)


def in_file(folder: Path, text: str) -> Findings:
    """What a single file holds."""
    return findings(plant(folder, {"kernels.py": text}))


@pytest.mark.parametrize(("text", "registered", "takes"), ATTENTION)
def test_attention_is_recognised_by_its_arguments(tmp_path: Path, text: str, registered: str, takes: str) -> None:
    found = in_file(tmp_path, text)
    assert [(each.registered, " ".join(each.judged.takes)) for each in found.found] == [(registered, takes)]
    assert found.left_out == []


@pytest.mark.parametrize(("text", "registered", "takes"), ATTENTION)
def test_register_calls_and_builds_what_is_recognised(text: str, registered: str, takes: str) -> None:
    namespace: dict[str, Any] = {"compiled": lambda _: lambda function: function}
    exec("from __future__ import annotations\n" + text, namespace)
    implementation = describe(eval(registered.removeprefix("kernels."), namespace))
    own = implementation.capabilities
    assert form_of(implementation.target, implementation.reference, own, registered).problem == ""
    if implementation.is_module:
        assert construction_of(implementation.target, registered, own.layout).problem == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("def _f(q, k, v): ...", "its name is private"),
        ("def outer():\n    def f(q, k, v): ...", "it is defined inside outer; move it out to register it"),
        ("async def f(q, k, v): ...", "register a function that waits for it"),
        ("def f(q, k, v, freqs): ...", "nothing says what to pass for freqs; register it with call="),
        ("import triton\n@triton.jit\ndef f(Q, K, V): ...", "register the function that launches it"),
        ("import mlx.core\ndef f(q, k, v): ...", "it works on arrays of mlx"),
        ("class F(torch.autograd.Function):\n @staticmethod\n def forward(ctx, q, k, v): ...", "calls its apply"),
        ("class F:\n def __call__(self, q, k, v): ...", "register one: register(F(...))"),
        (
            "import flax.linen as nn\nclass F(nn.Module):\n def __call__(self, q, k, v): ...",
            "register(projected(function))",
        ),
        (MODULE + " def __init__(self, config): ...\n def forward(self, hidden_states): ...", "takes a configuration"),
        (MODULE + " def __init__(self, dim): ...\n def forward(self, x): ...", "without a number of heads"),
        (MODULE + " def __init__(self, dim, heads, rope): ...\n def forward(self, x): ...", "gets for rope"),
        (
            MODULE + " def __init__(self, dim, heads): ...\n def forward(self, x, rope): ...",
            "to pass for rope in its call",
        ),
        (MODULE + " def __init__(self, d_k): ...\n def forward(self, q, k, v): ...", "no width or heads"),
        (MODULE + " def forward(self, x): ...", "its constructor is not in this folder"),
        (
            MODULE + " def __init__(self, dim, heads): ...\n def forward(self, x): raise NotImplementedError",
            "it is abstract",
        ),
    ],
)
def test_what_is_near_is_left_out_with_its_reason(tmp_path: Path, text: str, why: str) -> None:
    found = in_file(tmp_path, text)
    assert found.found == []
    assert [why in each.why for each in found.left_out] == [True], found.left_out


@pytest.mark.parametrize(
    "text",
    [
        "def f(query, key): ...",
        "def f(x, mask): ...",
        "def f(q, k, v, out, grad_out, lse, delta): ...",
        "class Cache:\n def update(self, key, value): ...",
        "from torch import nn\nclass Block(nn.Module):\n def __init__(self, dim, heads): ...\n def forward(self, x): ...",
        "from typing import overload\n@overload\ndef f(q, k, v): ...",
    ],
)
def test_what_is_no_attention_is_passed_over(tmp_path: Path, text: str) -> None:
    assert in_file(tmp_path, text) == Findings()


def test_call_and_constructor_may_be_inherited_from_another_file(tmp_path: Path) -> None:
    base = MODULE + " def __init__(self, dim, heads): ...\n def forward(self, x): raise NotImplementedError"
    derived = "from .base import Attention\nclass CausalAttention(Attention):\n def forward(self, x): ..."
    found = findings(plant(tmp_path, {"package/base.py": base, "package/causal.py": derived}))
    assert [each.registered for each in found.found] == ["package.causal.CausalAttention"]


def test_bases_that_go_in_a_circle_end(tmp_path: Path) -> None:
    text = "class AttentionA(AttentionB):\n def forward(self, q, k, v): ...\nclass AttentionB(AttentionA): ..."
    assert len(in_file(tmp_path, text).left_out) == 2


@pytest.mark.parametrize(
    ("imports", "framework"),
    [
        ("import numpy as np", "numpy"),
        ("import numpy as np\nimport jax.numpy as jnp", "jax"),
        ("from jax import numpy as jnp", "jax"),
        ("import jax, torch", "torch"),
        ("", "torch"),
    ],
)
def test_the_framework_is_told_by_the_imports(tmp_path: Path, imports: str, framework: str) -> None:
    found = in_file(tmp_path, f"{imports}\ndef attend(q, k, v): ...").found
    assert [each.framework for each in found] == [framework]


def test_every_framework_with_a_bridge_is_known() -> None:
    assert set(FRAMEWORKS) == set(BRIDGED)
