"""From the names of a target's arguments to a way to call it. Where names say nothing, the documents' order is taken."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..capabilities import Capabilities
from ..references import Reference
from .form import STACKS, Form, Slot
from .names import may_be_mask
from .signature import Parameter, Signature, call_signature

_MASKS = ("mask", "key_mask", "lengths")

_TENSORS = frozenset(("query", "key", "value", "x", "context", "qkv", "kv"))


def form_of(target: Any, reference: Reference, own: Capabilities, name: str) -> Form:
    """Return how to call a kernel or a module under the declared capabilities; `name` is what errors call it.

    Nothing is raised here: a form that was not found tells so when it is used.
    """
    signature = call_signature(target)
    if signature is None:
        return _by_order(reference, own, name)
    return _Recogniser(_known(signature, reference), reference, own, name).form()


def answers_of(target: Any, reference: Reference) -> Mapping[str, Any]:
    """Return the capabilities that the arguments of a callable or a class show, to be taken where nothing is declared.

    One tensor is `inputs="self"`, a query with one tensor for key and value `inputs="context"`; stacked tensors have
    one length and one width. Where no argument can be a mask, none is taken; where one takes lengths, or a mask
    of keys, and no other, these are. A context that may be left out says nothing: what it does besides is not in its name.
    """
    if reference.kind == "module":
        # A partial class is a factory whose modules are known; what a function builds is seen when it is called.
        target = target.func if isinstance(target, partial) else target
        if not inspect.isclass(target):
            return {}
    signature = call_signature(target)
    if signature is None:
        return {}
    known = _known(signature, reference)
    tensors = _tensors(known, None)
    if tensors is None or any(_is_foreign(each, tensors) for each in known.parameters):
        return {}
    return {**_answers_on_inputs(tensors), **_answers_on_masks(known)}


def _answers_on_inputs(tensors: tuple[str, ...]) -> dict[str, Any]:
    if tensors == ("qkv",):
        return {"lengths": "equal", "value_width": "same"}
    if "kv" in tensors:
        return {"value_width": "same"}
    return {} if len(tensors) == 3 else {"inputs": "context" if len(tensors) == 2 else "self"}


def _answers_on_masks(known: Signature) -> dict[str, Any]:
    """Say which masks are taken where no argument is left of which nobody knows what it is."""
    unknown = any(each.role is None and each.default is None for each in known.parameters)
    if unknown or known.more_by_name or known.more_by_position:
        return {}
    held = [role for role in (*_MASKS, "bias") if known.has(role)]
    alone: Mapping[str, dict[str, Any]] = {"lengths": {"mask": ("lengths",)}, "key_mask": {"mask_shapes": ("BS",)}}
    return {"mask": ()} if not held else alone.get(held[0], {}) if len(held) == 1 else {}


def _known(signature: Signature, reference: Reference) -> Signature:
    """Return the signature as the kind of target asks for it.

    A module projects: what it calls `qkv` or `kv` is one tensor. The only tensor, or the only argument that has to be
    given, is the input, whatever its name.
    """
    if reference.kind == "module":
        names = {"qkv": "x", "kv": "context"}
        changed = {each.name: names[each.role] for each in signature.parameters if each.role in names}
        signature = signature.renamed({name: role for name, role in changed.items() if not signature.has(role)})
    tensors = [each for each in signature.parameters if each.role in _TENSORS]
    if len(tensors) == 1 and tensors[0].role in ("key", "value"):
        return signature.renamed({tensors[0].name: "x"})
    if tensors or signature.more_by_position:
        return signature
    open_places = [each for each in signature.parameters if each.role is None and each.default is None]
    required = [each for each in signature.parameters if each.required]
    if len(open_places) < 3 and len(required) == 1 and required[0] is open_places[0]:
        return signature.renamed({required[0].name: "x"})
    return signature


def _tensors(signature: Signature, inputs: str | None) -> tuple[str, ...] | None:
    """Return the roles that carry the inputs, None where the names do not say; `inputs` is None where undeclared."""
    first = next((role for role in ("query", "x") if signature.has(role)), None)
    if first is None:
        return ("qkv",) if signature.has("qkv") else None
    key, value = signature.of("key"), signature.of("value")
    if key is not None and value is not None:
        alone = inputs == "self" and not (key.required or value.required)
        return (first,) if alone else (first, "key", "value")
    if key is not None or value is not None:
        return None
    if signature.has("kv"):
        return (first, "kv")
    context = signature.of("context")
    if context is not None and (context.required or inputs == "context"):
        return (first, "context")
    return (first,)


def _is_foreign(parameter: Parameter, tensors: tuple[str, ...]) -> bool:
    """Say whether an argument has to be given of which nobody knows what it is."""
    if not parameter.required or parameter.role in tensors:
        return False
    return parameter.role is None or parameter.role in _TENSORS


@dataclass(frozen=True)
class _Recogniser:
    """One signature under one declaration."""

    signature: Signature
    reference: Reference
    own: Capabilities
    name: str

    def form(self) -> Form:
        """Return the form by names, or by the documents' order where these say nothing against it."""
        tensors = _tensors(self.signature, self.own.inputs)
        if tensors is None:
            return self._ordered(silent=True)
        problem = self._unfit(tensors)
        if problem:
            ordered = self._ordered(silent=False)
            if not ordered.problem:
                return ordered
        return self._made(self._with_mask(self.signature, tensors), tensors, problem)

    def _unfit(self, tensors: tuple[str, ...]) -> str:
        foreign = [each.name for each in self.signature.parameters if _is_foreign(each, tensors)]
        if foreign:
            return f"nothing says what to pass for {', '.join(foreign)} in {self.signature}"
        shown = {1: "self", 2: "context", 3: "cross"}[len(tensors)]
        if self.own.inputs == "cross" and not set(tensors) & set(STACKS) and shown != "cross":
            also = " (or 'context')" if self.signature.has("context") and shown == "self" else ""
            return f"{self.signature} takes {len(tensors)} of query, key and value: declare inputs={shown!r}{also}"
        if self.own.inputs == "context" and tensors == ("x",):
            return f"{self.signature} takes one tensor: declare inputs='self'"
        return ""

    def _ordered(self, silent: bool) -> Form:
        """Return the form by the documents' order, if no name contradicts it; `silent` where no name says anything."""
        wanted = _in_order(self.reference, self.own)
        places = [each for each in self.signature.parameters if each.by_position]
        named = {"x": "query", "context": "key"}
        agree = all(
            each.role is None or named.get(each.role, each.role) == role
            for each, role in zip(places, wanted, strict=False)
        )
        if not agree or (len(places) < len(wanted) and not self.signature.more_by_position):
            return self._made(self.signature, (), f"the names in {self.signature} do not say what is what")
        roles: dict[str, str | None] = {each.name: role for each, role in zip(places, wanted, strict=False)}
        if len(places) < len(wanted):
            # *args takes the tensors, and what stands behind it goes by name.
            behind = tuple(each for each in self.signature.parameters if not each.by_position)
            form = self._made(replace(self.signature, parameters=behind), wanted, "")
            return replace(form, slots=(*(Slot(role, None) for role in wanted), *form.slots))
        changed = self._with_mask(self.signature.renamed(roles), wanted, required=silent)
        unknown = [each.name for each in changed.parameters if _is_foreign(each, wanted)]
        problem = f"nothing says what to pass for {', '.join(unknown)} in {self.signature}" if unknown else ""
        return self._made(changed, wanted, problem)

    def _with_mask(self, signature: Signature, tensors: tuple[str, ...], required: bool = False) -> Signature:
        """Return the signature with a mask where the documents have it, behind the tensors, if no name tells of one."""
        if signature.has("mask") or signature.has("key_mask") or signature.has("lengths"):
            return signature
        places = [each for each in signature.parameters if each.by_position]
        behind = places[len(tensors)] if len(places) > len(tensors) else None
        if behind is None or any(each.role not in tensors for each in places[: len(tensors)]):
            return signature
        free = behind.role is None and behind.default is None and may_be_mask(behind.name)
        if free and (not behind.required or required or self.reference.mask_required):
            return signature.renamed({behind.name: "mask"})
        return signature

    def _made(self, signature: Signature, tensors: tuple[str, ...], problem: str) -> Form:
        slots = [
            Slot(each.role, each.name if each.by_name else None, each.by_position, each.required, each.default)
            for each in signature.parameters
        ]
        if signature.more_by_position and not any(slot.role in _MASKS for slot in slots):
            slots.append(Slot("mask", None))
        asked = dict(_asked(signature, self.own))
        return Form(self.name, self.own, tensors, tuple(slots), signature.more_by_name, asked, problem)


def _asked(signature: Signature, own: Capabilities) -> Iterator[tuple[str, Any]]:
    """Yield the arguments that ask for the declared second result."""
    if own.second in ("lse", "lse2"):
        role = next((role for role in ("lse", "weights") if signature.has(role)), None)
        if role is not None:
            yield role, True
    if own.second in ("weights", "averaged weights"):
        answers = {"weights": True, "average": own.second != "weights", "per_head": own.second == "weights"}
        yield from ((role, answer) for role, answer in answers.items() if signature.has(role))


def _in_order(reference: Reference, own: Capabilities) -> tuple[str, ...]:
    if own.inputs == "cross":
        return reference.arguments
    return ("query",) if own.inputs == "self" else ("query", "key")


def _by_order(reference: Reference, own: Capabilities, name: str) -> Form:
    """Return the documents' call: tensors and mask by position, options by name."""
    tensors = _in_order(reference, own)
    slots = [Slot(role, None, required=True) for role in tensors]
    mask = Slot("mask", None, required=reference.mask_required)
    return Form(name, own, tensors, (*slots, mask), takes_more=True)
