"""Child processes, so that a crash, a hang or a leak costs nobody else: the parent's side and the child's."""

TIMEOUT = 60.0
"""Seconds that one step of a child - a record, an experiment, a measured call - may take unless told otherwise."""
