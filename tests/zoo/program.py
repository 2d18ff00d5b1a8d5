"""A named implementation together with what it declares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

HALVES_TOO = ("fp64", "fp32", "bf16", "fp16")
"""Every dtype, for programs whose fill value also exists in fp16."""


@dataclass(frozen=True)
class Program:
    """One implementation of attention that the suite judges in its own tests.

    `target` is a kernel f(query, key, value, mask=None, **options), or a class or factory (d_model,
    n_heads) of modules. `capabilities` are keyword arguments of `attention_conformance.register`
    (`reference`, `call` and `parameters` among them); what is not declared is answered as the documents'
    code answers it. `why` says in one sentence what is unusual about the computation.
    """

    name: str
    target: Callable[..., object]
    capabilities: Mapping[str, Any] = field(default_factory=dict)
    why: str = ""
