"""Golden vectors that ship with the suite: JSON data, read with `importlib.resources`.

Read-only for every run: nothing in this folder passes through a snapshot tool, whose update deletes the
files that it does not know.
"""
