"""Sphinx: `tox -e docs` builds the site into docs/_build/html."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# The derived pages are made by docs.derived, which reads what the tests measured.
sys.path.insert(0, str(ROOT))

from attention_conformance import __version__  # noqa: E402

project = "attention-conformance"
author = "The attention-conformance authors"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "docs.derived"]
exclude_patterns = ["_build", "_derived/*.md"]

myst_heading_anchors = 4

html_theme = "furo"
html_title = "attention-conformance"
html_copy_source = False
html_show_copyright = False

# Docstrings of this project write code in single backquotes.
default_role = "literal"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
# Types of other projects, whose pages are on the network, and those that are no part of the public surface.
nitpick_ignore_regex = [("py:.*", r"(?!attention_conformance\.[A-Z]).*")]
