"""How one target is called: which of its arguments gets what, by position or by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..capabilities import Capabilities
from ..cases.layouts import MODULE_LAYOUTS, hides_heads
from ..errors import UnknownCall

if TYPE_CHECKING:
    from .delivered import Delivered

Given = tuple[str, Any]
"""A role and what is passed for it."""

STACKS: Mapping[str, tuple[str, ...]] = {"qkv": ("query", "key", "value"), "kv": ("key", "value")}
"""Roles of arguments that hold several tensors, stacked on a new axis."""

_OFF: Mapping[str, Any] = {
    "causal": False,
    "dropout": 0.0,
    "weights": False,
    "average": False,
    "per_head": False,
    "lse": False,
}
"""What an argument that has to be given gets where nothing is asked of it; the others get None."""

_IN_ORDER = frozenset(("query", "key", "value", "x", "context", "qkv", "kv", "mask", "key_mask", "lengths"))
"""Roles that are passed by position as long as no argument before them is left out; options always go by name."""


_SUGGESTED: Mapping[str, str] = {
    "query": "query", "key": "key", "value": "value", "x": "query", "context": "key", "mask": "mask", "key_mask": "mask",
    "lengths": "mask", "qkv": "torch.stack([query, key, value], 2)", "kv": "torch.stack([key, value], 2)",
}  # fmt: skip
"""What stands for a role in a call that is suggested."""

_INSTEAD: Mapping[str, tuple[str, str]] = {
    "key_mask": ("it takes a mask of keys", "mask_shapes=('BS',)"),
    "lengths": ("it takes lengths", "mask=('lengths',)"),
    "bias": ("it takes what is added to the scores", "mask=('additive',)"),
}
"""What is said where a mask has no place but another argument could serve, and the declaration for it."""


@dataclass(frozen=True)
class Slot:
    """One argument: what it holds (None: nothing that is known), its name (None: by position only), whether it can go
    by position, whether it has to be given, and what it is otherwise."""

    role: str | None
    name: str | None
    by_position: bool = True
    required: bool = False
    default: Any = None

    def unneeded(self, tensors: tuple[str, ...]) -> bool:
        """Say whether it can be left out where `tensors` are passed."""
        return not self.required and bool(tensors) and self.role not in tensors


@dataclass(frozen=True)
class Form:
    """A way to call: `tensors` are the roles that the inputs fill, `slots` the arguments in order, `takes_more` whether
    others may be given by name, `asked` the arguments that ask for the second result. `problem` says why there is no
    such way, and `axis` on which axis packed tensors are stacked."""

    target: str
    own: Capabilities
    tensors: tuple[str, ...]
    slots: tuple[Slot, ...]
    takes_more: bool = False
    asked: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    axis: int | None = None

    @property
    def packed(self) -> str | None:
        """The role that holds several tensors, None without one."""
        return next((role for role in self.tensors if role in STACKS), None)

    def invoke(self, target: Any, sent: Delivered) -> object:
        """Call the target. Raises UnknownCall where an argument has no place, and what the target raises."""
        positional, named = self.bind(sent)
        return target(*(value for _, value in positional), **{name: value for name, (_, value) in named.items()})

    def bind(self, sent: Delivered) -> tuple[list[Given], dict[str, Given]]:
        """Return what is passed by position and by name, each with its role. Raises UnknownCall."""
        if self.problem:
            raise UnknownCall(self.told(self.problem))
        values = self._values(sent)
        positional: list[Given] = []
        named: dict[str, Given] = {}
        skipped: list[Slot] = []
        for slot in self.slots:
            if slot.role is None or slot.role not in values:
                skipped.append(slot)
                continue
            given = (slot.role, _converted(slot, values.pop(slot.role)))
            if slot.name is None:
                # What can only go by position needs everything before it.
                positional += [("default", each.default) for each in skipped]
                skipped = []
                positional.append(given)
            elif slot.by_position and not skipped and not named and slot.role in _IN_ORDER:
                positional.append(given)
            else:
                named[slot.name] = given
        for role, value in values.items():
            if not self.takes_more:
                raise self._refused(role)
            named[role] = (role, value)
        return positional, named

    def _values(self, sent: Delivered) -> dict[str, Any]:
        values: dict[str, Any] = dict(zip(self.tensors, self._inputs(sent), strict=True))
        if sent.mask is not None:
            values[self._mask_role(sent)] = sent.mask
        values |= {**sent.options, **self.asked}
        for slot in self.slots:
            if slot.required and slot.role is not None and slot.role not in values:
                values[slot.role] = self._unasked(slot.role, sent)
        return values

    def _inputs(self, sent: Delivered) -> Iterator[Tensor]:
        for role in self.tensors:
            if role in STACKS:
                yield torch.stack([getattr(sent, name) for name in STACKS[role]], self.axis or 0)
            else:
                yield getattr(sent, {"x": "query", "context": "key"}.get(role, role))

    def _mask_role(self, sent: Delivered) -> str:
        """Return which argument a mask of this shape goes to."""
        held, pattern = {slot.role for slot in self.slots}, sent.pattern or "LS"
        if pattern == "lengths" and "lengths" in held:
            return "lengths"
        for_keys = "key_mask" in held and "L" not in pattern.upper()
        if for_keys and (pattern in ("S", "BS") or "mask" not in held):
            return "key_mask"
        if "mask" not in held and "bias" in held and self.own.mask == ("additive",) and "bias" not in sent.options:
            return "bias"
        return "mask"

    def _unasked(self, role: str, sent: Delivered) -> Any:
        """Return what an argument gets that has to be given although nothing is to be said."""
        if role in ("heads", "kv_heads"):
            return sent.heads[role == "kv_heads"]
        return self._scale(sent) if role == "scale" else _OFF.get(role)

    def _scale(self, sent: Delivered) -> float:
        if not isinstance(self.own.scale, str):
            return self.own.scale
        merged = hides_heads(self.own.layout) or self.own.layout in MODULE_LAYOUTS
        width = sent.query.shape[-1] // (sent.heads[0] if merged else 1)
        return float((width if self.own.scale == "1/sqrt(D)" else width * sent.heads[0]) ** -0.5)

    # Words

    def written(self, target: str, sent: Delivered, names: Mapping[str, str]) -> str:
        """Return the call as Python; `names` are the texts of the tensors (query, key, value, mask, bias)."""
        positional, named = self.bind(sent)
        texts = {"x": names["query"], "context": names["key"], **names}
        for role in ("key_mask", "lengths"):
            texts[role] = names["mask"]
        for role, parts in STACKS.items():
            texts[role] = f"torch.stack([{', '.join(names[part] for part in parts)}], {self.axis or 0})"

        def text(role: str, value: Any) -> str:
            if isinstance(value, Tensor):
                return texts["mask"] if value is sent.mask else texts[role]
            return repr(value)

        arguments = [text(*given) for given in positional]
        return f"{target}({', '.join([*arguments, *(f'{name}={text(*given)}' for name, given in named.items())])})"

    @cached_property
    def suggested(self) -> str:
        """The `call=` that a user can write, with `...` for what only the user knows."""
        options = bool(self.own.options or self.own.causal)
        arguments, gap = [], False
        for slot in self.slots:
            text = _SUGGESTED.get(slot.role or "", "..." if slot.required else None)
            if text is None or (slot.role in ("query", "key", "value", "x", "context") and slot.unneeded(self.tensors)):
                gap = True
                continue
            by_name = slot.name is not None and (gap or text == "..." or not slot.by_position)
            gap = gap or by_name
            arguments.append(f"{slot.name}={text}" if by_name else text)
        more = ", **options" if options else ""
        passed = ", ".join([*arguments, *(["**options"] if options else [])])
        return f"call=lambda f, query, key, value, mask=None{more}: f({passed})"

    def told(self, problem: str) -> str:
        """Return the text of an error: what happened, and the call to write."""
        return f"{self.target}: {problem}. To say how it is called, write {self.suggested}"

    def _refused(self, role: str) -> UnknownCall:
        """Return the error for something that has no place in the call, with the declaration that fits."""
        held = {slot.role for slot in self.slots}
        declare = None
        problem = f"it takes no {role}"
        if role == "mask":
            problem, declare = next((told for other, told in _INSTEAD.items() if other in held), (problem, "mask=()"))
        elif role == "causal":
            declare = "causal=None"
        elif role in self.own.options:
            problem = f"{problem}: leave it out of the declared options"
        return UnknownCall(self.told(problem if declare is None else f"{problem}: declare {declare}"), declare)


def _converted(slot: Slot, value: Any) -> Any:
    """A window given as a pair counts the keys on either side; the one here counts the distance that is too far."""
    if slot.role == "window" and isinstance(slot.default, tuple):
        return (value - 1, value - 1)
    return value
