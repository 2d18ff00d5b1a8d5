"""Targets given as text: found, imported and described.

module:name            an attribute of a module; `name` may be dotted
path/file.py:name      an attribute of a file
module, path/file.py   everything that it registered
...:name[variant]      one of several ways to call a target that an adapter knows
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from . import adapters
from .capabilities import FIELDS, SETS, VOCABULARY
from .errors import ConformanceError, TargetNotLoaded, UnknownCapability, nearest
from .foreign.edge import Raised, foreign, safe
from .implementation import Implementation, describe, registered
from .results import digest

SETTINGS = ("reference", "parameters", "device", "framework")
"""Keywords of `register` that `--set` accepts beside the capabilities."""

_FILE = re.compile(r"(?P<place>.+\.py)(?:::?(?P<name>[^:]+))?")
_MODULE = re.compile(r"(?P<place>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?:::?(?P<name>[^:]+))?")
_NAME = re.compile(r"(?P<path>[^\W\d]\w*(?:\.[^\W\d]\w*)*)(?:\[(?P<variant>[\w-]+)\])?")


@dataclass(frozen=True)
class Target:
    """A target's text, taken apart. `name` is None where everything registered is meant."""

    text: str
    place: str
    name: str | None
    variant: str | None

    @property
    def is_file(self) -> bool:
        """Whether the place is a file rather than a module."""
        return self.place.endswith(".py")


@dataclass(frozen=True)
class Loaded:
    """One implementation under the name that reports use, and the text that it came from."""

    name: str
    target: str
    implementation: Implementation


def parse_target(text: str) -> Target:
    """Take a target apart. Raises TargetNotLoaded for a text of another form."""
    outer = _FILE.fullmatch(text) or _MODULE.fullmatch(text)
    inner = None if outer is None or outer["name"] is None else _NAME.fullmatch(outer["name"])
    if outer is None or (outer["name"] is not None and inner is None):
        raise TargetNotLoaded(
            f"{safe(text)!r} is no target. Write module:name, or path/file.py:name for a file, "
            "for example torch.nn.functional:scaled_dot_product_attention."
        )
    return Target(text, outer["place"], inner and inner["path"], inner and inner["variant"])


def holds_one(text: str) -> bool:
    """Whether a target names one implementation, as opposed to everything that a module registers."""
    try:
        return parse_target(text).name is not None
    except TargetNotLoaded:
        return True


def load(text: str, settings: Mapping[str, Any] | None = None) -> tuple[Loaded, ...]:
    """Import a target and return what it holds, with `settings` (as from `parse_settings`) put over its declarations.

    What was made by `register` keeps its declarations; for anything else an adapter is consulted, and without one
    it is held to the documents' conventions. A file is imported under a name of its own, with its folder on sys.path.

    Raises TargetNotLoaded, or what `register` raises for the settings.
    """
    target = parse_target(text)
    module = _import_file(target) if target.is_file else _import_module(target)
    settings = dict(settings or {})
    if target.name is None:
        return _everything(target, module, settings)
    found = _resolve(target, target.name, module)
    return (Loaded(safe(text), text, _implementation(target, found, settings)),)


def _everything(target: Target, module: ModuleType, settings: Mapping[str, Any]) -> tuple[Loaded, ...]:
    loaded: dict[str, Loaded] = {}
    for name, entry in registered(vars(module)):
        full, number = f"{target.place}::{name}", 2
        while full in loaded:
            full, number = f"{target.place}::{name} ({number})", number + 1
        loaded[full] = Loaded(safe(full), target.text, _declared(entry, settings))
    if not loaded:
        raise TargetNotLoaded(
            f"{target.text} registers nothing. Name what is meant, {target.text}:name, or register it there "
            f"(from attention_conformance import register).{_listed(vars(module))}"
        )
    return tuple(loaded.values())


# Imports


def _import_module(target: Target) -> ModuleType:
    try:
        return foreign(importlib.import_module, target.place)
    except Raised as error:
        missing = getattr(error.__cause__, "name", None) if isinstance(error.__cause__, ModuleNotFoundError) else None
        if missing is not None and f"{target.place}.".startswith(f"{missing}."):
            raise TargetNotLoaded(_no_module(target, missing)) from error
        raise TargetNotLoaded(_import_failed(target, error)) from error


def _no_module(target: Target, missing: str) -> str:
    parent, _, _ = missing.rpartition(".")
    places = getattr(sys.modules.get(parent), "__path__", None) if parent else None
    known = [f"{parent}.{info.name}" if parent else info.name for info in pkgutil.iter_modules(places)]
    hint = nearest(missing, known)
    if target.name is None and parent:
        hint = f"; for something inside the module {parent}, write {parent}:{missing[len(parent) + 1 :]}."
    return (
        f"{target.text}: there is no module {missing!r}{hint} It is searched for in this environment and in the "
        f"current folder; for a file write its path, {missing.replace('.', '/')}.py:name."
    )


def _import_file(target: Target) -> ModuleType:
    path = Path(target.place).resolve()
    if not path.is_file():
        beside = [other.name for other in path.parent.glob("*.py")] if path.parent.is_dir() else []
        raise TargetNotLoaded(f"{target.text}: there is no file {path}{nearest(path.name, beside)} Check the path.")
    name = f"attention_conformance_target_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)}_{digest(str(path))}"
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TargetNotLoaded(f"{target.text}: {path} cannot be imported as Python. Check the path.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        foreign(spec.loader.exec_module, module)
    except Raised as error:
        del sys.modules[name]
        raise TargetNotLoaded(_import_failed(target, error)) from error
    return module


def _import_failed(target: Target, error: Raised) -> str:
    advice = "Import it in Python first, and repair what that shows."
    if isinstance(error.__cause__, ModuleNotFoundError):
        advice = "Install what is missing into this environment, next to attention-conformance."
    if "is not a package" in error.text:
        advice = "A file or folder beside it hides the package of that name: give it another name."
    if "relative import" in error.text:
        advice = "Name it as part of its package, package.module:name, from the folder that holds the package."
    return f"{target.text}: while importing {target.place}, {error}. {advice}"


# Names


def _resolve(target: Target, name: str, module: ModuleType) -> object:
    found: object = module
    walked = target.place
    for part in name.split("."):
        try:
            found = foreign(getattr, found, part)
        except Raised as error:
            if not isinstance(error.__cause__, AttributeError):
                raise TargetNotLoaded(f"{target.text}: while looking up {part!r} in {walked}, {error}.") from error
            held = getattr(found, "__dict__", {})
            names = [each for each in held if not each.startswith("_")]
            raise TargetNotLoaded(
                f"{target.text}: {walked} has no {part!r}{nearest(part, names)}{_listed(held)}"
            ) from None
        walked = f"{walked}.{part}"
    return found


def _listed(namespace: Mapping[str, Any], limit: int = 8) -> str:
    """Return " It holds a, b, c." over what may be meant."""
    callables = [name for name, value in namespace.items() if not name.startswith("_") and callable(value)]
    shown = ", ".join(callables[:limit]) + (", ..." if len(callables) > limit else "")
    return f" It holds {safe(shown)}." if callables else ""


def _implementation(target: Target, found: object, settings: Mapping[str, Any]) -> Implementation:
    if isinstance(found, Implementation):
        _no_variant(target, ())
        return _declared(found, settings)
    if isinstance(found, ModuleType):
        held = _listed(vars(found))
        raise TargetNotLoaded(f"{target.text} is a module. Name what is meant: {target.text}.name.{held}")
    known = adapters.find(found)
    if target.variant is not None or known:
        _no_variant(target, tuple(known))
        return known[target.variant].describe(settings, found)
    if not callable(found):
        raise TargetNotLoaded(
            f"{target.text} is {type(found).__name__}, which can be neither called nor built. Name a function, a class or an instance."
        )
    return describe(found, **settings)


def _no_variant(target: Target, variants: Iterable[str | None]) -> None:
    known = tuple(variants) or (None,)
    if target.variant not in known:
        base = target.text.partition("[")[0]
        forms = ", ".join(base if variant is None else f"{base}[{variant}]" for variant in known)
        raise TargetNotLoaded(
            f"{target.text}: there is no variant {target.variant!r}"
            f"{nearest(target.variant, [name for name in known if name])} Known: {forms}."
        )


def _declared(entry: Implementation, settings: Mapping[str, Any]) -> Implementation:
    """Return a registered implementation with some declarations replaced."""
    if not settings:
        return entry
    own = entry.reference.deviations if entry.target is entry.reference.load() else ()
    keywords: dict[str, Any] = {
        "reference": entry.reference.name, "call": entry.call, "parameters": entry.parameters, "name": entry.name,
        "framework": entry.framework, "device": entry.device,
        "deviations": tuple(each for each in entry.deviations if each not in own),
    }  # fmt: skip
    capabilities = {name: getattr(entry.capabilities, name) for name in entry.given}
    return describe(entry.target, **{**keywords, **capabilities, **settings})


# Settings


class InvalidSetting(ConformanceError, ValueError):
    """A `--set` that is no NAME=VALUE."""


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Return `NAME=VALUE` texts as keywords of `register`.

    A value is a word, a number, None, or several words joined by commas where the capability holds a set.

    Raises InvalidSetting or UnknownCapability; values are checked where they are used.
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name:
            raise InvalidSetting(f"--set {pair!r} has no '='. Write --set NAME=VALUE, such as --set empty_row=zeros.")
        known = (*FIELDS, *SETTINGS)
        if name not in known:
            raise UnknownCapability(
                f"--set {pair!r}: there is no capability {name!r}{nearest(name, known)} Known: {', '.join(known)}."
            )
        settings[name] = _value(name, value)
    return settings


def _value(name: str, text: str) -> Any:
    if name in SETS or (name in ("mask_shapes", "widths") and text not in ("broadcast", "any")):
        words = [word.strip().strip("'\"") for word in text.strip("()[]" if name != "mask_shapes" else "").split(",")]
        made = tuple(word for word in words if word and word.lower() != "none")
        return tuple(int(word) if word.isdigit() else word for word in made) if name == "widths" else made
    if name in VOCABULARY or name == "scale" or name in SETTINGS:
        return _literal(text)
    return text


def _literal(text: str) -> Any:
    """Return a number, None, a quoted text or a dictionary as Python reads it, and everything else as it stands."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
