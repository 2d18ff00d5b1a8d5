"""Facts about the machine and about an implementation's origin, for result files."""

from __future__ import annotations

import inspect
import platform
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import datetime, timezone
from functools import lru_cache, partial
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from .adapters import Built
from .foreign.edge import safe
from .loading import Loaded
from .results import Described, Header, digest
from .rulebook import catalogue
from .version import __version__


def header(tier: str, label: str | None, seed: int = 0, shard: str | None = None) -> Header:
    """Return the header of a run, or of a part of it, that starts now."""
    python = platform.python_version()
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu"
    machine = f"{platform.system()}-{platform.machine()}"
    short = ".".join(python.split(".")[:2])
    return Header(
        version=__version__,
        catalogue=catalogue_digest(),
        tier=tier,
        torch=torch.__version__,
        device=device,
        python=python,
        platform=platform.platform(),
        seed=seed,
        environment=f"python{short}-torch{torch.__version__}-{machine}-{device}".replace(" ", "_").lower(),
        label=None if label is None else safe(label),
        started=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        shard=shard,
    )


def catalogue_digest() -> str:
    """Return a digest over the ids and sentences of all rules: files of one digest hold the same questions."""
    return digest("\n".join(f"{rule.id} {rule.sentence}" for rule in sorted(catalogue().values(), key=lambda r: r.id)))


def described(loaded: Loaded, inferred: Mapping[str, str]) -> Described:
    """Return the description of a loaded implementation; `inferred` is what a probe found, with what was seen."""
    target = _innermost(loaded.implementation.target)
    name, version = _distribution(getattr(target, "__module__", None) or type(target).__module__)
    return Described(
        name=loaded.name,
        target=safe(loaded.target),
        distribution=name,
        distribution_version=version,
        source=_source(target),
        reference=loaded.implementation.reference.name,
        capabilities=_plain(asdict(loaded.implementation.capabilities)),
        recognised=loaded.implementation.recognised,
        inferred={name: safe(text) for name, text in inferred.items()},
    )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _innermost(target: Callable[..., Any]) -> Any:
    while isinstance(target, (partial, Built)):
        target = target.func if isinstance(target, partial) else target.target
    return target


def _source(target: Any) -> str | None:
    """Return a digest of the file that defines the target, None where there is none."""
    try:
        own = inspect.unwrap(target)
        path = inspect.getsourcefile(own if inspect.isroutine(own) or inspect.isclass(own) else type(own))
        return None if path is None else digest(Path(path).read_text(encoding="utf-8", errors="replace"))
    except (TypeError, OSError, ValueError):
        return None


@lru_cache(maxsize=1)
def _distributions() -> Mapping[str, list[str]]:
    return metadata.packages_distributions()


def _distribution(module: str) -> tuple[str | None, str | None]:
    top = module.split(".")[0]
    if top in sys.stdlib_module_names:
        return None, None
    names = _distributions().get(top, [])
    if not names:
        return None, None
    return names[0], metadata.version(names[0])
