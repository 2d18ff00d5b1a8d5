"""A hundred different kernels as source: each puts the same formula together from other calls of torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

IMPORTS = "import math\n\nimport torch\nimport torch.nn.functional as F\n"
_PER_FILE = 10

_SCORES = (
    "(query / math.sqrt(query.size(-1))) @ key.transpose(-2, -1)",
    "torch.matmul(query, key.mT) / math.sqrt(query.size(-1))",
    "torch.einsum('...ld,...sd->...ls', query, key) * query.size(-1) ** -0.5",
)
_MASKED = ("scores.masked_fill(mask == 0, -1e9)", "torch.where(mask == 0, -1e9, scores)")
_WEIGHTS = (
    "torch.softmax(scores, -1)",
    "F.softmax(scores, dim=-1)",
    "scores.softmax(-1, dtype=torch.promote_types(scores.dtype, torch.float32)).to(scores.dtype)",
)
_OUTPUTS = ("weights @ value", "torch.matmul(weights, value)", "torch.einsum('...ls,...se->...le', weights, value)")
_RETURNED = ("output, weights", "[output, weights]")

_FAULTS = (
    ("scores", "query @ key.transpose(-2, -1)"),
    ("scores", "query @ key.transpose(-2, -1) / query.size(-1)"),
    ("masked", "scores.masked_fill(mask != 0, -1e9)"),
    ("masked", "scores"),
    ("weights", "torch.softmax(scores, -2)"),
    ("output", "1.001 * weights @ value"),
)
"""Parts that are wrong, and what is written there."""


@dataclass(frozen=True)
class Kernel:
    """One kernel by the expressions that it is made of."""

    name: str
    scores: str
    masked: str
    weights: str
    output: str
    returned: str

    @property
    def source(self) -> str:
        """The function."""
        return (
            f"def {self.name}(query, key, value, mask=None):\n"
            f"    scores = {self.scores}\n"
            "    if mask is not None:\n"
            f"        scores = {self.masked}\n"
            f"    weights = {self.weights}\n"
            f"    output = {self.output}\n"
            f"    return {self.returned}\n"
        )


def sound() -> Iterator[Kernel]:
    """Yield every combination of the parts, 108 of them."""
    for number, parts in enumerate(itertools.product(_SCORES, _MASKED, _WEIGHTS, _OUTPUTS, _RETURNED)):
        yield Kernel(f"sound_{number:03}", *parts)


def with_faults(every: int) -> Iterator[Kernel]:
    """Yield the same kernels, one of `every` so many with one part that is wrong."""
    faults = itertools.cycle(_FAULTS)
    for number, kernel in enumerate(sound()):
        if number % every:
            yield kernel
        else:
            part, text = next(faults)
            yield replace(kernel, name=f"faulty_{number:03}", **{part: text})


def write(folder: Path, kernels: Iterator[Kernel], number: int) -> list[str]:
    """Write the first `number` kernels into files of several functions and return the targets to audit."""
    targets = []
    chosen = list(itertools.islice(kernels, number))
    for start in range(0, len(chosen), _PER_FILE):
        file, part = folder / f"kernels_{start:03}.py", chosen[start : start + _PER_FILE]
        file.write_text("\n\n".join([IMPORTS, *(kernel.source for kernel in part)]), encoding="utf-8")
        targets += [f"{file}:{kernel.name}" for kernel in part]
    return targets
