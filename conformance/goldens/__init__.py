"""The golden vectors that ship with the suite."""

from .files import Golden, read

__all__ = ["Golden", "read"]
