"""The bench on which experiments are made: one implementation under the answers that are known so far."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..calling.signature import call_signature
from ..cases.case import Case
from ..conventions.table import PLAIN, agrees
from ..diagnosis import Diagnostician
from ..fitting import Excluded, fit
from ..foreign.edge import FOREIGN, DeviceLost, Unreadable, device_is_lost, is_interrupt
from ..implementation import Implementation
from ..oracle.comparing import Departure, NotApplicable
from ..trials.subject import Subject, modes_of
from ..trials.trial import Trial
from .finding import Finding

Check = Callable[[Trial], None]

WIDEST = {"fp64": "softmax32", "fp32": "tf32"}
"""The profile of rounding that excuses most in a dtype, where it is not `eager`."""

AGREES, DEPARTS, RAISES, EXCLUDED = "agrees", "departs", "raises", "excluded"


@dataclass(frozen=True)
class Seen:
    """What one experiment gave: `agrees`, `departs`, `raises`, or `excluded` where the answers rule the case out."""

    state: str
    text: str = ""
    ratio: float | None = None

    @property
    def agrees(self) -> bool:
        """Whether what came back is what the answers let one expect."""
        return self.state == AGREES

    @property
    def raises(self) -> bool:
        """Whether the call raised."""
        return self.state == RAISES

    @property
    def told(self) -> str:
        """What was seen, in a few words."""
        return "agrees" if self.agrees else self.text


class Prober:
    """Makes experiments with one implementation and keeps what they show. `dtype` is the one that experiments use."""

    def __init__(self, implementation: Implementation, beat: Callable[[str], None] = lambda text: None) -> None:
        self.implementation = implementation
        self._beat = beat
        self.dtype = "fp32"
        self.findings: dict[str, Finding] = {}
        self.judged: dict[str, Finding] = {}
        self.remarks: list[str] = []
        self._subjects: dict[str, Subject] = {}
        self._diagnostician = Diagnostician()

    @property
    def is_module(self) -> bool:
        """Whether the implementation builds modules."""
        return self.implementation.is_module

    @property
    def modes(self) -> tuple[str, ...]:
        """The modes in which it can differ."""
        return modes_of(self.implementation)

    def known(self, capability: str) -> Any:
        """Return the answer that is known so far, or the reference's."""
        return getattr(self.implementation.capabilities, capability)

    def settle(self, capability: str, answer: Any, evidence: str, *, settled: bool = True) -> None:
        """Keep an answer; later experiments are made under it."""
        self.findings[capability] = Finding(capability, answer, evidence, settled)
        changed = replace(self.implementation.capabilities, **{capability: answer})
        self.implementation = replace(self.implementation, capabilities=changed)

    def judge(self, capability: str, answer: Any, evidence: str) -> None:
        """Have the rules judge an answer under which no experiment could be made, because what it gives is wrong."""
        self.judged[capability] = Finding(capability, answer, evidence, settled=False)

    def remark(self, text: str) -> None:
        """Keep something that no capability holds."""
        self.remarks.append(text)

    # Experiments

    def trial(
        self, case: Case, *, mode: str = "eval", dtype: str | None = None, asked: str | None = None, **answers: Any
    ) -> Trial | Excluded:
        """Return a trial of a case under the known answers and some others; `asked` is what the case asks about."""
        # How well it rounds is asked last: until then the profile that excuses most.
        dtype = dtype or self.dtype
        unasked = {} if "precision" in self.findings else {"precision": WIDEST.get(dtype, "eager")}
        capabilities = replace(self.implementation.capabilities, **{**unasked, **answers})
        implementation = replace(self.implementation, capabilities=capabilities)
        fitted = fit(case, implementation, asked)
        if isinstance(fitted, Excluded):
            return fitted
        self._beat(fitted.name)
        if dtype not in self._subjects:
            self._subjects[dtype] = Subject(implementation, dtype)
        return Trial(self._subjects[dtype].twin(implementation=implementation, mode=mode), fitted)

    def see(
        self, case: Case, check: Check = agrees, *, mode: str = "eval", dtype: str | None = None,
        asked: str | None = None, **answers: Any,
    ) -> Seen:  # fmt: skip
        """Make one experiment: call, and compare with what the answers let one expect."""
        trial = self.trial(case, mode=mode, dtype=dtype, asked=asked, **answers)
        if isinstance(trial, Excluded):
            return Seen(EXCLUDED, trial.capability)
        try:
            check(trial)
        except Departure as departure:
            return Seen(DEPARTS, departure.text, departure.ratio)
        except NotApplicable as reason:
            return Seen(EXCLUDED, str(reason))
        except FOREIGN as error:
            if device_is_lost(str(error)):
                raise DeviceLost(f"{error}; the device keeps this error, so that nothing more can be tried") from error
            return Seen(RAISES, str(error))
        except BaseException as error:  # what came back may raise anything when it is looked at
            if is_interrupt(error):
                raise
            return Seen(RAISES, str(Unreadable(error)))
        return Seen(AGREES, ratio=trial.ratio)

    def takes(self, option: str) -> bool:
        """Say whether the call names an option; one that is swallowed by `**options` is not taken."""
        call = self.implementation.call
        if call is not None:
            named = inspect.signature(call).parameters.get(option)
            return named is not None and named.kind is not named.VAR_POSITIONAL
        target: Any = self.implementation.target
        trial = self.trial(PLAIN)
        if self.is_module and isinstance(trial, Trial):
            target = trial.subject.blank(trial.inputs)
        signature = call_signature(target)
        return signature is not None and signature.has(option)

    def explained(self, case: Case, *, mode: str = "eval", **answers: Any) -> str:
        """Return the known fault that explains a departure, as `; it looks like NAME`, or nothing."""
        trial = self.trial(case, mode=mode, **answers)
        if isinstance(trial, Excluded):
            return ""
        try:
            found = self._diagnostician.explanations(trial, trial.inputs)
        except (*FOREIGN, Departure, NotApplicable):
            return ""
        return f"; it looks like {found[0].partition(':')[0]}" if found else ""
