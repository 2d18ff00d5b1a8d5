"""Who is measured in a run: the target, the reference that it is held to, and torch's own attention."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..adapters import DEFAULT_TARGETS
from ..implementation import Implementation
from ..loading import load

SDPA = "torch.nn.functional:scaled_dot_product_attention"
MHA = "torch.nn:MultiheadAttention"

REFERENCE_TARGETS: Mapping[str, str] = {
    text.rpartition(":")[2]: text for text in DEFAULT_TARGETS if text.startswith("attention_conformance.reference")
}
"""How each reference is typed as a target, by its name."""


@dataclass(frozen=True)
class Contender:
    """Somebody in a run: `role` is `target`, `reference` or `torch`; `asked` for, or merely standing beside."""

    name: str
    role: str
    implementation: Implementation
    asked: bool = False


def contenders(name: str, implementation: Implementation) -> list[Contender]:
    """Return the target, its reference and torch's own, on the target's device; a target that is one of the others
    stands once."""
    torchs = MHA if implementation.is_module else SDPA
    beside = [
        Contender(text, role, _at(load(text)[0].implementation, implementation.device))
        for text, role in ((REFERENCE_TARGETS[implementation.reference.name], "reference"), (torchs, "torch"))
    ]
    role = next((other.role for other in beside if _same(other.implementation, implementation)), "target")
    return [
        Contender(name, role, implementation, asked=True),
        *(other for other in beside if not _same(other.implementation, implementation)),
    ]


def _at(implementation: Implementation, device: str) -> Implementation:
    """Return a companion on the target's device, in every dtype: where it cannot, it raises, and is left out."""
    everything = replace(implementation.capabilities, dtypes=("fp64", "fp32", "bf16", "fp16"))
    return replace(implementation, device=device, capabilities=everything)


def _same(one: Implementation, other: Implementation) -> bool:
    return one.target == other.target and one.call == other.call


def covered(targets: tuple[str, ...]) -> tuple[str, ...]:
    """Return the targets that need a run of their own: one that stands beside another is measured there."""
    families = (
        (SDPA, REFERENCE_TARGETS["attention"]),
        (MHA, REFERENCE_TARGETS["MultiHeadAttention"]),
    )
    kept = list(dict.fromkeys(targets))
    for texts in families:
        present = [text for text in kept if text in texts]
        kept = [text for text in kept if text not in present[1:]]
    return tuple(kept)
