"""`register(..., pin=True)`: what is observed of an implementation is kept in its user's repository.

    tests/test_attention.py            pytest's Module
        flash                          RegisteredImplementation
            pin_conventions            PinItem: the answers that experiments show, as text
            pin_plain_fp32             PinItem: an output; also masked and with an empty row

A pin holds what was seen and judges nothing: rules do that. It fails where something else is seen than when it was
written, so that an upgrade which changes behaviour shows as a difference in review. Inputs are made by a formula whose
values every dtype here holds exactly, and not drawn: nothing but the implementation can change a pin.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from math import ceil, log2, prod
from typing import Any

import pytest
import torch
from syrupy.assertion import SnapshotAssertion
from syrupy.location import PyTestLocation
from torch import Tensor

from ..cases.case import Case, Mask
from ..cases.inputs import ROLES, Drawn, Inputs, make, shapes_of
from ..conventions.reading import read
from ..conventions.table import ALL_KINDS, CONVENTIONS, Convention
from ..dtypes import is_half, torch_dtype
from ..errors import ConformanceError
from ..fitting import Excluded, fit
from ..foreign.edge import Raised, WrongResult, safe, telling_interrupts_apart
from ..foreign.process_state import process_state_kept
from ..implementation import Implementation
from ..oracle.comparing import NotApplicable
from ..snapshot import PinExtension
from ..trials.subject import Subject, modes_of
from ..trials.trial import Trial

SMALL = Case("pinned", batch=2, heads=2, queries=3, keys=4, width=4, value_width=3)
PADDED = replace(SMALL, mask=Mask("padding", "B11S", (*ALL_KINDS, "lengths")))
EXAMPLES: Mapping[str, tuple[Case, ...]] = {
    "plain": (SMALL,),
    "masked": (replace(SMALL, mask=Mask("random", "LS", ALL_KINDS)), PADDED),
    "empty_row": (
        replace(SMALL, mask=Mask("empty row", "LS", ALL_KINDS)),
        replace(SMALL, mask=Mask("empty padding", "B11S", (*ALL_KINDS, "lengths"))),
    ),
}
"""What outputs are pinned of: of each, the first case that the implementation takes."""


class NotAsPinned(ConformanceError):
    """What is observed is not what is pinned, or nothing is pinned yet. Its text is all that pytest shows, `summary`
    one line of it."""

    def __init__(self, head: str, lines: list[str]) -> None:
        super().__init__("\n".join([head, *(f"  {line}" for line in lines)]))
        self.summary = lines[0]


@dataclass(frozen=True)
class Pin:
    """One thing that is pinned: its name, the dtype it is observed in, and how."""

    name: str
    dtype: str
    observe: Callable[[], Any]


def pins(implementation: Implementation) -> Iterator[Pin]:
    """Yield what is pinned of an implementation: its conventions, and outputs in fp32 and in its first dtype."""
    dtypes = implementation.capabilities.dtypes
    usual = "fp32" if "fp32" in dtypes else dtypes[0]
    yield Pin("pin_conventions", usual, lambda: conventions(implementation, usual))
    for dtype in dict.fromkeys((usual, dtypes[0])):
        for name, cases in EXAMPLES.items():
            case = _first_fitting(cases, implementation)
            if case is not None:
                observe = _Output(implementation, dtype, case)
                yield Pin(f"pin_{name}_{dtype}", dtype, observe)


def _first_fitting(cases: tuple[Case, ...], implementation: Implementation) -> Case | None:
    fitted = (fit(case, implementation) for case in cases)
    return next((case for case in fitted if not isinstance(case, Excluded)), None)


# Conventions


def conventions(implementation: Implementation, dtype: str) -> dict[str, Any]:
    """Return the observed answer to each convention; where cases or modes differ, the answer of each."""
    subject = Subject(implementation, dtype)
    answers = {}
    for convention in CONVENTIONS.values():
        seen = {
            f"{case.name}, {mode}": answer(subject.in_mode(mode), convention, case)
            for case in convention.cases
            for mode in modes_of(implementation)
        }
        answers[convention.capability] = _settled(seen)
    return answers


NOT_ASKED = "not asked"


def _settled(seen: dict[str, Any]) -> Any:
    """Return the one answer of all cases, or the answer of each."""
    told = {case: found for case, found in seen.items() if found != NOT_ASKED}
    first = next(iter(told.values()), NOT_ASKED)
    return first if all(found == first for found in told.values()) else told


def answer(subject: Subject, convention: Convention, case: Case) -> Any:
    """Return what an experiment shows for one case: an answer of the convention, or why there is none."""
    subject = _as_specified(subject, convention)
    fitted = fit(case, subject.implementation, convention.capability)
    if isinstance(fitted, Excluded):
        return NOT_ASKED
    trial = Trial(subject, fitted)
    try:
        changes = read(trial, convention).changes
        if changes is None:
            trial.run()
            return "no known answer"
        found = changes.get(convention.capability, getattr(subject.capabilities, convention.capability))
        if found == "optional weights":
            return None if trial.run().second is None else "weights"
    except NotApplicable:
        return None if convention.capability == "second" else NOT_ASKED  # there it means that none is returned
    except (Raised, WrongResult) as error:
        return _told(error)
    if isinstance(found, float):
        # Measured off rounded weights: only the digits that another machine sees too.
        return float(f"{found:.{2 if is_half(subject.dtype) else 4}g}")
    return found


def _as_specified(subject: Subject, convention: Convention) -> Subject:
    """Ask as if the first answer were declared where none is."""
    name = convention.capability
    if getattr(subject.capabilities, name) != "unspecified":
        return subject
    asked = replace(subject.capabilities, **{name: convention.answers[0]})
    return subject.twin(implementation=replace(subject.implementation, capabilities=asked))


def _told(error: Raised | WrongResult) -> str:
    """Return an error without its message, which changes with every release of somebody."""
    return f"raises {error.kind}" if isinstance(error, Raised) else "returns no tensor"


# Outputs


@dataclass(frozen=True)
class _Output:
    implementation: Implementation
    dtype: str
    case: Case

    def __call__(self) -> dict[str, Any]:
        """Return the output of the case, and the second result, in each mode."""
        subject = Subject(self.implementation, self.dtype)
        inputs = inputs_of(self.case, self.implementation.is_module, self.dtype)
        modes = modes_of(self.implementation)
        return {
            "case": self.case.describe(),
            **{mode: _results(subject.in_mode(mode), inputs) for mode in modes},
        }


def _results(subject: Subject, inputs: Inputs) -> Any:
    try:
        result = subject.run(inputs)
    except (Raised, WrongResult) as error:
        return _told(error)
    second = None if result.second is None else result.second.detach().cpu()
    return {"output": result.output.detach().cpu(), "second": second}


def inputs_of(case: Case, module: bool, dtype: str) -> Inputs:
    """Return the tensors of a case by formula."""
    drawn, shapes = make(case, module, dtype), shapes_of(case, module)
    query, key, value = (_filled(shape, at, dtype) for at, shape in enumerate((shapes.query, shapes.key, shapes.value)))
    if case.shared:
        key, value = (query, query) if case.shared == "qkv" else (key, key)
    allowed = None if drawn.allowed is None else _allowed(tuple(drawn.allowed.shape), case.may_have_empty_rows)
    parameters = _parameters(case, dtype) if module else None
    return drawn.changed(query=query, key=key, value=value, allowed=allowed, parameters=parameters)


def _filled(shape: tuple[int, ...], start: int, dtype: str, shift: int = 0) -> Tensor:
    """Return multiples of 1/32 between -30/32 and 30/32, times 2^-shift: five bits and a sign each."""
    numbers = (torch.arange(prod(shape), dtype=torch.float64) * 23 + 7 * start) % 61 - 30
    return (numbers / 2.0 ** (5 + shift)).reshape(shape).to(torch_dtype(dtype))


def _allowed(shape: tuple[int, ...], empty: bool) -> Tensor:
    """Two keys of three in turn, or, where rows are alike, one key less per batch element; `empty` hides one row."""
    batch, _, rows, keys = shape
    if rows > 1:
        allowed = ((2 * torch.arange(rows)[:, None] + torch.arange(keys)) % 3 != 0).expand(shape).clone()
        if empty:
            allowed[..., 1, :] = False
        return allowed
    lengths = keys - torch.arange(batch)
    if empty:
        lengths[-1] = 0
    return (torch.arange(keys) < lengths[:, None, None, None]).expand(shape).clone()


def _parameters(case: Case, dtype: str) -> Drawn:
    """Return a module's parameters by formula, about as large as those of a trained one."""
    model, width = case.heads * case.width, case.width

    def drawn(shape: tuple[int, ...], start: int) -> dict[str, Tensor]:
        shift = ceil(log2(shape[0]) / 2) if len(shape) > 1 else 1
        return {role: _filled(shape, start + at, dtype, shift) for at, role in enumerate(ROLES)}

    return Drawn(drawn((model, model), 3), drawn((width, width), 11), drawn((model,), 19))


# pytest


class PinItem(pytest.Function):
    """One pin. A function, as syrupy asks for: it may use fixtures, and autouse ones apply to it."""

    def reportinfo(self) -> tuple[Any, int | None, str]:
        """Return the test module and what failures are headed with."""
        owner = self.parent.name if self.parent is not None else ""
        return self.path, 0, f"{owner} {self.name}"

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the differences alone; anything else is shown as usual."""
        if not isinstance(excinfo.value, NotAsPinned):
            return super().repr_failure(excinfo)
        shown = excinfo.getrepr(style="value")
        if shown.reprcrash is not None:
            shown.reprcrash.path, shown.reprcrash.lineno = str(self.path), 1
            shown.reprcrash.message = excinfo.value.summary
        return shown


def pin_items(owner: pytest.Collector, implementation: Implementation) -> Iterator[PinItem]:
    """Yield an item for each pin of what was registered."""
    for pin in pins(implementation):
        item = PinItem.from_parent(owner, name=pin.name, callobj=_function_of(pin))
        item.add_marker("attention")
        if pin.name != "pin_conventions":
            item.add_marker(f"attention_{pin.dtype}")
        yield item


def _function_of(pin: Pin) -> Callable[[pytest.FixtureRequest], None]:
    def pinned(request: pytest.FixtureRequest) -> None:
        snapshot = _assertion(request.node)
        with telling_interrupts_apart(), process_state_kept():
            observed = pin.observe()
        if not snapshot == observed:
            raise _difference(request.node, snapshot)

    pinned.__name__ = pin.name
    return pinned


def _assertion(item: pytest.Item) -> SnapshotAssertion:
    """Return syrupy's assertion for an item.

    Its fixture `snapshot` would also have it look after the module's `__snapshots__`, and other plugins give that name
    to fixtures of their own.
    """
    session, option = getattr(item.config, "_syrupy", None), item.config.option
    if session is None:
        raise ConformanceError(
            "pin=True needs the plugin of syrupy, which this run switches off. Leave out -p no:syrupy, or deselect the "
            "pins with -k 'not pin_'."
        )
    later = {"update_new_snapshots_only"} & {each.name for each in fields(SnapshotAssertion)}  # from syrupy 6 on
    return SnapshotAssertion(
        session=session, extension_class=PinExtension, test_location=PyTestLocation(item),
        update_snapshots=option.update_snapshots, **{name: getattr(option, name) for name in later},
    )  # fmt: skip


def _difference(item: pytest.Item, snapshot: SnapshotAssertion) -> NotAsPinned:
    """Return what differs, headed by the test and the file. Raises what kept syrupy from comparing."""
    result = snapshot.executions[snapshot.num_executions - 1]
    if result.exception is not None:
        raise result.exception
    file = os.path.relpath(result.snapshot_location, item.config.rootpath)
    lines = snapshot.extension.diff_lines(result.asserted_data or "", result.recalled_data or "")
    return NotAsPinned(f"{item.nodeid} is not as pinned in {safe(file)}", [safe(line) for line in lines])
