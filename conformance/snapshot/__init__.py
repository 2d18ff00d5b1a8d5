"""Snapshots of numbers for a user's own history, kept by syrupy as one readable file each.

    from attention_conformance.snapshot import PinExtension

    def test_flash(snapshot):
        assert {"output": attend(query, key, value)} == snapshot(extension_class=PinExtension)

    encoding.py      tensors, arrays, dicts and plain data as JSON, and back into text
    differences.py   what differs beyond the tolerance that the file states, in numbers
    places.py        which file belongs to which test
    extension.py     the three of them as an extension of syrupy

Nothing here touches the golden vectors that ship with this package: they never pass through syrupy.
"""

from __future__ import annotations

from .encoding import Tolerance, UnsupportedPin
from .extension import PinExtension
from .places import PinsInSitePackages

__all__ = ["PinExtension", "PinsInSitePackages", "Tolerance", "UnsupportedPin"]
