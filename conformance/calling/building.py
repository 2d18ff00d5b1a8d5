"""How a factory of modules is called for a width and a number of heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..errors import UnknownCall
from .names import built_role
from .signature import Parameter, Signature, call_signature, signature_of

MOST_POSITIONS = 2048
"""Length for modules that have to be told the longest one: masks and tables of that size cost little."""


@dataclass(frozen=True)
class Construction:
    """The arguments of a factory, by position and by name, each with what it gets: a role or a constant."""

    target: str
    positional: tuple[str, ...]
    named: tuple[tuple[str, Any], ...] = ()
    problem: str = ""

    def build(self, factory: Any, d_model: int, heads: int) -> Any:
        """Call the factory. Raises UnknownCall where its arguments were not recognised, and what it raises."""
        positional, named = self._arguments(d_model, heads)
        return factory(*positional, **named)

    def written(self, factory: str, d_model: int, heads: int) -> str:
        """Return the call as Python."""
        positional, named = self._arguments(d_model, heads)
        return (
            f"{factory}({', '.join([*map(repr, positional), *(f'{name}={value!r}' for name, value in named.items())])})"
        )

    def _arguments(self, d_model: int, heads: int) -> tuple[list[Any], dict[str, Any]]:
        if self.problem:
            raise UnknownCall(self.problem)
        numbers = {"width": d_model, "heads": heads, "head_width": d_model // heads}
        positional = [numbers[role] for role in self.positional]
        return positional, {name: numbers[value] if isinstance(value, str) else value for name, value in self.named}


def construction_of(factory: Any, name: str, layout: str) -> Construction:
    """Return how a factory is called, by the names of its arguments; `(d_model, heads)` where these say nothing.

    Rates of dropout are set to 0, because dropout makes every result a random one in train mode, where results are
    compared as well. `batch_first` follows the layout. Widths and heads that have to be given, or have a number as
    their default, get those that agree with `d_model` and `heads`. Anything else keeps its default.
    """
    signature = signature_of(factory, built_role)
    if signature is None or signature.more_by_position:
        return Construction(name, ("width", "heads"))
    given = _given(signature, layout)
    unknown = [each.name for each in signature.parameters if each.required and each.name not in given]
    sized = {value for value in given.values() if isinstance(value, str)}
    if not unknown and "width" in sized and sized & {"heads", "head_width"}:
        return _sorted(name, signature, given)
    if _by_order(signature):
        return Construction(name, ("width", "heads"))
    return Construction(name, (), problem=_told(factory, name, signature, given, unknown))


def _given(signature: Signature, layout: str) -> dict[str, Any]:
    """Return what each recognised argument gets: the name of a number that depends on the size, or a constant."""
    given: dict[str, Any] = {}
    for each in signature.parameters:
        value = _value(each, layout)
        if value is not None:
            given[each.name] = value
    return given


def _value(parameter: Parameter, layout: str) -> Any:
    needed = parameter.required or (isinstance(parameter.default, int) and not isinstance(parameter.default, bool))
    role = parameter.role
    if role in ("heads", "head_width"):
        return role
    if role in ("width", "other_width"):
        return "width" if needed else None
    if role == "kv_heads":
        return "heads" if needed else None
    if role == "batch_first":
        return layout.startswith("B")
    if role == "length":
        return MOST_POSITIONS if parameter.required else None
    if role == "dropout":
        number = isinstance(parameter.default, (int, float)) and not isinstance(parameter.default, bool)
        return 0.0 if number or parameter.required else None
    return None


def _sorted(name: str, signature: Signature, given: dict[str, Any]) -> Construction:
    """Put width and heads by position where they come first, as the documents have it, and all else by name."""
    order = [given.get(each.name) for each in signature.parameters[:2] if each.by_position]
    positional = ("width", "heads") if order == ["width", "heads"] else ()
    rest = signature.parameters[len(positional) :]
    if any(not each.by_name for each in rest if each.name in given):
        return Construction(name, ("width", "heads"))
    return Construction(name, positional, tuple((each.name, given[each.name]) for each in rest if each.name in given))


def _by_order(signature: Signature) -> bool:
    """Say whether the documents' order `(d_model, heads)` can be meant: no name contradicts it, and no more is needed."""
    places = [each for each in signature.parameters if each.by_position]
    agree = all(each.role in (None, role) for each, role in zip(places, ("width", "heads"), strict=False))
    needed = [each for each in signature.parameters if each.required]
    return agree and len(places) >= 2 and all(each in places[:2] for each in needed)


def _told(factory: Any, name: str, signature: Signature, given: dict[str, Any], unknown: list[str]) -> str:
    texts = {"width": "d_model", "heads": "heads", "head_width": "d_model // heads"}
    arguments = []
    for each in signature.parameters:
        if each.name in given:
            value = given[each.name]
            arguments.append(f"{each.name}={texts[value] if isinstance(value, str) else repr(value)}")
        elif each.required:
            arguments.append(f"{each.name}=...")
    problem = f"nothing says what to pass for {', '.join(unknown)}" if unknown else "no argument is a number of heads"
    short = getattr(factory, "__name__", "Module")
    called = None if "width" in given.values() else call_signature(factory)
    if called is not None and called.has("query", "key", "value") and not unknown:
        return (
            f"{name} is built as {signature}, without a width or heads, and called as {called}. If its instances are "
            f"kernels, register one of them: register({short}())"
        )
    return (
        f"{name} is built as {signature}, and {problem}. Register a function instead: "
        f"def build(d_model, heads): return {short}({', '.join(arguments)}) "
        'and then register(build, reference="MultiHeadAttention")'
    )
