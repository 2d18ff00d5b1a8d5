"""`register()` and what it returns."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .bridges import FRAMEWORKS, defaults_of
from .calling.recognising import answers_of
from .capabilities import FIELDS, Capabilities, capabilities
from .deviations import Deviation
from .errors import InvalidCapability, InvalidDeviation, InvalidTarget, UnknownCapability, nearest
from .references import Reference, reference_for

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .keywords import Declared

REGISTERED = "__attention_conformance__"
"""Name of the list in a module's globals that remembers what the module registered, in order."""

Call = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Implementation:
    """One path through somebody's code, held to one reference. Made by `register`.

    `target` is a kernel or a factory of modules; `call` how to call it; `parameters` where a module keeps its
    projections; `capabilities` what it offers; `deviations` what it knowingly departs from; `declared` the names of
    the capabilities that differ from the reference's answers, `recognised` those that were read off the arguments of the
    call, `given` those that were declared, whatever the answer; `pin` whether what is observed of it is kept as
    snapshots; `module` the name of the module that registered it.
    """

    target: Callable[..., Any]
    reference: Reference
    capabilities: Capabilities
    call: Call | None = None
    parameters: Mapping[str, str | None] | None = None
    name: str | None = None
    framework: str = "torch"
    device: str = "cpu"
    deviations: tuple[Deviation, ...] = ()
    declared: tuple[str, ...] = ()
    recognised: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    pin: bool = False
    module: str | None = field(default=None, repr=False)

    @property
    def is_module(self) -> bool:
        """Whether the target builds modules rather than being a kernel."""
        return self.reference.kind == "module"

    @property
    def standard(self) -> Capabilities:
        """What is taken where nothing is declared: the reference's answers, within what the framework can do."""
        return capabilities({**self.reference.defaults, **defaults_of(self.framework)}, {})

    @property
    def undeclared(self) -> Implementation:
        """A copy that answers as the reference does, but for what the arguments of its call show."""
        shown = {name: getattr(self.capabilities, name) for name in self.recognised}
        return replace(self, capabilities=replace(self.standard, **shown), deviations=(), declared=(), given=())

    @property
    def label(self) -> str:
        """The given name, or the target's own."""
        return self.name or target_name(self.target)

    def named(self, name: str) -> Implementation:
        """Return a copy under the name that reports shall use."""
        return replace(self, name=name)


def target_name(target: object) -> str:
    """Return `module:qualname` of a target, as far as it has them."""
    if _is_adapted(target):
        return str(getattr(target, "name", target))
    name = getattr(target, "__qualname__", None) or type(target).__qualname__
    return f"{getattr(target, '__module__', None) or type(target).__module__}:{name}"


def register(
    target: Callable[..., Any],
    *,
    reference: str | Callable[..., Any] | None = None,
    call: Call | None = None,
    parameters: Mapping[str, str | None] | None = None,
    name: str | None = None,
    framework: str = "torch",
    device: str = "cpu",
    deviations: Sequence[Deviation] = (),
    pin: bool = False,
    **declared: Unpack[Declared],
) -> Implementation:
    """Register an implementation, remember it for the calling module, and return it.

    `target` is a function (or any callable object), held to the reference `attention`, or a class, held to
    `MultiHeadAttention`; a function that builds modules names its `reference`. `call(target_or_module, query, key,
    value, mask=None, **options)` says how to call an odd one; without it the documents' order is used. `parameters`
    says where a module keeps its projections (see `attention_conformance.parameters`). With `pin` what is observed of
    it - conventions, a few outputs - is kept as snapshots below `snapshots/pinned`, and pytest fails where it changes.
    Other keywords are the fields of `Capabilities`.

    Raises InvalidTarget, UnknownReference, UnknownCapability, InvalidCapability or InvalidDeviation.
    """
    implementation = describe(
        target, reference=reference, call=call, parameters=parameters, name=name, framework=framework, device=device,
        deviations=deviations, pin=pin, **declared,
    )  # fmt: skip
    frame = sys._getframe(1)
    implementation = replace(implementation, module=frame.f_globals.get("__name__"))
    frame.f_globals.setdefault(REGISTERED, []).append(implementation)
    return implementation


def describe(
    target: Callable[..., Any],
    *,
    reference: str | Callable[..., Any] | None = None,
    call: Call | None = None,
    parameters: Mapping[str, str | None] | None = None,
    name: str | None = None,
    framework: str = "torch",
    device: str = "cpu",
    deviations: Sequence[Deviation] = (),
    pin: bool = False,
    **declared: Unpack[Declared],
) -> Implementation:
    """Do what `register` does without remembering the result for any module."""
    if isinstance(target, Implementation):
        raise InvalidTarget(f"{target.label} is registered already; register the function or class itself.")
    if not callable(target):
        raise InvalidTarget(f"{target!r} can be neither called nor built; register a function, a callable or a class.")
    answers: dict[str, Any] = {**(getattr(target, "capabilities", {}) if _is_adapted(target) else {}), **declared}
    _check_names(answers)
    chosen = reference_for(
        target, reference or getattr(target, "reference", None) if _is_adapted(target) else reference
    )
    framework = _framework(target, framework)
    standard = {**chosen.defaults, **defaults_of(framework)}
    recognised = {} if call is not None else {**answers_of(target, chosen)}
    recognised = {name: answer for name, answer in recognised.items() if name not in answers}
    given = tuple(answers)
    answers = {**recognised, **answers}
    own = chosen.deviations if target is chosen.load() else ()
    return Implementation(
        target=target,
        reference=chosen,
        capabilities=_within(framework, capabilities(standard, answers)),
        call=_checked_call(call),
        parameters=parameters,
        name=name,
        framework=framework,
        device=device,
        deviations=own + _deviations(deviations),
        declared=_differing(standard, answers),
        recognised=tuple(recognised),
        given=given,
        pin=_checked_pin(pin),
    )


def _is_adapted(target: object) -> bool:
    """Say whether `packed`, `stepwise` or `projected` made it; such a target brings defaults of its own."""
    return type(target).__module__ in (f"{__package__}.calling.protocols", f"{__package__}.bridges.modules")


def _check_names(declared: Mapping[str, Any]) -> None:
    own = [name for name in inspect.signature(register).parameters if name not in ("target", "declared")]
    for name in declared:
        if name not in FIELDS:
            raise UnknownCapability(
                f"register() has no keyword {name!r}{nearest(name, (*FIELDS, *own))} "
                f"It takes {', '.join(own)} and the capabilities {', '.join(FIELDS)}."
            )


def _checked_call(call: Call | None) -> Call | None:
    if call is not None and not callable(call):
        raise InvalidTarget(f"call={call!r} is not callable; write call=lambda f, query, key, value, mask=None: f(...)")
    return call


def _checked_pin(pin: object) -> bool:
    if not isinstance(pin, bool):
        raise InvalidTarget(f"pin={pin!r} is neither True nor False; the snapshots are named after the registration.")
    return pin


def _framework(target: Callable[..., Any], framework: str) -> str:
    own = getattr(target, "framework", framework) if _is_adapted(target) else framework
    if framework not in FRAMEWORKS:
        raise InvalidTarget(
            f"framework={framework!r} is not known{nearest(framework, FRAMEWORKS)} "
            f"Known: {', '.join(map(repr, FRAMEWORKS))}; for other array libraries see attention_conformance.bridges."
        )
    if framework not in ("torch", own):
        raise InvalidTarget(
            f"framework={framework!r} for {target_name(target)}, which is made for {own!r}; leave framework= out."
        )
    return str(own)


def _within(framework: str, given: Capabilities) -> Capabilities:
    if framework == "numpy" and given.gradient != "none":
        raise InvalidCapability(
            f"gradient={given.gradient!r} with framework='numpy', which has no gradients; leave gradient= out."
        )
    return given


def _deviations(deviations: Sequence[Deviation]) -> tuple[Deviation, ...]:
    for entry in deviations:
        if not isinstance(entry, Deviation):
            raise InvalidDeviation(f"deviations holds {entry!r}; write Deviation('MASK-003', reason='...').")
    return tuple(deviations)


def _differing(standard: Mapping[str, Any], declared: Mapping[str, Any]) -> tuple[str, ...]:
    usual = capabilities(standard, {})
    given = capabilities(standard, declared)
    neutral = ("dtypes", "precision", "device")
    return tuple(name for name in FIELDS if name not in neutral and getattr(usual, name) != getattr(given, name))


def registered(namespace: Mapping[str, Any]) -> list[tuple[str, Implementation]]:
    """Return what a module registered, in order, each under its first name there or its given one.

    `namespace` is the module's dictionary. An implementation without either is called `implementation1` and so on.
    """
    names: dict[int, str] = {}
    for name, value in namespace.items():
        if isinstance(value, Implementation):
            names.setdefault(id(value), name)
    found = []
    for position, entry in enumerate(namespace.get(REGISTERED, ()), 1):
        found.append((entry.name or names.get(id(entry)) or f"implementation{position}", entry))
    return found
