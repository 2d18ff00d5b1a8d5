"""The report as one page of HTML: nothing is loaded from elsewhere, and nothing that comes from results can run.

The policy in the page's head allows the one style sheet and the one script by their digests, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined

from .combining import Combined
from .overview import overview
from .signs import pieces, visible


def page(combined: Combined) -> str:
    """Return the page for some results."""
    style, script = _resource("page.css"), _resource("page.js")
    policy = (
        f"default-src 'none'; style-src {_source(style)}; script-src {_source(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    template = _environment().get_template("page.html.j2")
    return template.render(page=overview(combined), policy=policy, style=style, script=script)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_resource),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
    )
    environment.filters["pieces"] = pieces
    return environment


def _finalize(value: object) -> object:
    """Make text visible on its way to the page, whatever it came from; what is HTML already is left alone."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _source(text: str) -> str:
    """Return what the policy calls an inline text that has exactly this content."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
