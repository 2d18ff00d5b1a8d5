"""Which of several layouts a module has: the one under which a small call gives what the definition gives.

Nothing is known of the module's conventions at that point: scale and causal triangle are tried. Where none agrees, one
key is sent, whose weight is 1 whatever they are: that settles how value and output projection are stored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from ..capabilities import UNASKED_TRIANGLES, USUAL_SCALES
from ..cases.case import Case
from ..cases.inputs import Inputs, make
from ..errors import OtherParameters
from ..fitting import Excluded, fit
from ..foreign.edge import Raised, WrongResult
from ..foreign.process_state import process_state_kept
from ..implementation import Implementation
from ..oracle.comparing import NotApplicable
from ..oracle.expectations import Setting, expect
from .candidates import Candidate
from .storage import Layout

TOLERANCES = {"fp64": 1e-5, "fp32": 1e-3}
"""Largest relative distance that counts as agreement, far above rounding and far below any exchange of rows."""
_HALVES = 0.05


@dataclass
class Experiment:
    """How a module of one size is built, called and expected to answer. `plain` and `one_key` are inputs; `settings` the
    conventions to try."""

    build: Callable[[], nn.Module]
    call: Callable[[nn.Module, Inputs], Tensor]
    plain: Inputs
    one_key: Inputs
    settings: Sequence[Setting]
    problem: Raised | WrongResult | None = field(default=None, init=False)

    def agrees(self, layout: Layout, inputs: Inputs) -> bool:
        """Say whether the module with the parameters in these places gives what one of the settings gives."""
        found = self.output(layout, inputs)
        return found is not None and any(self._near(found, layout, inputs, setting) for setting in self.settings)

    def output(self, layout: Layout, inputs: Inputs, shifted: str | None = None) -> Tensor | None:
        """Return the output, None where the call raises. `shifted` names a parameter that is changed first."""
        module = self.build()
        if inputs.parameters is not None:
            layout.write(module, inputs.parameters)
        if shifted is not None:
            with torch.no_grad():
                {**dict(module.named_buffers()), **dict(module.named_parameters())}[shifted].mul_(1.5).add_(0.25)
        try:
            with process_state_kept():
                return self.call(module, inputs).detach().double().cpu()
        except (Raised, WrongResult) as problem:
            self.problem = problem
        except NotApplicable:
            pass
        return None

    def _near(self, found: Tensor, layout: Layout, inputs: Inputs, setting: Setting) -> bool:
        wanted = expect(inputs.case, replace(setting, structure=layout.structure), inputs.dtype).output.value
        if found.shape != wanted.shape:
            return False
        return near(found, wanted, inputs.dtype)


def experiment(
    implementation: Implementation,
    setting: Setting,
    dtype: str,
    build: Callable[[], nn.Module],
    call: Callable[[nn.Module, Inputs], Tensor],
    sizes: tuple[int, int],
) -> Experiment | None:
    """Return the experiment with modules of so many heads of such a width; None where no such case may be sent."""
    heads, width = sizes
    cases = (
        Case("where the projections are", heads=heads, width=width, queries=3, keys=4),
        Case("where the projections are, one key", heads=heads, width=width, queries=1, keys=1),
    )
    fitted = [case for case in (fit(case, implementation) for case in cases) if not isinstance(case, Excluded)]
    if len(fitted) < 2 or any((case.heads, case.width) != sizes for case in fitted):
        return None
    variants = itertools.product((setting.scale, *USUAL_SCALES), (setting.causal, *UNASKED_TRIANGLES))
    settings = [replace(setting, scale=scale, causal=causal) for scale, causal in variants]
    plain, one_key = (make(case, True, dtype) for case in fitted)
    return Experiment(build, call, plain, one_key, list(dict.fromkeys(settings)))


def near(found: Tensor, wanted: Tensor, dtype: str) -> bool:
    """Say whether two outputs agree but for rounding."""
    return float((found - wanted).abs().max()) <= TOLERANCES.get(dtype, _HALVES) * float(wanted.abs().max())


class Undecided(Exception):
    """No layout is known to hold. The text says why; `doubt` names the roles in doubt."""

    def __init__(self, text: str, doubt: Sequence[str]) -> None:
        super().__init__(text)
        self.doubt = tuple(dict.fromkeys(doubt))


def decide(candidates: Sequence[Candidate], others: Sequence[str], experiment: Experiment) -> Layout:
    """Return the layout that holds.

    The first candidate is what names say; where nothing is in doubt about it, it holds even if nothing agrees, because
    then the module is faulty. Raises Undecided where candidates are in doubt and none agrees, OtherParameters where
    parameters besides the projections change the result, and what the call raises where that leaves it open.
    """
    first = candidates[0]
    if len(candidates) == 1 and not first.doubt and not others and first.layout.structure.output:
        return first.layout
    for inputs in (experiment.plain, experiment.one_key):
        for candidate in candidates:
            if experiment.agrees(candidate.layout, inputs):
                if inputs is experiment.one_key:
                    _refuse_others(candidate.layout, others, experiment)
                return candidate.layout
    _refuse_others(first.layout, others, experiment)
    if first.doubt:
        _refuse_doubt(first, experiment)
    if not first.layout.structure.output:
        _require_width(first.layout, experiment)
    return first.layout


def _refuse_doubt(first: Candidate, experiment: Experiment) -> None:
    if experiment.problem is not None:
        raise experiment.problem
    raise Undecided(
        f"names do not tell {', '.join(dict.fromkeys(first.doubt))}, "
        "and under no reading does a small call give what the definition gives",
        first.doubt,
    )


def _require_width(layout: Layout, experiment: Experiment) -> None:
    """Raise Undecided where a module without an output projection does not return the merged heads."""
    found, width = experiment.output(layout, experiment.plain), experiment.plain.query.shape[-1]
    if found is not None and found.shape[-1] != width:
        raise Undecided(
            f"nothing was found for output, and the result is {found.shape[-1]} wide, not {width}", ["output"]
        )


def _refuse_others(layout: Layout, others: Sequence[str], experiment: Experiment) -> None:
    """Raise OtherParameters where other parameters take part in the result."""
    before = experiment.output(layout, experiment.plain) if others else None
    if before is None:
        return
    shifted = {name: experiment.output(layout, experiment.plain, name) for name in others}
    taking_part = [
        name
        for name, after in shifted.items()
        if after is None or after.shape != before.shape or not near(after, before, experiment.plain.dtype)
    ]
    if taking_part:
        more = f" and {len(taking_part) - 6} more" if len(taking_part) > 6 else ""
        raise OtherParameters(
            f"the result depends on {', '.join(taking_part[:6])}{more} besides the four projections, and it is not "
            "attention of the projections alone. Judge the attention without it: register a factory that builds the "
            "module without these parameters or gives them values that change nothing, for example "
            f"module.{taking_part[0].rpartition('.')[0] or taking_part[0]} = torch.nn.Identity()."
        )
